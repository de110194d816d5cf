"""Which days and hours count: holiday calendars and execution windows.

Owns the reading of calendar codes ("DE", "DE-BY", "XNYS"), own lists of dates, and window text ("MON-FRI 08:00-18:00").
Called by `core.schedule` (validation) and `core.occurrence` (planning). Guarantees: a bad code, date or window is
refused when it is read, with an `InvalidError`; answers depend on the arguments only; each year is worked out once.
"""

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mainspring.errors import InvalidError

if TYPE_CHECKING:
    from holidays import HolidayBase

MAX_DATES: Final = 5000
MAX_WINDOWS: Final = 100

_DAY: Final = timedelta(days=1)
_CODE = re.compile(r"(?P<place>[A-Z]{2,4})(?:-(?P<part>[A-Za-z0-9-]{1,20}))?")
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WINDOW = re.compile(r"(?:(?P<days>[A-Z,-]+) +)?(?P<h1>[0-9]{2}):(?P<m1>[0-9]{2})-(?P<h2>[0-9]{2}):(?P<m2>[0-9]{2})")
_WEEKDAYS: Final = {name: n for n, name in enumerate(("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"))}


class Calendar:
    """Holidays and weekends of one place, or of an own list of dates (with Saturday and Sunday as the weekend)."""

    def __init__(self, spec: str | tuple[str, ...]) -> None:
        self._years: dict[int, frozenset[date]] = {}
        self._base: HolidayBase | None = None
        self._own: frozenset[date] = frozenset()
        self._weekend = frozenset({5, 6})
        if isinstance(spec, str):
            self._base = _public_holidays(spec)
            self._weekend = frozenset(self._base.weekend)
        else:
            self._own = frozenset(_read_dates(spec))

    def is_holiday(self, day: date) -> bool:
        """Whether the calendar lists the day; a weekend alone is not a holiday."""
        if self._base is None:
            return day in self._own
        listed = self._years.get(day.year)
        if listed is None:
            listed = self._years[day.year] = self._work_out(self._base, day.year)
        return day in listed

    def is_business_day(self, day: date) -> bool:
        """Neither weekend nor holiday."""
        return day.weekday() not in self._weekend and not self.is_holiday(day)

    def next_business_day(self, day: date) -> date:
        """The first business day at or after `day`."""
        while not self.is_business_day(day):
            day += _DAY
        return day

    def holidays_before(self, day: date) -> Iterator[date]:
        """The holidays whose next business day is `day`."""
        if not self.is_business_day(day):
            return
        day -= _DAY
        while not self.is_business_day(day):
            if self.is_holiday(day):
                yield day
            day -= _DAY

    @staticmethod
    def _work_out(base: "HolidayBase", year: int) -> frozenset[date]:
        base.get(date(year, 7, 1))  # makes the package fill the year in
        return frozenset(day for day in base if day.year == year)


@lru_cache(maxsize=256)
def load_calendar(spec: str | tuple[str, ...]) -> Calendar:
    """The calendar of a code or of ISO dates, shared between schedules."""
    return Calendar(spec)


class Windows:
    """Times of the week in which a schedule may fire, on the local clock; the end of each is exclusive.

    A window whose end is not after its start runs into the next day and belongs to the day on which it starts.
    """

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._spans = [_read_window(text) for text in texts]

    def contains(self, wall: datetime) -> bool:
        """Whether the local time lies in a window."""
        minute = wall.hour * 60 + wall.minute
        today, yesterday = wall.weekday(), (wall.weekday() - 1) % 7
        return any(
            (today in days and start <= minute < end) or (yesterday in days and minute < end - 1440)
            for days, start, end in self._spans
        )

    def next_opening(self, wall: datetime) -> datetime:
        """The first start of a window strictly after a local time."""
        midnight = datetime.combine(wall.date(), time())
        openings = (
            midnight + timedelta(days=ahead, minutes=start)
            for ahead in range(8)
            for days, start, _ in self._spans
            if (wall.weekday() + ahead) % 7 in days
        )
        return min(opening for opening in openings if opening > wall)


def _public_holidays(code: str) -> "HolidayBase":
    # Imported here: the package is large, and most processes never need it.
    from holidays import country_holidays, financial_holidays

    match = _CODE.fullmatch(code)
    if match is None:
        raise InvalidError("calendar", f"{code[:80]!a} is not a calendar: use a code such as 'DE', 'DE-BY' or 'US'")
    place, part = match["place"], match["part"]
    try:
        return country_holidays(place, subdiv=part) if len(place) == 2 else financial_holidays(place, part)
    except (NotImplementedError, TypeError):
        what = f"subdivision of {place}" if part else "country (two letters) or exchange (such as XNYS)"
        raise InvalidError("calendar", f"{code!r} is not a known {what}; give a list of dates instead") from None


def _read_dates(texts: tuple[str, ...]) -> list[date]:
    if not 0 < len(texts) <= MAX_DATES:
        raise InvalidError("calendar", f"an own calendar has 1 to {MAX_DATES} dates, not {len(texts)}")
    return [_read_date(text) for text in texts]


def _read_date(text: str) -> date:
    try:
        if isinstance(text, str) and _ISO_DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise InvalidError("calendar", f"{str(text)[:80]!a} is not a date: write it as '2026-12-24'")


def _read_window(text: str) -> tuple[frozenset[int], int, int]:
    """Weekdays, and start and end in minutes after midnight of the start day."""
    match = _WINDOW.fullmatch(text.strip(" ").upper()) if isinstance(text, str) and len(text) <= 80 else None
    if match is None:
        raise InvalidError("windows", f"{str(text)[:80]!a} is not a window: write for example 'MON-FRI 08:00-18:00'")
    start, end = _minutes(text, match["h1"], match["m1"]), _minutes(text, match["h2"], match["m2"])
    if start == end or start == 1440:
        raise InvalidError("windows", f"{text!r} is empty: the whole day is '00:00-24:00'")
    return _read_weekdays(text, match["days"] or "MON-SUN"), start, end if end > start else end + 1440


def _minutes(text: str, hour: str, minute: str) -> int:
    minutes = int(hour) * 60 + int(minute)
    if int(minute) > 59 or minutes > 1440:
        raise InvalidError("windows", f"{hour}:{minute} in {text!r} is not a time of day (00:00 to 24:00)")
    return minutes


def _read_weekdays(text: str, days: str) -> frozenset[int]:
    found: set[int] = set()
    for item in days.split(","):
        first, dash, last = item.partition("-")
        try:
            start, end = _WEEKDAYS[first], _WEEKDAYS[last if dash else first]
        except KeyError:
            raise InvalidError("windows", f"{item!r} in {text!r} is not a weekday: use MON to SUN") from None
        found.update((start + n) % 7 for n in range((end - start) % 7 + 1))
    return frozenset(found)
