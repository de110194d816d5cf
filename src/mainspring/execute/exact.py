"""JSON that says exactly what was meant, or is refused.

Used for arguments and results. JSON has no NaN and no infinity, msgspec writes them as null, and integers beyond 64
bits come back changed from most readers; so a value that holds one is refused instead of altered. The search for them
costs nothing in the common case: `may_alter` looks at the encoded bytes, and only where they hold a null or a very
long number are the values themselves walked.
"""

import math
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mainspring.errors import InvalidError

_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**63 - 1
_long_number = re.compile(rb"[0-9]{19}").search

encode = msgspec.json.Encoder().encode


def exact_json(field: str, value: object) -> bytes:
    """InvalidError if it has no such form."""
    try:
        data = encode(value)
        problem = number_problem(value) if may_alter(data) else None
    except Exception as error:  # a value's own code may raise anything
        raise InvalidError(field, words(error)) from None
    if problem is not None:
        raise InvalidError(field, problem)
    return data


def may_alter(data: bytes) -> bool:
    """Could these bytes hide a number that JSON changed?"""
    return b"null" in data or _long_number(data) is not None


def number_problem(value: object) -> str | None:
    """What is wrong with a number inside `value`, if anything is; `value` has been encoded before, so it has an end."""
    for number in _numbers(msgspec.to_builtins(value)):
        if isinstance(number, float):
            if not math.isfinite(number):
                return f"{number} has no JSON form; use None or a text instead"
        elif not _MIN_INT <= number <= _MAX_INT:
            return "an integer beyond 64 bits does not survive JSON; pass it as text"
    return None


def words(error: Exception) -> str:
    """Why encoding or decoding failed, in words for a person."""
    match error:
        case RecursionError():
            return "is nested too deeply"
        case UnicodeError():
            return "holds text that is not valid Unicode (half of a surrogate pair)"
        case msgspec.MsgspecError():
            return _decapitalised(str(error))
        case ValueError() if "digits" in str(error):
            return "an integer beyond 64 bits does not survive JSON; pass it as text"
    return _decapitalised(str(error)) or type(error).__name__


def _numbers(value: Any) -> Iterable[int | float]:
    """Every number in plain lists, tuples and dicts (keys are text by then)."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
        elif isinstance(item, int | float):
            yield item


def _decapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]
