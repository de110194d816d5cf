"""What people type, read strictly: JSON as text, from standard input or from a file.

Called by the commands before anything is written. Guarantees: what is accepted is stored exactly as it was meant; everything else
is an `InvalidError` in well under a second, whatever the text is.
"""

import sys
from pathlib import Path
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from mainspring.core.decoding import refused
from mainspring.core.jsontext import MOST_TEXT, read_object
from mainspring.errors import InvalidError

T = TypeVar("T")


def read_arguments(given: str) -> dict[str, Any]:
    """A job's arguments: JSON as text, `-` for standard input, `@FILE` for a file."""
    return read_object("args", fetched("args", given))


def read_document(field: str, given: str, type: type[T]) -> T:
    """A JSON object of a kind: as text, `-` for standard input, `@FILE` for a file."""
    value = read_object(field, fetched(field, given))
    try:
        return convert(value, type)
    except ValidationError as error:
        raise refused(error, field) from None


def fetched(field: str, given: str) -> str | bytes:
    """The text itself, or that of standard input (`-`) or of a file (`@FILE`)."""
    try:
        if given == "-":
            return sys.stdin.buffer.read(MOST_TEXT + 1)
        if given.startswith("@"):
            with Path(given[1:]).open("rb") as file:
                return file.read(MOST_TEXT + 1)
    except OSError as error:
        raise InvalidError(field, f"cannot read {given[1:]}: {error.strerror}") from None
    return given
