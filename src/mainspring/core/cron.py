"""When a cron expression fires next, in any time zone, under a chosen daylight-saving rule.

Owns the search and the daylight-saving rules; the syntax is in `core.cron_fields`. Called by `core.occurrence`, and by
anyone who wants plain cron. Guarantees, for every zone and rule: `next(t) > t`; the answer is the smallest occurrence a
brute-force scan would find; a later `t` never gives an earlier answer; an expression that can never fire answers `None`
at once. Times outside the years 2 to 9999 do not exist here: they give `None`, never an exception.

How it works: matching is done on wall clock time without a zone, where "next" is arithmetic on bit masks. The zone
comes in only at two places: where `after` lies in a repeated hour, and where the wall clock time found lies in a
skipped one. Both show in the two offsets that a zone gives for the two values of `fold`: no transition list is needed.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, Literal, get_args
from zoneinfo import ZoneInfo

from mainspring.core.cron_fields import Fields, parse
from mainspring.errors import InvalidError

Dst = Literal["vixie", "interval", "skip", "repeat"]
Days = Literal["or", "and"]

# The rarest expression that fires at all, 29 February on a given weekday, waits 40 years at most.
_HORIZON_YEARS: Final = 100
_SECOND: Final = timedelta(seconds=1)
_ZERO: Final = timedelta(0)
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
_PRIVATE_ZONES = ("right/", "posix/", "posixrules", "localtime")  # leap-second copies, and the machine's own setting
_MONTH_LENGTH = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Cron:
    """One expression in one time zone.

    `dst` says what happens when clocks change (`docs/reference/cron.md` has the table). In short: "vixie" moves a fixed
    time out of a gap and runs it once in an overlap, while entries with `*` in minute or hour, or with seconds, follow
    elapsed time; "interval" moves every time out of a gap, and runs whatever has a `*`, a range or a step in both
    passes of an overlap; "skip" drops times in a gap and runs once in an overlap; "repeat" drops them and runs twice.

    `days` says how day of month and weekday combine when both are restricted. A field that starts with `*` is not
    restricted, as in Vixie's cron; under "repeat", whose tradition is another, `*/2` is.
    """

    __slots__ = ("_fields", "_masks", "_repeat", "_shift", "_zone", "days", "dst", "expr", "tz")

    def __init__(self, expr: str, tz: str = "UTC", dst: Dst = "vixie", days: Days = "or") -> None:
        self._fields = parse(expr)
        self._zone = load_zone(tz)
        require_choice("dst", dst, get_args(Dst))
        require_choice("days", days, get_args(Days))
        self.expr, self.tz, self.dst, self.days = expr, tz, dst, days
        self._shift, self._repeat = _policy(self._fields, dst)
        self._masks: dict[tuple[int, int], int] = {}

    def __repr__(self) -> str:
        return f"Cron({self.expr!r}, tz={self.tz!r}, dst={self.dst!r}, days={self.days!r})"

    @property
    def zone(self) -> tzinfo:
        """The loaded time zone."""
        return self._zone

    def next(self, after: datetime) -> datetime | None:
        """The first occurrence strictly after `after`, in UTC; `None` if there is none."""
        require_aware("after", after)
        if after.year < 2:
            after = datetime(2, 1, 1, tzinfo=UTC)
        try:
            return self._next(after.astimezone(UTC).replace(microsecond=0))
        except OverflowError:  # the answer, or the search, left the years that datetime can hold
            return None

    def iterate(self, after: datetime) -> Iterator[datetime]:
        """All occurrences strictly after `after`, in order."""
        found = self.next(after)
        while found is not None:
            yield found
            found = self.next(found)

    def matches(self, moment: datetime) -> bool:
        """Whether `moment` itself is an occurrence."""
        require_aware("moment", moment)
        return moment.year > 2 and self.next(moment - _SECOND) == moment

    def _next(self, after: datetime) -> datetime | None:
        if self._zone is UTC:
            wall = self._wall_from(after.replace(tzinfo=None) + _SECOND)
            return None if wall is None else wall.replace(tzinfo=UTC)
        local = after.astimezone(self._zone).replace(tzinfo=None)
        early, late = _offsets(self._zone, local)
        if early > late:
            return self._next_in_overlap(local, early, late)
        return self._resolve(local.replace(fold=0) + _SECOND)

    def _next_in_overlap(self, local: datetime, early: timedelta, late: timedelta) -> datetime | None:
        """`local` is a wall clock time that happens twice; its `fold` says which of the two passes is meant."""
        seam = _seam(self._zone, local, early, late)
        begin, end = seam + late, seam + early  # what both passes show
        start = local.replace(fold=0) + _SECOND
        if local.fold == 0:
            wall = self._wall_from(start)
            if wall is not None and wall < end:
                return (wall - early).replace(tzinfo=UTC)
            start = begin
        if self._repeat:
            wall = self._wall_from(start)
            if wall is not None and wall < end:
                return (wall - late).replace(tzinfo=UTC)
        return self._resolve(end)

    def _resolve(self, start: datetime) -> datetime | None:
        """The instant of the first matching wall clock time from `start` on, which lies in no overlap's second pass."""
        last_year = start.year + _HORIZON_YEARS
        while (wall := self._wall_from(start)) is not None and wall.year <= last_year:
            early, late = _offsets(self._zone, wall)
            if early >= late:
                return (wall - early).replace(tzinfo=UTC)
            seam = _seam(self._zone, wall, early, late)
            if self._shift:
                return seam.replace(tzinfo=UTC)
            start = seam + late
        return None

    def _wall_from(self, start: datetime) -> datetime | None:
        """The first matching wall clock time at or after `start`."""
        fields = self._fields
        year, month, day = start.year, start.month, start.day
        if fields.months >> month & 1 and self._days_in(year, month) >> day & 1:
            found = _time_from(fields, start.hour, start.minute, start.second)
            if found is not None:
                return datetime(year, month, day, *found)  # noqa: DTZ001  wall clock time has no zone
        following = self._day_after(year, month, day)
        if following is None:
            return None
        first = _first(fields.hours), _first(fields.minutes), _first(fields.seconds)
        return datetime(*following, *first)  # noqa: DTZ001

    def _day_after(self, year: int, month: int, day: int) -> tuple[int, int, int] | None:
        months = self._fields.months
        left = self._days_in(year, month) >> (day + 1) if months >> month & 1 else 0
        if left:
            return year, month, day + 1 + _first(left)
        last_year = min(year + _HORIZON_YEARS, 9999)
        while True:
            ahead = months >> (month + 1)
            if ahead:
                month += 1 + _first(ahead)
            else:
                year, month = year + 1, _first(months)
                if year > last_year:
                    return None
            mask = self._days_in(year, month)
            if mask:
                return year, month, _first(mask)

    def _days_in(self, year: int, month: int) -> int:
        """The mask of matching days of a month; only its length and the weekday of its 1st matter, so it is kept."""
        leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        key = _MONTH_LENGTH[month] + leap, date(year, month, 1).isoweekday() % 7
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = self._combine(*key)
        return mask

    def _combine(self, length: int, first: int) -> int:
        fields = self._fields
        by_day, by_weekday = fields.days.in_month(length, first), fields.weekdays.in_month(length, first)
        return by_day & by_weekday if self.days == "and" or self._one_is_free() else by_day | by_weekday

    def _one_is_free(self) -> bool:
        """Whether one of the day fields leaves the choice to the other: the two traditions differ about `*/2`."""
        if self.dst == "repeat":
            return self._fields.day_plain or self._fields.weekday_plain
        return self._fields.day_free or self._fields.weekday_free


def load_zone(name: object) -> tzinfo:
    """The IANA time zone of that name; anything else, paths above all, is an `InvalidError`."""
    if not isinstance(name, str) or not _ZONE_NAME.fullmatch(name) or name.startswith(_PRIVATE_ZONES):
        raise InvalidError("tz", f"{str(name)[:80]!a} is not a time zone: use an IANA name such as 'Europe/Berlin'")
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise InvalidError("tz", f"{name!r} is unknown here: use an IANA name such as 'Europe/Berlin'") from None


def to_instant(zone: tzinfo, wall: datetime) -> datetime:
    """The UTC instant of a wall clock time: the first of two in an overlap, the end of the gap for a skipped one."""
    early, late = _offsets(zone, wall)
    instant = wall - early if early >= late else _seam(zone, wall, early, late)
    return instant.replace(tzinfo=UTC)


def require_aware(field: str, value: object) -> datetime:
    """`value` if it is a datetime that knows its offset."""
    if not isinstance(value, datetime):
        raise InvalidError(field, f"must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidError(field, "has no time zone: use for example datetime.now(UTC)")
    return value


def require_choice(field: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse what is not one of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidError(field, f"{str(value)[:80]!a} is not allowed: use one of {', '.join(allowed)}")


def _policy(fields: Fields, dst: Dst) -> tuple[bool, bool]:
    """Whether times in a gap move to its end, and whether times in an overlap run in both passes."""
    if dst == "vixie":
        elapsed = fields.wild or fields.six
        return not elapsed, elapsed
    if dst == "interval":
        return True, fields.interval
    return False, dst == "repeat"


def _first(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _time_from(fields: Fields, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
    """The first matching time of day at or after the given one."""
    if fields.hours >> hour & 1:
        if fields.minutes >> minute & 1:
            left = fields.seconds >> second
            if left:
                return hour, minute, second + _first(left)
        left = fields.minutes >> (minute + 1)
        if left:
            return hour, minute + 1 + _first(left), _first(fields.seconds)
    left = fields.hours >> (hour + 1)
    if left:
        return hour + 1 + _first(left), _first(fields.minutes), _first(fields.seconds)
    return None


def _offsets(zone: tzinfo, wall: datetime) -> tuple[timedelta, timedelta]:
    """The offsets before and after the clock change that `wall` falls into; equal where it falls into none."""
    early = zone.utcoffset(wall.replace(fold=0)) or _ZERO
    return early, zone.utcoffset(wall.replace(fold=1)) or _ZERO


def _seam(zone: tzinfo, wall: datetime, early: timedelta, late: timedelta) -> datetime:
    """The instant (UTC, naive) at which the clock change around `wall` happens, found by bisection."""
    low, high = wall.replace(fold=0) - max(early, late), wall.replace(fold=0) - min(early, late)
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0)
        if middle.replace(tzinfo=UTC).astimezone(zone).utcoffset() == early:
            low = middle
        else:
            high = middle
    return high
