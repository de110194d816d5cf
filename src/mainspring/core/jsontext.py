"""JSON from outside, read strictly: what is accepted is stored exactly as it was meant.

Refused are duplicate names, NaN and infinity, numbers beyond 64 bits, half surrogate pairs, NUL, and more than `MAX_DEPTH` levels.
Every refusal is an `InvalidError` that names the field, in well under a second, whatever the text is. Arguments are stored
without spaces, so that two spellings of the same object are the same bytes.

Most objects are small and plain; `compact` checks those with a few looks at the bytes, because batches bring a hundred thousand.
"""

import json
import math
import re
from functools import lru_cache
from typing import Any, NoReturn

import msgspec

from mainspring.core.job import MAX_ARGUMENTS_BYTES
from mainspring.errors import InvalidError

MAX_DEPTH = 64
MOST_TEXT = 4 * MAX_ARGUMENTS_BYTES  # spaces and escapes may make a text longer than what it says

_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1
_doubtful = re.compile(rb"\\|[0-9]{19}").search

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def compact(field: str, data: bytes) -> bytes:
    """A JSON object as it is stored."""
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH and _doubtful(data) is None:
        try:
            value = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            value = None  # the slow way says what is wrong
        if type(value) is dict:
            made = _encode(value)
            # Without backslashes each quote begins or ends a text: none is missing, so no name was there twice.
            if made.count(b'"') == data.count(b'"'):
                return _sized(field, made)
    return _sized(field, _encode(read_object(field, data)))


def read_object(field: str, data: bytes | str) -> dict[str, Any]:
    """A JSON object as values."""
    if len(data) > MOST_TEXT:
        raise InvalidError(field, f"the text is longer than {MOST_TEXT:,} characters")
    try:
        value = _decoder(field).decode(data if isinstance(data, str) else data.decode())
    except UnicodeDecodeError:
        raise InvalidError(field, "the text is not valid UTF-8") from None
    except RecursionError:
        raise _too_deep(field) from None
    except json.JSONDecodeError as error:
        raise InvalidError(field, f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    if not isinstance(value, dict):
        raise InvalidError(field, f'expected a JSON object such as \'{{"to": "a@b.c"}}\', got {_named(value)}')
    check_object(field, value)
    return value


def encode_object(field: str, values: dict[str, Any]) -> bytes:
    """Values that somebody decoded, as they are stored."""
    check_object(field, values)
    return _sized(field, _encode(values))


def check_object(field: str, values: dict[str, Any]) -> None:
    """Refuse what JSON cannot say, or what would be something else when it is read again."""
    level: list[Any] = [values]
    for _ in range(MAX_DEPTH):
        level = [inner for value in level for inner in _inside(field, value)]
        if not level:
            return
    raise _too_deep(field)


def _inside(field: str, value: Any) -> list[Any]:
    """The objects and lists in one of them; everything else in it is checked here."""
    found = []
    if type(value) is dict:
        for name in value:
            if type(name) is not str:
                raise InvalidError(field, f"a name is {_named(name)}; names are texts")
            _check_text(field, name)
        items = value.values()
    else:
        items = value
    for item in items:
        if type(item) is dict or type(item) is list:
            found.append(item)
        else:
            _check_plain(field, item)
    return found


def _check_plain(field: str, item: object) -> None:
    kind = type(item)
    if kind is str:
        _check_text(field, item)  # type: ignore[arg-type]
    elif kind is int:
        if not _MIN_INT <= item <= _MAX_INT:  # type: ignore[operator]
            raise _beyond(field, str(item) if abs(item) < 10**30 else "there")  # type: ignore[arg-type]
    elif kind is float:
        if not math.isfinite(item):  # type: ignore[arg-type]
            raise InvalidError(field, f"{item} is not JSON; use null or a text instead")
    elif item is not None and kind is not bool:
        raise InvalidError(field, f"holds a value of type {kind.__name__}, which JSON does not have")


def _check_text(field: str, text: str) -> None:
    if "\0" in text:
        raise InvalidError(field, "a text holds a NUL character, which many systems cannot store")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidError(field, "a text holds half of a surrogate pair, which is not valid Unicode")


def _sized(field: str, data: bytes) -> bytes:
    if len(data) > MAX_ARGUMENTS_BYTES:
        raise InvalidError(field, f"{len(data):,} bytes of JSON are too many: the limit is {MAX_ARGUMENTS_BYTES:,}")
    return data


def _too_deep(field: str) -> InvalidError:
    return InvalidError(field, f"the JSON is nested too deeply: {MAX_DEPTH} levels are allowed")


def _beyond(field: str, digits: str) -> InvalidError:
    return InvalidError(field, f"the number {digits[:30]} does not fit in 64 bits; pass it as a text")


def _named(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null" if value is None else type(value).__name__)


def _twice(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    return next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]


@lru_cache(maxsize=64)
def _decoder(field: str) -> json.JSONDecoder:
    """Refuses while it reads what cannot be seen any more in the values, and what would take long to make."""

    def pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise InvalidError(field, f"the name {_twice(pairs)!a} is there twice")
        return found

    def whole(digits: str) -> int:
        if len(digits) > 20:
            raise _beyond(field, digits)
        return int(digits)

    def real(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise InvalidError(field, f"the number {digits[:30]} is too large")
        return value

    def constant(name: str) -> NoReturn:
        raise InvalidError(field, f"{name} is not JSON; use null or a text instead")

    return json.JSONDecoder(object_pairs_hook=pairs, parse_int=whole, parse_float=real, parse_constant=constant)
