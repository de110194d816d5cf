from datetime import date, datetime
from typing import Any

import pytest

from mainspring.core.calendar import MAX_DATES, Calendar, Windows, load_calendar
from mainspring.errors import InvalidError


@pytest.mark.parametrize(
    ("code", "day", "listed"),
    [
        ("DE", date(2024, 12, 25), True),
        ("DE", date(2024, 12, 24), False),
        ("DE", date(2024, 12, 22), False),  # a plain Sunday
        ("DE-BY", date(2024, 1, 6), True),
        ("DE-BE", date(2024, 1, 6), False),
        ("US", date(2021, 12, 31), True),  # New Year's Day 2022 is observed here
        ("US", date(2024, 7, 4), True),
        ("XNYS", date(2024, 3, 29), True),
    ],
)
def test_public_holidays(code: str, day: date, listed: bool) -> None:
    assert load_calendar(code).is_holiday(day) is listed


def test_next_business_day() -> None:
    germany = load_calendar("DE")
    assert germany.next_business_day(date(2024, 12, 25)) == date(2024, 12, 27)
    assert germany.next_business_day(date(2024, 12, 24)) == date(2024, 12, 24)
    assert germany.next_business_day(date(2024, 3, 29)) == date(2024, 4, 2)  # Good Friday to Easter Tuesday
    assert list(germany.holidays_before(date(2024, 4, 2))) == [date(2024, 4, 1), date(2024, 3, 29)]
    assert list(germany.holidays_before(date(2024, 4, 3))) == []
    assert list(germany.holidays_before(date(2024, 4, 1))) == []


def test_the_weekend_is_the_countrys_own() -> None:
    assert load_calendar("IL").next_business_day(date(2024, 1, 5)) == date(2024, 1, 7)  # Friday to Sunday


def test_own_dates() -> None:
    own = Calendar(("2024-12-24", "2024-12-23"))
    assert own.is_holiday(date(2024, 12, 24))
    assert not own.is_holiday(date(2025, 12, 24))
    assert own.next_business_day(date(2024, 12, 21)) == date(2024, 12, 25)


@pytest.mark.parametrize(
    "spec",
    [
        *("", "de", "XX", "ZZZZ", "DE-", "DE-ZZ", "XNYS-A", "../DE", "DE\0", "\ud800", "D" * 100),
        *((), ("2024-02-30",), ("20240101",), ("2024-01-01T00:00",), ("tomorrow",), ("2024-01-01",) * (MAX_DATES + 1)),
    ],
)
def test_bad_calendars(spec: Any) -> None:
    with pytest.raises(InvalidError) as caught:
        Calendar(spec)
    assert caught.value.field == "calendar"
    str(caught.value).encode()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("windows", "inside", "outside"),
    [
        (
            ("MON-FRI 08:00-18:00",),
            ["2024-01-01T08:00", "2024-01-05T17:59:59"],
            ["2024-01-01T07:59:59", "2024-01-01T18:00", "2024-01-06T12:00"],
        ),
        (
            ("fri-mon 22:00-02:00",),
            ["2024-01-05T22:00", "2024-01-06T01:59", "2024-01-09T01:00"],
            ["2024-01-05T01:00", "2024-01-06T02:00", "2024-01-09T22:00"],
        ),
        (("00:00-24:00",), ["2024-01-01T00:00", "2024-01-07T23:59:59"], []),
        (("22:00-24:00",), ["2024-01-01T23:00"], ["2024-01-01T00:00"]),
        (("MON,WED 08:00-09:00", "SUN 10:00-11:00"), ["2024-01-03T08:30", "2024-01-07T10:00"], ["2024-01-02T08:30"]),
    ],
)
def test_windows(windows: tuple[str, ...], inside: list[str], outside: list[str]) -> None:
    assert all(Windows(windows).contains(at(text)) for text in inside)
    assert not any(Windows(windows).contains(at(text)) for text in outside)


def test_next_opening_is_strictly_later() -> None:
    windows = Windows(("MON 08:00-09:00", "WED 22:00-02:00"))
    assert windows.next_opening(at("2024-01-01T07:00")) == at("2024-01-01T08:00")
    assert windows.next_opening(at("2024-01-01T08:00")) == at("2024-01-03T22:00")
    assert windows.next_opening(at("2024-01-03T23:00")) == at("2024-01-08T08:00")
    assert Windows(("MON 08:00-09:00",)).next_opening(at("2024-01-01T08:00")) == at("2024-01-08T08:00")


@pytest.mark.parametrize(
    "text",
    [
        *("", "08:00", "8:00-9:00", "08:00-08:00", "24:00-08:00", "25:00-26:00", "08:60-09:00", "FOO 08:00-09:00"),
        *("MON- 08:00-09:00", "MON-FRI", "MON-FRI 08:00-09:00 UTC", "-MON 08:00-09:00", "\ud800", "0" * 1000),
    ],
)
def test_bad_windows(text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        Windows((text,))
    assert caught.value.field == "windows"
    str(caught.value).encode()
