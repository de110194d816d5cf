"""Reads cron text into sets of allowed values.

Owns the syntax: five or six fields, lists, ranges, steps, names, `L`, `W`, `#`, `?` and the `@` macros. Called by
`core.cron` only, which owns everything about time. Guarantees: any text is either read or refused with a `CronError`
that names the field, in time linear in the text; nothing here knows a date.

A set of values is an integer bit mask (bit n = value n), so that "the next allowed value" is one shift.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from mainspring.errors import CronError

MAX_LENGTH = 1000

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@every_minute": "* * * * *",
    "@every_second": "* * * * * *",
}
_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES, 1)}
_WEEKDAYS = {name: n for n, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}

_ITEM = re.compile(r"(?:(?P<star>[*?])|(?P<low>[0-9]+|[A-Z]+)(?:-(?P<high>[0-9]+|[A-Z]+))?)(?:/(?P<step>[0-9]+))?")
_DAY_MARK = re.compile(r"L(?:-(?P<offset>[0-9]+))?(?P<last_w>W)?|(?P<near>[0-9]+)W")
_WEEKDAY_MARK = re.compile(r"(?P<value>[0-9]+|[A-Z]{3})(?:(?P<last>L)|#(?P<nth>[0-9]+))")
_PLAIN_STARS = ("*", "?", "*/1", "?/1")
_PLAIN = re.compile(r"[\t\x20-\x7e]*")


class _Field(NamedTuple):
    """What one position of the expression allows."""

    name: str
    low: int
    high: int
    names: dict[str, int]
    size: int  # how many distinct values a reversed range wraps around


_SECOND = _Field("second", 0, 59, {}, 60)
_MINUTE = _Field("minute", 0, 59, {}, 60)
_HOUR = _Field("hour", 0, 23, {}, 24)
_DAY = _Field("day", 1, 31, {}, 31)
_MONTH = _Field("month", 1, 12, _MONTHS, 12)
_WEEKDAY = _Field("weekday", 0, 7, _WEEKDAYS, 7)


@dataclass(frozen=True, slots=True)
class DayRule:
    """Days of the month: fixed ones, ones counted back from the last, and whether they move to the nearest weekday."""

    fixed: int = 0
    from_last: tuple[int, ...] = ()
    nearest: bool = False

    def in_month(self, length: int, first: int) -> int:
        """The mask of matching days in a month of `length` days whose 1st is weekday `first` (0 = Sunday)."""
        days = self.fixed & ((2 << length) - 2)
        for offset in self.from_last:
            if offset < length:
                days |= 1 << (length - offset)
        if self.nearest and days:
            return 1 << _nearest_weekday(days.bit_length() - 1, length, first)
        return days


@dataclass(frozen=True, slots=True)
class WeekdayRule:
    """Weekdays (0 = Sunday): every one, the last of the month, or the n-th of the month."""

    every: int = 0
    last: int = 0
    nth: tuple[tuple[int, int], ...] = ()

    def in_month(self, length: int, first: int) -> int:
        """As `DayRule.in_month`."""
        days = 0
        for day in range(1, length + 1):
            weekday = (first + day - 1) % 7
            in_last_week = day + 7 > length and self.last >> weekday & 1
            if self.every >> weekday & 1 or in_last_week or (weekday, (day + 6) // 7) in self.nth:
                days |= 1 << day
        return days


@dataclass(frozen=True, slots=True)
class Fields:
    """One parsed expression."""

    seconds: int
    minutes: int
    hours: int
    months: int
    days: DayRule
    weekdays: WeekdayRule
    day_free: bool  # starts with * or ?
    weekday_free: bool
    day_plain: bool  # is nothing but * or ?
    weekday_plain: bool
    six: bool  # seconds were written
    wild: bool  # minute or hour starts with * or ?
    interval: bool  # second, minute or hour has a *, a range or a step


@dataclass(slots=True)
class _Reader:
    """Collects, while the items of one expression are read, whether it repeats inside the day."""

    interval: bool = field(default=False)

    def values(self, spec: _Field, text: str) -> int:
        """The mask of a field without marks."""
        items = text.split(",")
        mask = 0
        for item in items:
            mask |= self.item(spec, item, alone=len(items) == 1)
        return mask

    def item(self, spec: _Field, item: str, *, alone: bool) -> int:
        match = _ITEM.fullmatch(item)
        if match is None:
            raise CronError(spec.name, f"{item!r} is not a value, a range (a-b) or a step (*/n)")
        if match["star"]:
            if not alone and not match["step"]:
                raise CronError(spec.name, f"{item!r} means every value and has no place in a list")
            low, high = spec.low, spec.high
        else:
            low = _value(spec, match["low"])
            high = _value(spec, match["high"]) if match["high"] else spec.high if match["step"] else low
        if (match["star"] or match["high"] or match["step"]) and spec in (_SECOND, _MINUTE, _HOUR):
            self.interval = True
        return _range_mask(spec, low, high, _step(spec, match["step"]))


def parse(expr: object) -> Fields:
    """Read an expression; a bad one is a `CronError`."""
    texts = _split(expr)
    six = len(texts) == 6
    second, minute, hour, day, month, weekday = texts if six else ["0", *texts]
    reader = _Reader()
    return Fields(
        seconds=reader.values(_SECOND, second),
        minutes=reader.values(_MINUTE, minute),
        hours=reader.values(_HOUR, hour),
        days=_day_rule(reader, day),
        months=reader.values(_MONTH, month),
        weekdays=_weekday_rule(reader, weekday),
        day_free=day[0] in "*?",
        weekday_free=weekday[0] in "*?",
        day_plain=day in _PLAIN_STARS,
        weekday_plain=weekday in _PLAIN_STARS,
        six=six,
        wild=minute[0] in "*?" or hour[0] in "*?",
        interval=reader.interval,
    )


def _split(expr: object) -> list[str]:
    if not isinstance(expr, str):
        raise CronError("expression", f"must be text, not {type(expr).__name__}")
    if len(expr) > MAX_LENGTH:
        raise CronError("expression", f"is longer than {MAX_LENGTH} characters")
    if not _PLAIN.fullmatch(expr):
        raise CronError("expression", "holds a character that cron text never has: use plain ASCII, spaces and tabs")
    text = expr.strip(" \t")
    if text.startswith("@"):
        text = _macro(text)
    texts = text.upper().split()
    if len(texts) not in (5, 6):
        raise CronError("expression", f"has {len(texts)} fields: write five (minute first) or six (second first)")
    return texts


def _macro(text: str) -> str:
    try:
        return _MACROS[text.lower()]
    except KeyError:
        raise CronError("expression", f"{text!r} is unknown: use one of {', '.join(_MACROS)}") from None


def _value(spec: _Field, text: str) -> int:
    number = int(text) if text.isdecimal() and len(text) <= 2 else spec.names.get(text, -1)
    if not spec.low <= number <= spec.high:
        raise CronError(spec.name, f"{text!r} is not allowed: use {spec.low} to {spec.high}{_or_names(spec)}")
    return number


def _or_names(spec: _Field) -> str:
    return f" or {next(iter(spec.names))} to {list(spec.names)[-1]}" if spec.names else ""


def _step(spec: _Field, text: str | None) -> int:
    if text is None:
        return 1
    step = int(text) if len(text) <= 2 else 0
    if not 1 <= step <= spec.high:
        raise CronError(spec.name, f"the step {text!r} must be between 1 and {spec.high}")
    return step


def _range_mask(spec: _Field, low: int, high: int, step: int) -> int:
    if high < low:  # wraps: FRI-MON, 22-2; a Sunday written 7 is then the 0 it wraps to
        low = low % spec.size if spec is _WEEKDAY else low
        high += spec.size if high < low else 0
    mask = 0
    for value in range(low, high + 1, step):
        mask |= 1 << (value if value <= spec.high else value - spec.size)
    if spec is _WEEKDAY:
        mask = (mask | mask >> 7) & 0x7F
    return mask


def _day_rule(reader: _Reader, text: str) -> DayRule:
    items = text.split(",")
    fixed, from_last = 0, []
    for item in items:
        mark = _DAY_MARK.fullmatch(item)
        if mark is None:
            fixed |= reader.item(_DAY, item, alone=len(items) == 1)
        elif item.endswith("W") and len(items) > 1:
            raise CronError("day", f"{item!r} has no place in a list: W stands alone")
        elif mark["near"]:
            return DayRule(fixed=1 << _value(_DAY, mark["near"]), nearest=True)
        else:
            from_last.append(_offset(mark["offset"] or "0"))
    return DayRule(fixed=fixed, from_last=tuple(from_last), nearest=items[0].endswith("W"))


def _offset(text: str) -> int:
    offset = int(text) if len(text) <= 2 else 99
    if offset > 30:
        raise CronError("day", f"'L-{text}' is not allowed: L-0 to L-30")
    return offset


def _weekday_rule(reader: _Reader, text: str) -> WeekdayRule:
    items = text.split(",")
    every, last, nth = 0, 0, []
    for item in items:
        mark = _WEEKDAY_MARK.fullmatch(item)
        if mark is None:
            every |= reader.item(_WEEKDAY, item, alone=len(items) == 1)
        elif mark["last"]:
            last |= 1 << _value(_WEEKDAY, mark["value"]) % 7
        elif mark["nth"] in ("1", "2", "3", "4", "5"):
            nth.append((_value(_WEEKDAY, mark["value"]) % 7, int(mark["nth"])))
        else:
            raise CronError("weekday", f"{item!r} is not allowed: the number after # is 1 to 5")
    return WeekdayRule(every=every, last=last, nth=tuple(nth))


def _nearest_weekday(day: int, length: int, first: int) -> int:
    """Monday to Friday nearest to `day`, never leaving the month."""
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
