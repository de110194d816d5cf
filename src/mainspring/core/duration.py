"""Durations as people write them.

Owns the one spelling of a length of time that options share ("30s", "1h30m", "500ms", a number of seconds, a
`timedelta`). Called by everything that takes an option in time. Guarantees: what is accepted is a finite, non-negative
number of seconds up to 100 years; everything else is an `InvalidError` that names the option.
"""

import math
import re
from datetime import timedelta
from typing import Final

from mainspring.errors import InvalidError

MAX_DURATION_S: Final = 36_525 * 86_400.0

_UNITS: Final = {  # in microseconds
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
}
# Each unit at most once, the longest first; "m" must not swallow the start of "ms".
_TEXT = re.compile("".join(rf"(?:(?P<{unit}>[0-9]{{1,12}}(?:\.[0-9]{{1,6}})?){unit}(?![a-z]) ?)?" for unit in _UNITS))
_HINT = "write for example '30s', '10m', '1h30m' or '2d'"


def parse_duration(field: str, value: object) -> float:
    """Seconds from text, a number of seconds or a `timedelta`; `field` names the option in the error."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        seconds = _from_text(field, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = _from_number(field, value)
    else:
        raise InvalidError(field, f"must be a duration, not {type(value).__name__}: {_HINT}")
    if seconds < 0:
        raise InvalidError(field, "must not be negative")
    if seconds > MAX_DURATION_S:
        raise InvalidError(field, "is longer than 100 years")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest spelling that `parse_duration` reads back to the same microsecond: 5400 is "1h30m"."""
    left = round(parse_duration("seconds", seconds) * 1_000_000)
    parts = []
    for unit, size in _UNITS.items():
        if unit == "ms":
            break
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    if left:
        parts.append(f"{left / 1000:.3f}".rstrip("0").rstrip(".") + "ms")
    return "".join(parts) or "0s"


def _from_number(field: str, value: float) -> float:
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise InvalidError(field, "must be a finite number of seconds")
    return seconds


def _from_text(field: str, text: str) -> float:
    match = _TEXT.fullmatch(text.strip(" ")) if 0 < len(text) <= 80 else None
    found = {unit: count for unit, count in match.groupdict().items() if count} if match else {}
    if not found:
        raise InvalidError(field, f"{text[:80]!a} is not a duration: {_HINT}")
    return sum(float(count) * _UNITS[unit] for unit, count in found.items()) / 1_000_000
