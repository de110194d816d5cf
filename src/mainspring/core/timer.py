"""Time as the engine counts it: whole microseconds since 1970 in UTC (`Micros`).

Inside, a time is an int, because ints are what stores order and compare; at the face it is an aware datetime. These
functions are the only bridge, and they refuse what has no meaning there.
"""

from datetime import UTC, datetime, timedelta

from mainspring.errors import InvalidError

Micros = int

SECOND: Micros = 1_000_000
HOUR: Micros = 3600 * SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - _EPOCH) // _MICROSECOND


def to_micros(field: str, value: object) -> Micros:
    """An aware datetime as Micros."""
    if not isinstance(value, datetime):
        raise InvalidError(field, f"expected a datetime with a time zone, got {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidError(field, f"{value.isoformat()} has no time zone; use datetime.now(UTC) or .replace(tzinfo=…)")
    found = (value - _EPOCH) // _MICROSECOND
    if not _FIRST <= found <= _LAST:  # an offset may lead out of what a datetime in UTC can say
        raise InvalidError(field, f"{value.isoformat()} is out of range in UTC")
    return found


def read_time(field: str, text: object) -> datetime:
    """An ISO 8601 time with its zone, as people and programs write it."""
    try:
        found = datetime.fromisoformat(text.strip()) if isinstance(text, str) else None
    except ValueError:
        found = None
    if found is None:
        raise InvalidError(field, f"{str(text)[:80]!r} is not a time; write it as '2030-01-31T09:00:00Z'")
    if found.utcoffset() is None:
        raise InvalidError(field, f"{text!r} has no time zone; add Z for UTC or an offset such as +02:00")
    to_micros(field, found)
    return found


def from_micros(value: Micros) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def seconds(value: float) -> Micros:
    """A duration in seconds as Micros, rounded up so that nothing starts early."""
    return -int(-value * SECOND // 1)
