"""I21-I24: cron against a brute-force scan, for all rules and for every zone of the installed time zone database."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.cron import Cron, Dst

RULES: list[Dst] = ["vixie", "interval", "skip", "repeat"]
MINUTE = timedelta(minutes=1)
ZONES = sorted(available_timezones() - {"localtime", "posixrules", "Factory"})


# --- the scan: every minute of the wall clock, one by one; shares no code with the engine ----------------------------


class Scan:
    """Plain numbers in the time fields; fields are given as (text, values)."""

    def __init__(self, minutes: set[int], hours: set[int], days: set[int], weekdays: set[int], *, both: bool) -> None:
        self.minutes, self.hours, self.days, self.weekdays, self.both = minutes, hours, days, weekdays, both

    def matches(self, wall: datetime) -> bool:
        if wall.second or wall.minute not in self.minutes or wall.hour not in self.hours:
            return False
        by_day, by_weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (by_day and by_weekday) if self.both else (by_day or by_weekday)

    def occurrences(
        self, zone: ZoneInfo, start: datetime, end: datetime, *, shift: bool, repeat: bool
    ) -> list[datetime]:
        """All in [start, end), which must begin and end on a whole minute with no clock change."""
        found = set()
        instant = start
        while instant < end:
            local = instant.astimezone(zone)
            if self.matches(local) and (repeat or local.fold == 0):
                found.add(instant)
            after = (instant + MINUTE).astimezone(zone)
            missing = local.replace(tzinfo=None, fold=0) + MINUTE
            while shift and missing < after.replace(tzinfo=None, fold=0):  # the clock jumped over these
                if self.matches(missing):
                    found.add(instant + MINUTE)
                missing += MINUTE
            instant += MINUTE
        return sorted(found)


def policy(dst: Dst, *, wild: bool, interval: bool) -> dict[str, bool]:
    """The table of docs/reference/cron.md for expressions of five fields."""
    if dst == "vixie":
        return {"shift": not wild, "repeat": wild}
    if dst == "interval":
        return {"shift": True, "repeat": interval}
    return {"shift": False, "repeat": dst == "repeat"}


@st.composite
def field(draw: st.DrawFn, low: int, high: int) -> tuple[str, set[int]]:
    every = set(range(low, high + 1))
    kind = draw(st.sampled_from(["star", "step", "list", "range", "wrap"]))
    first, last = draw(st.integers(low, high)), draw(st.integers(low, high))
    if kind == "star":
        return "*", every
    if kind == "step":
        step = draw(st.integers(1, high))
        return f"*/{step}", set(range(low, high + 1, step))
    if kind == "list":
        values = draw(st.sets(st.integers(low, high), min_size=1, max_size=4))
        return ",".join(map(str, sorted(values))), values
    if kind == "range" or first <= last:
        first, last = sorted((first, last))
        return f"{first}-{last}", set(range(first, last + 1))
    return f"{first}-{last}", every - set(range(last + 1, first))


# Where clocks change, in different ways: by an hour, by half an hour, at midnight, twice around a month, by a day.
PLACES = [
    ("America/New_York", date(2024, 3, 10)),
    ("America/New_York", date(2024, 11, 3)),
    ("Australia/Lord_Howe", date(2024, 4, 7)),
    ("Australia/Lord_Howe", date(2024, 10, 6)),
    ("America/Santiago", date(2024, 4, 7)),
    ("America/Santiago", date(2024, 9, 8)),
    ("Africa/Casablanca", date(2024, 3, 10)),
    ("Antarctica/Troll", date(2024, 3, 31)),
    ("Antarctica/Troll", date(2024, 10, 27)),
    ("Pacific/Apia", date(2011, 12, 30)),
    ("Asia/Kathmandu", date(2024, 2, 29)),
    ("UTC", date(2024, 12, 31)),
]


@settings(max_examples=150, deadline=None)
@given(
    place=st.sampled_from(PLACES),
    dst=st.sampled_from(RULES),
    minute=field(0, 59),
    hour=field(0, 23),
    day=field(1, 31),
    weekday=field(0, 6),
    both=st.booleans(),
    asked=st.integers(0, 36 * 3600 * 1000),
)
def test_i22_equals_a_scan(
    place: tuple[str, date],
    dst: Dst,
    minute: tuple[str, set[int]],
    hour: tuple[str, set[int]],
    day: tuple[str, set[int]],
    weekday: tuple[str, set[int]],
    both: bool,
    asked: int,
) -> None:
    zone = ZoneInfo(place[0])
    start = datetime(place[1].year, place[1].month, place[1].day, tzinfo=UTC) - timedelta(hours=16)
    end = start + timedelta(hours=44)
    cron = Cron(f"{minute[0]} {hour[0]} {day[0]} * {weekday[0]}", place[0], dst, "and" if both else "or")
    free = ("*", "*/1") if dst == "repeat" else tuple(text for text in (day[0], weekday[0]) if text.startswith("*"))
    anded = both or day[0] in free or weekday[0] in free
    wild = minute[0].startswith("*") or hour[0].startswith("*")
    interval = any(mark in minute[0] + hour[0] for mark in "*-/")
    scan = Scan(minute[1], hour[1], day[1], weekday[1], both=anded)
    expected = scan.occurrences(zone, start, end, **policy(dst, wild=wild, interval=interval))
    moment = start + timedelta(milliseconds=asked)
    later = [found for found in expected if found > moment]
    found = cron.next(moment)
    assert found is None or found > moment
    assert (found if found and found < end else None) == (later[0] if later else None)
    assert list(until(cron, start - MINUTE, end)) == [found for found in expected if found > start - MINUTE]


def until(cron: Cron, after: datetime, end: datetime) -> Iterator[datetime]:
    for found in cron.iterate(after):
        if found >= end:
            return
        yield found


@settings(max_examples=150, deadline=None)
@given(
    fields=st.tuples(field(0, 59), field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)),
    zone=st.sampled_from(ZONES),
    dst=st.sampled_from(RULES),
    first=st.datetimes(datetime(1900, 1, 1), datetime(2500, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    gap=st.timedeltas(timedelta(0), timedelta(days=400)),
)
def test_i21_later_and_i23_monotone(
    fields: tuple[tuple[str, set[int]], ...], zone: str, dst: Dst, first: datetime, gap: timedelta
) -> None:
    cron = Cron(" ".join(text for text, _ in fields), zone, dst)
    early, late = cron.next(first), cron.next(first + gap)
    if early is None:
        assert late is None
        return
    assert early > first
    assert cron.next(early - timedelta(microseconds=1)) == early
    assert late is not None
    assert late > first + gap
    assert early <= late


# --- every zone ------------------------------------------------------------------------------------------------------


@cache
def transitions(name: str) -> tuple[tuple[datetime, timedelta, timedelta], ...]:
    """The clock changes of 2020-2035: the first instant of each, and the offsets before and after."""
    zone, step = ZoneInfo(name), timedelta(days=3)
    found = []
    low = datetime(2020, 1, 1, tzinfo=UTC)
    while low.year < 2036:
        before, after = low.astimezone(zone).utcoffset(), (low + step).astimezone(zone).utcoffset()
        assert before is not None
        assert after is not None
        if before != after:
            found.append((_first_with(zone, after, low, low + step), before, after))
        low += step
    return tuple(found)


def _first_with(zone: ZoneInfo, offset: timedelta, low: datetime, high: datetime) -> datetime:
    while high - low > MINUTE:
        middle = (low + (high - low) / 2).replace(second=0, microsecond=0)
        if middle.astimezone(zone).utcoffset() == offset:
            high = middle
        else:
            low = middle
    return high


def shapes(names: list[str]) -> list[tuple[str, datetime, timedelta, timedelta]]:
    """One change of each kind: same local time, same offsets. The engine sees nothing else of a zone."""
    seen: dict[tuple[object, ...], tuple[str, datetime, timedelta, timedelta]] = {}
    for name in names:
        for seam, before, after in transitions(name):
            seen.setdefault(((seam + before).time(), before, after), (name, seam, before, after))
    return list(seen.values())


EXPRESSIONS = [
    ("17,30 * * * *", {17, 30}, set(range(24)), True, True),
    ("0,45 0-3 * * *", {0, 45}, {0, 1, 2, 3}, False, True),
    ("0,30 0,1,2,3,23 * * *", {0, 30}, {0, 1, 2, 3, 23}, False, False),
]


@pytest.mark.parametrize("letter", sorted({name[0] for name in ZONES}))
def test_every_zone_i22_around_each_kind_of_change(letter: str) -> None:
    for name, seam, before, after in shapes([name for name in ZONES if name[0] == letter]):
        wide = abs(after - before) + timedelta(minutes=70)
        start, end = seam - wide, seam + wide
        for expr, minutes, hours, wild, interval in EXPRESSIONS:
            scan = Scan(minutes, hours, set(range(1, 32)), set(range(7)), both=True)
            for dst in RULES:
                rule = policy(dst, wild=wild, interval=interval)
                expected = scan.occurrences(ZoneInfo(name), start, end, **rule)
                found = list(until(Cron(expr, name, dst), start - timedelta(microseconds=1), end))
                assert found == expected, (name, seam, expr, dst)


@pytest.mark.parametrize("dst", RULES)
def test_every_zone_i21_and_i23_at_every_change(dst: Dst) -> None:
    around = [timedelta(minutes=minutes) for minutes in (-61, -31, -1, 0, 29, 31, 61)]
    for name in ZONES:
        fixed, often = Cron("30 0,1,2,3 * * *", name, dst), Cron("*/20 * * * *", name, dst)
        for seam, _, _ in transitions(name):
            for cron in (fixed, often):
                answers = [cron.next(seam + offset) for offset in around]
                assert all(
                    found is not None and found > seam + offset for found, offset in zip(answers, around, strict=True)
                )
                assert all(early <= late for early, late in pairwise(answers) if early and late)


def test_every_zone_i24() -> None:
    for name in ZONES:
        assert Cron("0 0 30 2 *", name).next(datetime(2020, 1, 1, tzinfo=UTC)) is None
