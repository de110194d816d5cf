"""What people type, read strictly: JSON arguments, times, ids.

Called by the commands before anything is written. Guarantees: what is accepted is stored exactly as it was meant; everything else
is an `InvalidError` in well under a second, whatever the text is.
"""

import json
import math
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from msgspec import ValidationError, convert

from mainspring.core.decoding import refused
from mainspring.core.job import MAX_ARGUMENTS_BYTES
from mainspring.core.jsontext import read_object
from mainspring.core.options import Duration
from mainspring.core.timer import to_micros
from mainspring.errors import InvalidError

T = TypeVar("T")

_FIELD = "args"
_MOST_TEXT = 4 * MAX_ARGUMENTS_BYTES  # spaces and escapes may make a text longer than what it says
_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1


def read_arguments(given: str) -> dict[str, Any]:
    """A job's arguments: JSON as text, `-` for standard input, `@FILE` for a file."""
    text = fetched(_FIELD, given)
    if len(text) > _MOST_TEXT:
        raise InvalidError(_FIELD, f"the text is longer than {_MOST_TEXT:,} characters")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise InvalidError(_FIELD, "the JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise InvalidError(_FIELD, f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    if not isinstance(value, dict):
        raise InvalidError(_FIELD, f'expected a JSON object such as \'{{"to": "a@b.c"}}\', got {_named(value)}')
    return value


def encoded(values: dict[str, Any]) -> bytes:
    """Arguments as they are stored, where no function is at hand to check them."""
    try:
        data = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
    except RecursionError:
        raise InvalidError(_FIELD, "the JSON is nested too deeply") from None
    if len(data) > MAX_ARGUMENTS_BYTES:
        raise InvalidError(_FIELD, f"{len(data):,} bytes of JSON are too many: the limit is {MAX_ARGUMENTS_BYTES:,}")
    return data


def read_time(field: str, text: str) -> datetime:
    """An ISO 8601 time with its zone."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidError(field, f"{text[:80]!r} is not a time; write it as '2030-01-31T09:00:00Z'") from None
    if found.utcoffset() is None:
        raise InvalidError(field, f"{text!r} has no time zone; add Z for UTC or an offset such as +02:00")
    to_micros(field, found)
    return found


def read_moment(field: str, text: str | None) -> Duration | datetime | None:
    """A duration ('2h') or a time ('2030-01-31T09:00:00Z')."""
    if text is not None and text[:4].isdigit() and text[4:5] == "-":
        return read_time(field, text)
    return text


def read_document(field: str, given: str, type: type[T]) -> T:
    """A JSON object of a kind: as text, `-` for standard input, `@FILE` for a file."""
    value = read_object(field, fetched(field, given))
    try:
        return convert(value, type)
    except ValidationError as error:
        raise refused(error, field) from None


def fetched(field: str, given: str) -> str:
    """The text itself, or that of standard input (`-`) or of a file (`@FILE`)."""
    try:
        if given == "-":
            return sys.stdin.buffer.read(_MOST_TEXT + 1).decode()
        if given.startswith("@"):
            with Path(given[1:]).open("rb") as file:
                return file.read(_MOST_TEXT + 1).decode()
    except UnicodeDecodeError:
        raise InvalidError(field, "the text is not valid UTF-8") from None
    except OSError as error:
        raise InvalidError(field, f"cannot read {given[1:]}: {error.strerror}") from None
    return given


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidError(_FIELD, f"the name {name!a} is there twice")
        _check_text(name)
        found[name] = value
        _check_value(value)
    return found


def _check_value(value: Any) -> None:
    """Texts, also those in lists; objects inside have been checked when they were made."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            _check_text(item)
        elif isinstance(item, list):
            stack.extend(item)


def _check_text(text: str) -> None:
    if "\0" in text:
        raise InvalidError(_FIELD, "a text holds a NUL character, which many systems cannot store")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidError(_FIELD, "a text holds half of a surrogate pair, which is not valid Unicode")


def _int(digits: str) -> int:
    value = int(digits) if len(digits) <= 20 else _MAX_INT + 1
    if not _MIN_INT <= value <= _MAX_INT:
        raise InvalidError(_FIELD, f"the number {digits[:30]} does not fit in 64 bits; pass it as a text")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise InvalidError(_FIELD, f"the number {digits[:30]} is too large")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidError(_FIELD, f"{name} is not JSON; use null or a text instead")


def _named(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_int, parse_float=_float, parse_constant=_refuse_constant
)
