"""What msgspec says about a document, as an error of ours that names the field. Pure."""

from msgspec import ValidationError

from mainspring.errors import InvalidError

_FIELD_IN_TEXT = {
    "Object contains unknown field ": "is no field here; check its spelling",
    "Object missing required field ": "is missing",
}


def refused(error: ValidationError, where: str = "") -> InvalidError:
    """`Expected int - at $.a[0].b` -> (`a[0].b`, `expected int`). `where`: the field that the document is in."""
    what, _, place = str(error).partition(" - at `$")
    field = place.rstrip("`").lstrip(".")
    for start, words in _FIELD_IN_TEXT.items():
        if what.startswith(start):
            name = what[len(start) :].strip("`")
            field, what = f"{field}.{name}" if field else name, words
            break
    inside = f"{where}.{field}" if where and field and not field.startswith("[") else where + field
    return InvalidError(inside or "body", what[:1].lower() + what[1:])
