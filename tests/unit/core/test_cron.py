"""Cron by example: syntax, day rules, the four daylight-saving rules, bad input."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from time import perf_counter
from typing import Any

import pytest

from mainspring.core.cron import Cron, Days, Dst, to_instant
from mainspring.errors import CronError, InvalidError

START = datetime(2024, 1, 1, tzinfo=UTC)  # a Monday


def times(expr: str, count: int, after: datetime = START, **options: Any) -> list[str]:
    return [f"{found:%m-%d %H:%M:%S}" for found in islice(Cron(expr, **options).iterate(after), count)]


def days(expr: str, count: int, after: datetime = START, **options: Any) -> list[str]:
    return [f"{found:%m-%d}" for found in islice(Cron(expr, **options).iterate(after), count)]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("*/15 * * * *", ["01-01 00:15:00", "01-01 00:30:00", "01-01 00:45:00"]),
        ("5/20 * * * *", ["01-01 00:05:00", "01-01 00:25:00", "01-01 00:45:00"]),
        ("0 22-2/2 * * *", ["01-01 02:00:00", "01-01 22:00:00", "01-02 00:00:00"]),
        ("0 12 * * FRI-MON", ["01-01 12:00:00", "01-05 12:00:00", "01-06 12:00:00"]),
        ("0 12 * * 7-1", ["01-01 12:00:00", "01-07 12:00:00", "01-08 12:00:00"]),
        ("0 12 * * 5-7", ["01-05 12:00:00", "01-06 12:00:00", "01-07 12:00:00"]),
        ("0 0 1 nov-FEB *", ["02-01 00:00:00", "11-01 00:00:00", "12-01 00:00:00"]),
        ("10,*/30 0 * * *", ["01-01 00:10:00", "01-01 00:30:00", "01-02 00:00:00"]),
        ("*/25 0 0 ? * ?", ["01-01 00:00:25", "01-01 00:00:50", "01-02 00:00:00"]),
        (" \t0  0\t* * * ", ["01-02 00:00:00", "01-03 00:00:00", "01-04 00:00:00"]),
        ("@Weekly", ["01-07 00:00:00", "01-14 00:00:00", "01-21 00:00:00"]),
        ("@every_second", ["01-01 00:00:01", "01-01 00:00:02", "01-01 00:00:03"]),
        ("@every_minute", ["01-01 00:01:00", "01-01 00:02:00", "01-01 00:03:00"]),
        ("@hourly", ["01-01 01:00:00", "01-01 02:00:00", "01-01 03:00:00"]),
        ("@yearly", ["01-01 00:00:00", "01-01 00:00:00", "01-01 00:00:00"]),
    ],
)
def test_fields(expr: str, expected: list[str]) -> None:
    assert times(expr, 3) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("0 0 L * *", ["01-31", "02-29", "03-31"]),
        ("0 0 L-3 * *", ["01-28", "02-26", "03-28"]),
        ("0 0 LW * *", ["01-31", "02-29", "03-29"]),  # 31 March is a Sunday
        ("0 0 L-2W * *", ["01-29", "02-27", "03-29"]),
        ("0 0 15,L * *", ["01-15", "01-31", "02-15"]),
        ("0 0 1W * *", ["02-01", "03-01", "04-01"]),
        ("0 0 1W 6,9 *", ["06-03", "09-02", "06-02"]),  # a Saturday and a Sunday: never into the month before
        ("0 0 31W 3,4,8 *", ["03-29", "08-30", "03-31"]),  # April has no 31st
        ("0 0 * * 5L", ["01-26", "02-23", "03-29"]),
        ("0 0 * * FRIL", ["01-26", "02-23", "03-29"]),
        ("0 0 * * MON#2", ["01-08", "02-12", "03-11"]),
        ("0 0 * * MON#1,MON#3", ["01-15", "02-05", "02-19"]),
        ("0 0 * * 0#5", ["03-31", "06-30", "09-29"]),
        ("0 0 29 2 *", ["02-29", "02-29", "02-29"]),
    ],
)
def test_day_marks(expr: str, expected: list[str]) -> None:
    assert days(expr, 3) == expected


@pytest.mark.parametrize(
    ("expr", "rule", "expected"),
    [
        ("0 0 13 * FRI", "or", ["01-05", "01-12", "01-13"]),
        ("0 0 13 * FRI", "and", ["09-13", "12-13", "06-13"]),
        ("0 0 */10 * MON", "or", ["03-11", "04-01", "07-01"]),  # a leading * restricts nothing of its own
        ("0 0 13 * ?", "or", ["01-13", "02-13", "03-13"]),
        ("0 0 1-31 * FRI", "or", ["01-02", "01-03", "01-04"]),  # a written range does restrict
    ],
)
def test_day_and_weekday(expr: str, rule: Days, expected: list[str]) -> None:
    assert days(expr, 3, days=rule) == expected


BEFORE_GAP = datetime(2024, 3, 10, 6, 30, tzinfo=UTC)  # New York 01:30; 02:00 becomes 03:00 at 07:00 UTC
BEFORE_OVERLAP = datetime(2024, 11, 3, 4, 45, tzinfo=UTC)  # New York 00:45; 02:00 becomes 01:00 at 06:00 UTC


@pytest.mark.parametrize(
    ("dst", "expr", "gap", "overlap"),
    [
        # a fixed time
        ("vixie", "30 1,2 * * *", ["10 07:00", "11 05:30"], ["03 05:30", "03 07:30"]),
        ("interval", "30 1,2 * * *", ["10 07:00", "11 05:30"], ["03 05:30", "03 07:30"]),
        ("skip", "30 1,2 * * *", ["11 05:30", "11 06:30"], ["03 05:30", "03 07:30"]),
        ("repeat", "30 1,2 * * *", ["11 05:30", "11 06:30"], ["03 05:30", "03 06:30"]),
        # a range of hours
        ("vixie", "30 0-2 * * *", ["10 07:00", "11 04:30"], ["03 05:30", "03 07:30"]),
        ("interval", "30 0-2 * * *", ["10 07:00", "11 04:30"], ["03 05:30", "03 06:30"]),
        ("skip", "30 0-2 * * *", ["11 04:30", "11 05:30"], ["03 05:30", "03 07:30"]),
        ("repeat", "30 0-2 * * *", ["11 04:30", "11 05:30"], ["03 05:30", "03 06:30"]),
        # every hour
        ("vixie", "30 * * * *", ["10 07:30", "10 08:30"], ["03 05:30", "03 06:30"]),
        ("interval", "30 * * * *", ["10 07:00", "10 07:30"], ["03 05:30", "03 06:30"]),
        ("skip", "30 * * * *", ["10 07:30", "10 08:30"], ["03 05:30", "03 07:30"]),
        ("repeat", "30 * * * *", ["10 07:30", "10 08:30"], ["03 05:30", "03 06:30"]),
        # seconds written: vixie follows elapsed time
        ("vixie", "0 30 1,2 * * *", ["11 05:30", "11 06:30"], ["03 05:30", "03 06:30"]),
    ],
)
def test_clock_changes(dst: Dst, expr: str, gap: list[str], overlap: list[str]) -> None:
    cron = Cron(expr, "America/New_York", dst)
    assert [f"{found:%d %H:%M}" for found in islice(cron.iterate(BEFORE_GAP), 2)] == gap
    assert [f"{found:%d %H:%M}" for found in islice(cron.iterate(BEFORE_OVERLAP), 2)] == overlap


def test_a_step_over_days_restricts_under_repeat_only() -> None:
    assert days("0 0 */10 * MON", 4, dst="repeat") == ["01-08", "01-11", "01-15", "01-21"]
    assert days("0 0 */10 * MON", 2, dst="skip") == ["03-11", "04-01"]


def test_asking_inside_the_second_pass() -> None:
    second_pass = datetime(2024, 11, 3, 6, 10, tzinfo=UTC)  # New York 01:10 again
    assert Cron("30 1 * * *", "America/New_York").next(second_pass) == datetime(2024, 11, 4, 6, 30, tzinfo=UTC)
    assert Cron("30 1 * * *", "America/New_York", "repeat").next(second_pass) == datetime(
        2024, 11, 3, 6, 30, tzinfo=UTC
    )
    assert Cron("0 2 * * *", "America/New_York").next(second_pass) == datetime(2024, 11, 3, 7, 0, tzinfo=UTC)


def test_a_skipped_day_is_a_gap() -> None:
    # Samoa had no 30 December 2011.
    after = datetime(2011, 12, 29, 23, 0, tzinfo=UTC)
    assert Cron("0 12 30 12 *", "Pacific/Apia").next(after) == datetime(2011, 12, 30, 10, 0, tzinfo=UTC)
    skipping = Cron("0 12 30 12 *", "Pacific/Apia", "skip").next(after)
    assert skipping is not None
    assert skipping.year == 2012


def test_half_hour_change() -> None:
    cron = Cron("45 1 * * *", "Australia/Lord_Howe", "repeat")  # 02:00 becomes 01:30 at 15:00 UTC
    after = datetime(2024, 4, 6, 14, 0, tzinfo=UTC)
    assert [f"{found:%d %H:%M}" for found in islice(cron.iterate(after), 2)] == ["06 14:45", "06 15:15"]


def test_answers_are_utc_and_strictly_later() -> None:
    berlin = timezone(timedelta(hours=2))
    found = Cron("* * * * * *").next(datetime(2024, 6, 1, 12, 0, 0, 999_999, tzinfo=berlin))
    assert found == datetime(2024, 6, 1, 10, 0, 1, tzinfo=UTC)
    assert found.tzinfo is UTC


def test_matches() -> None:
    cron = Cron("30 2 * * *", "Europe/Berlin")
    assert cron.matches(datetime(2024, 1, 1, 1, 30, tzinfo=UTC))
    assert not cron.matches(datetime(2024, 1, 1, 1, 30, 0, 1, tzinfo=UTC))
    assert not cron.matches(datetime(2024, 1, 1, 2, 30, tzinfo=UTC))


def test_to_instant_in_gap_and_overlap() -> None:
    zone = Cron("* * * * *", "America/New_York").zone
    assert to_instant(zone, datetime.fromisoformat("2024-03-10T02:30")) == datetime(2024, 3, 10, 7, tzinfo=UTC)
    assert to_instant(zone, datetime.fromisoformat("2024-11-03T01:30")) == datetime(2024, 11, 3, 5, 30, tzinfo=UTC)


@pytest.mark.parametrize("tz", ["UTC", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("dst", ["vixie", "interval", "skip", "repeat"])
def test_i24_never_answers_at_once(tz: str, dst: Dst) -> None:
    for expr in ("0 0 30 2 *", "* * * 31 2,4,6,9,11 *", "0 0 L-30 2 *", "0 0 31W 4 *"):
        cron = Cron(expr, tz, dst)
        began = perf_counter()
        assert cron.next(START) is None
        assert perf_counter() - began < 0.1  # ten times the promise: the machine may be busy


def test_i24_always_in_the_gap() -> None:
    cron = Cron("30 2 * 3 SUN#2", "America/New_York", "skip")
    assert cron.next(START) is None


def test_the_rarest_day_is_found() -> None:
    cron = Cron("0 0 29 2 MON", days="and")
    found = [f"{moment:%Y-%m-%d}" for moment in islice(cron.iterate(datetime(2070, 1, 1, tzinfo=UTC)), 2)]
    assert found == ["2072-02-29", "2112-02-29"]


@pytest.mark.parametrize("tz", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_the_ends_of_time(tz: str) -> None:
    cron = Cron("0 0 1 1 *", tz)
    assert cron.next(datetime.max.replace(tzinfo=UTC)) is None
    assert cron.next(datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))) is None
    assert cron.next(datetime(9999, 6, 1, tzinfo=UTC)) is None
    found = cron.next(datetime.min.replace(tzinfo=timezone(timedelta(hours=14))))
    assert found is not None
    assert found.year in (2, 3)


@pytest.mark.parametrize(
    ("expr", "field"),
    [
        ("60 * * * * *", "second"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day"),
        ("* * 5,LW * *", "day"),
        ("* * L-31 * *", "day"),
        ("* * 1,*  * *", "day"),
        ("* * * 0 *", "month"),
        ("* * * JANUARY *", "month"),
        ("* * * * 8", "weekday"),
        ("* * * * L", "weekday"),
        ("* * * * MON#6", "weekday"),
        ("*/0 * * * *", "minute"),
        ("*/100 * * * *", "minute"),
        ("1-2-3 * * * *", "minute"),
        ("1//2 * * * *", "minute"),
        ("005 * * * *", "minute"),
        (", * * * *", "minute"),
        ("", "expression"),
        ("   ", "expression"),
        ("* * * *", "expression"),
        ("* * * * * * *", "expression"),
        ("@reboot", "expression"),
        ("@every 5m", "expression"),
        ("* * * *\n*", "expression"),
        ("* * * * *\0", "expression"),
        ("\ud800 * * * *", "expression"),
        ("٣ * * * *", "expression"),
        ("¹ * * * *", "expression"),
        ("* " * 600, "expression"),
        ("1," * 400 + "1 * * * *", None),
        (None, "expression"),
        (5, "expression"),
        (b"* * * * *", "expression"),
    ],
)
def test_bad_expressions_name_the_field(expr: Any, field: str | None) -> None:
    if field is None:
        Cron(expr)
        return
    with pytest.raises(CronError) as caught:
        Cron(expr)
    assert caught.value.field == field
    str(caught.value).encode()  # printable whatever was given


@pytest.mark.parametrize(
    "tz",
    [
        *("", "../etc/passwd", "/etc/localtime", "localtime", "Europe", "Europe/", "Mars/Base", "europe/../UTC"),
        *("right/UTC", "posix/UTC", "UTC\0", "\ud800", "A" * 10_000, "Europe/Berlin\n", "leapseconds", "zone.tab"),
        *(None, 5, ["UTC"]),
    ],
)
def test_bad_time_zones(tz: Any) -> None:
    with pytest.raises(InvalidError) as caught:
        Cron("* * * * *", tz)
    assert caught.value.field == "tz"


@pytest.mark.parametrize(("field", "value"), [("dst", "never"), ("dst", None), ("days", "xor"), ("days", ["or"])])
def test_bad_options(field: str, value: Any) -> None:
    options: dict[str, Any] = {field: value}
    with pytest.raises(InvalidError) as caught:
        Cron("* * * * *", **options)
    assert caught.value.field == field


@pytest.mark.parametrize("after", [datetime.fromisoformat("2024-01-01"), "2024-01-01", None, 0])
def test_naive_times_are_refused(after: Any) -> None:
    with pytest.raises(InvalidError) as caught:
        Cron("* * * * *").next(after)
    assert caught.value.field == "after"
