"""Templates of jobs: JSON with typed holes, and filling them in. Pure.

In a template's arguments and options the object `{"$": "name"}`, exactly so, stands for the placeholder of that name. Nothing else
has a meaning: texts are never searched, and what is filled in is never looked at again, so a value cannot become a marker.
What is refused names its path: `arguments.to`, `options.tags[0]`, `values.count`, `placeholders.count.default`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct

from mainspring.core.options import check_name
from mainspring.core.timer import read_time
from mainspring.errors import InvalidError

MARKER = "$"
MAX_DEPTH = 64
MAX_PLACEHOLDERS = 1000
_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1

PlaceholderType = Literal["text", "integer", "number", "boolean", "time", "object", "list"]


class Placeholder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A typed hole in a template. Without a default it must be filled in.

    `choices` are all values it may have. `least` and `most` bound a number, or the length of a text or a list.
    """

    type: PlaceholderType = "text"
    default: Any = UNSET
    description: str = ""
    choices: list[Any] | None = None
    least: float | None = None
    most: float | None = None


Placeholders = Mapping[str, Placeholder]


def check_template(arguments: dict[str, Any], options: dict[str, Any], placeholders: Placeholders) -> None:
    """Every marker is declared, every placeholder is used, and each makes sense by itself."""
    if len(placeholders) > MAX_PLACEHOLDERS:
        raise InvalidError("placeholders", f"are {len(placeholders)}; at most {MAX_PLACEHOLDERS} are allowed")
    for name, placeholder in placeholders.items():
        check_name("placeholders", name)
        _check_placeholder(f"placeholders.{name}", placeholder)
    used = set()
    for path, name in (*_markers(arguments, "arguments", 0), *_markers(options, "options", 0)):
        if name not in placeholders:
            known = ", ".join(placeholders) or "none"
            raise InvalidError(path, f"the placeholder {name!a} is not declared; declared are: {known}")
        used.add(name)
    for name in placeholders:
        if name not in used:
            raise InvalidError(f"placeholders.{name}", "stands nowhere in arguments or options; use it or leave it out")


def fill(
    arguments: dict[str, Any], options: dict[str, Any], placeholders: Placeholders, values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments and options of a checked template with these values, and with the defaults of what is left out."""
    for name in values:
        if name not in placeholders:
            known = ", ".join(placeholders) or "none"
            raise InvalidError(f"values.{_step(name)}", f"is no placeholder of this template; there are: {known}")
    chosen = {name: _value(name, placeholder, values) for name, placeholder in placeholders.items()}
    return _filled(arguments, chosen), _filled(options, chosen)


def has_marker(value: Any) -> bool:
    """Does this part of a template hold a hole?"""
    return next(_markers(value, "", 1), None) is not None


def marker_of(value: Any) -> str | None:
    """The name in a marker; None where the value means itself."""
    if isinstance(value, dict) and len(value) == 1:
        name = value.get(MARKER)
        return name if isinstance(name, str) else None
    return None


def _markers(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > MAX_DEPTH:
        raise InvalidError(path, f"is nested deeper than {MAX_DEPTH} levels")
    name = marker_of(value)
    if name is not None and depth:
        yield path, name
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _markers(part, f"{path}.{_step(key)}", depth + 1)
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _markers(part, f"{path}[{place}]", depth + 1)


def _filled(value: Any, chosen: Mapping[str, Any]) -> Any:
    """`value` is a whole: only inside it are markers."""
    if isinstance(value, dict):
        return {key: _part(part, chosen) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_part(part, chosen) for part in value]
    return value


def _part(value: Any, chosen: Mapping[str, Any]) -> Any:
    name = marker_of(value)
    return _filled(value, chosen) if name is None else chosen[name]


def _value(name: str, placeholder: Placeholder, values: Mapping[str, Any]) -> Any:
    if name in values:
        check_value(f"values.{name}", placeholder, values[name])
        return values[name]
    if placeholder.default is UNSET:
        raise InvalidError(f"values.{name}", f"is missing; expected {_WORDS[placeholder.type]}")
    return placeholder.default


def check_value(field: str, placeholder: Placeholder, value: Any) -> None:
    """A value that may fill this hole."""
    if not _TYPES[placeholder.type](field, value):
        raise InvalidError(field, f"expected {_WORDS[placeholder.type]}, got {_shown(value)}")
    if placeholder.choices is not None and value not in placeholder.choices:
        allowed = ", ".join(_shown(choice) for choice in placeholder.choices[:20])
        raise InvalidError(field, f"{_shown(value)} is none of the choices; there are: {allowed}")
    size = len(value) if isinstance(value, str | list | tuple) else value
    of = "" if placeholder.type in ("integer", "number") else " entries or characters"
    if placeholder.least is not None and size < placeholder.least:
        raise InvalidError(field, f"{_shown(value)} is too little; at least {placeholder.least:g}{of} are needed")
    if placeholder.most is not None and size > placeholder.most:
        raise InvalidError(field, f"{_shown(value)} is too much; at most {placeholder.most:g}{of} are allowed")


def _check_placeholder(path: str, placeholder: Placeholder) -> None:
    _check_bounds(path, placeholder)
    if placeholder.choices is not None:
        if not placeholder.choices:
            raise InvalidError(f"{path}.choices", "is empty; name the choices, or leave it out")
        free = Placeholder(type=placeholder.type, least=placeholder.least, most=placeholder.most)
        for place, choice in enumerate(placeholder.choices):
            check_value(f"{path}.choices[{place}]", free, choice)
    if placeholder.default is not UNSET:
        check_value(f"{path}.default", placeholder, placeholder.default)


def _check_bounds(path: str, placeholder: Placeholder) -> None:
    for name, bound in (("least", placeholder.least), ("most", placeholder.most)):
        if bound is None:
            continue
        if placeholder.type not in ("integer", "number", "text", "list"):
            raise InvalidError(f"{path}.{name}", f"bounds numbers, texts and lists, not {_WORDS[placeholder.type]}")
        if not math.isfinite(bound):
            raise InvalidError(f"{path}.{name}", "must be a finite number")
    if placeholder.least is not None and placeholder.most is not None and placeholder.least > placeholder.most:
        raise InvalidError(f"{path}.least", f"{placeholder.least:g} is more than most, {placeholder.most:g}")


def _is_integer(_: str, value: object) -> bool:
    return type(value) is int and _MIN_INT <= value <= _MAX_INT


def _is_number(field: str, value: object) -> bool:
    return _is_integer(field, value) or (isinstance(value, float) and math.isfinite(value))


def _is_time(field: str, value: object) -> bool:
    if not isinstance(value, str) or len(value) > 40:
        return False
    read_time(field, value)  # says itself what is missing, the zone above all
    return True


def _is_object(_: str, value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


_TYPES: dict[str, Callable[[str, object], bool]] = {
    "text": lambda _, value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda _, value: isinstance(value, bool),
    "time": _is_time,
    "object": _is_object,
    "list": lambda _, value: isinstance(value, list | tuple),
}

_WORDS = {
    "text": "a text",
    "integer": "a whole number of at most 64 bits",
    "number": "a finite number",
    "boolean": "true or false",
    "time": "a time with its zone, such as 2030-01-31T09:00:00Z",
    "object": "an object",
    "list": "a list",
}


def _shown(value: object) -> str:
    """A value in an error: short, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    text = ascii(value) if isinstance(value, str | int | float) else _NAMES.get(type(value), type(value).__name__)
    return text if len(text) <= 60 else text[:57] + "..."


def _step(key: object) -> str:
    """One step of a path in an error."""
    return key if isinstance(key, str) and key.isprintable() and len(key) <= 60 else _shown(key)


_NAMES: dict[type, str] = {type(None): "null", dict: "an object", list: "a list"}
