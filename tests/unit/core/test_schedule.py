"""Rules, the occurrences they give, and plans (I17, I28)."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.calendar import Windows, load_calendar
from mainspring.core.cron import Cron
from mainspring.core.occurrence import (
    Missed,
    Plan,
    backfill,
    latest_occurrence,
    next_occurrence,
    plan,
    preview,
)
from mainspring.core.schedule import Overlap, Rule, parse_rule
from mainspring.errors import CronError, InvalidError


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def shown(moments: list[datetime]) -> list[str]:
    return [f"{moment:%m-%d %H:%M}" for moment in moments]


# --- the rule ---------------------------------------------------------------------------------------------------------


def test_a_rule_survives_storage() -> None:
    rule = parse_rule(
        cron="0 9 * * MON-FRI",
        tz="Europe/Berlin",
        dst="skip",
        calendar=["2026-12-24", date(2026, 12, 31)],
        on_holiday="next_business_day",
        windows=["MON-FRI 08:00-18:00"],
        overlap="queue_one",
        catch_up="1h30m",
        catch_up_cap=5,
        jitter="30s",
        start_at="2026-01-01T00:00:00+01:00",
        end_at=at("2030-01-01"),
        max_runs=7,
    )
    assert msgspec.json.decode(msgspec.json.encode(rule), type=Rule) == rule
    assert (rule.catch_up, rule.catch_up_within_s, rule.catch_up_cap, rule.jitter_s) == ("within", 5400, 5, 30)
    assert rule.start_at == datetime(2025, 12, 31, 23, tzinfo=UTC)
    assert rule.calendar == ("2026-12-24", "2026-12-31")
    assert hash(rule) == hash(msgspec.json.decode(msgspec.json.encode(rule), type=Rule))


def test_defaults_and_text_forms() -> None:
    rule = parse_rule(cron=" 0 0 * * * ")
    assert rule == Rule(cron="0 0 * * *")
    assert parse_rule(cron="@daily", catch_up="all").catch_up == "all"
    assert parse_rule(cron="@daily", windows="00:00-01:00").windows == ("00:00-01:00",)


BAD_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("tz", {"tz": "../etc/passwd"}),
    ("tz", {"tz": None}),
    ("dst", {"dst": "sometimes"}),
    ("days", {"days": 1}),
    ("calendar", {"calendar": "XX"}),
    ("calendar", {"calendar": []}),
    ("calendar", {"calendar": 5}),
    ("calendar", {"calendar": [datetime.now(UTC)]}),
    ("calendar", {"calendar": ["2024-13-01"]}),
    ("on_holiday", {"on_holiday": "skip"}),
    ("on_holiday", {"on_holiday": "move", "calendar": "DE"}),
    ("windows", {"windows": ["noon"]}),
    ("windows", {"windows": [8]}),
    ("windows", {"windows": None}),
    ("windows", {"windows": ["00:00-01:00"] * 101}),
    ("overlap", {"overlap": "pile_up"}),
    ("overlap", {"overlap": True}),
    ("catch_up", {"catch_up": "some"}),
    ("catch_up", {"catch_up": True}),
    ("catch_up", {"catch_up": -1}),
    ("catch_up", {"catch_up": float("nan")}),
    ("catch_up", {"catch_up": 0}),
    ("catch_up_cap", {"catch_up_cap": 5}),
    ("catch_up_cap", {"catch_up": "all", "catch_up_cap": True}),
    ("catch_up_cap", {"catch_up": "all", "catch_up_cap": 0}),
    ("catch_up_cap", {"catch_up": "all", "catch_up_cap": 10_001}),
    ("jitter", {"jitter": "2d"}),
    ("jitter", {"jitter": float("inf")}),
    ("jitter", {"jitter": "-5s"}),
    ("start_at", {"start_at": datetime.fromisoformat("2024-01-01")}),
    ("start_at", {"start_at": "soon"}),
    ("start_at", {"start_at": 5}),
    ("end_at", {"end_at": "2024-01-01T00:00"}),
    ("end_at", {"end_at": "0001-01-01T00:00+14:00"}),
    ("end_at", {"start_at": at("2024-01-02"), "end_at": at("2024-01-01")}),
    ("max_runs", {"max_runs": 0}),
    ("max_runs", {"max_runs": True}),
    ("max_runs", {"max_runs": 1.5}),
    ("max_runs", {"max_runs": 2**63}),
]


@pytest.mark.parametrize(("field", "options"), BAD_OPTIONS)
def test_bad_options_name_the_field(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_rule(**{"cron": "0 0 * * *", **options})
    assert caught.value.field == field


@pytest.mark.parametrize(
    "options",
    [
        {"cron": "0 0 30 2 *"},
        {"cron": "0 3 * * *", "windows": ["08:00-18:00"]},
        {"cron": "0 0 25 12 *", "calendar": "DE"},
        {"cron": "0 0 1 1 *", "start_at": at("2024-01-02"), "end_at": at("2024-12-31")},
    ],
)
def test_a_rule_that_never_fires_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidError, match="never fires"):
        parse_rule(**options)


def test_a_bad_expression_names_its_own_field() -> None:
    with pytest.raises(CronError) as caught:
        parse_rule(cron="61 * * * *")
    assert caught.value.field == "minute"


# --- occurrences ------------------------------------------------------------------------------------------------------


def test_start_and_end_are_inclusive() -> None:
    rule = parse_rule(cron="0 0 * * *", start_at=at("2024-01-03"), end_at=at("2024-01-05"))
    assert shown(preview(rule, at("2024-01-01"), 9)) == ["01-03 00:00", "01-04 00:00", "01-05 00:00"]
    assert next_occurrence(rule, at("2024-01-05")) is None


def test_holidays_are_skipped() -> None:
    rule = parse_rule(cron="0 9 * * *", calendar="DE", tz="Europe/Berlin")
    assert shown(preview(rule, at("2024-12-24T10:00"), 2)) == ["12-27 08:00", "12-28 08:00"]


def test_holidays_move_to_the_next_business_day_and_collide_into_one() -> None:
    rule = parse_rule(cron="0 9 * * *", calendar="DE", on_holiday="next_business_day", tz="Europe/Berlin")
    # Good Friday and Easter Monday move to Tuesday, where there is one already; the weekend between stays.
    expected = ["03-28 08:00", "03-30 08:00", "03-31 07:00", "04-02 07:00", "04-03 07:00"]
    assert shown(preview(rule, at("2024-03-28"), 5)) == expected


@pytest.mark.parametrize(
    "asked", ["2024-03-29T08:00", "2024-03-30", "2024-03-31T12:00", "2024-04-01", "2024-04-02T06:59"]
)
def test_a_moved_occurrence_is_found_from_anywhere_before_it(asked: str) -> None:
    rule = parse_rule(cron="0 9 29 3 *", calendar="DE", on_holiday="next_business_day", tz="Europe/Berlin")
    assert next_occurrence(rule, at(asked)) == at("2024-04-02T07:00")
    assert next_occurrence(rule, at("2024-04-02T07:00")) == at("2025-03-29T08:00")


def test_windows_drop_what_lies_outside() -> None:
    rule = parse_rule(cron="0 */6 * * *", windows=["MON-FRI 05:00-13:00"])
    assert shown(preview(rule, at("2024-01-05T10:00"), 3)) == ["01-05 12:00", "01-08 06:00", "01-08 12:00"]


def test_a_window_entered_by_a_clock_change_is_not_jumped_over() -> None:
    # New York, 3 November 2024: 02:00 becomes 01:00, so the window 00:30-01:10 opens a second time, at 01:00.
    rule = parse_rule(cron="*/5 * * * *", tz="America/New_York", windows=["00:30-01:10"])
    found = shown(preview(rule, at("2024-11-03T05:00"), 4))
    assert found == ["11-03 05:05", "11-03 06:00", "11-03 06:05", "11-04 05:30"]


@settings(max_examples=80, deadline=None)
@given(
    cron=st.sampled_from(["0 */7 * * *", "30 1,2,3 * * *", "15 9 * * MON,FRI", "45 */5 29-31,1 * *", "*/40 8 * * *"]),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "UTC"]),
    moves=st.booleans(),
    calendar=st.sampled_from(
        [None, "DE", "US", ("2024-03-08", "2024-03-11", "2024-10-25", "2024-10-28", "2024-11-01")]
    ),
    windows=st.sampled_from(
        [(), ("MON-FRI 08:00-18:00",), ("22:00-03:00",), ("SAT-TUE 02:15-09:30", "FRI 00:00-24:00")]
    ),
    start=st.sampled_from(["2024-03-05", "2024-03-26", "2024-10-22", "2024-12-20"]),
)
def test_occurrences_equal_a_scan(cron: str, zone: str, moves: bool, calendar: Any, windows: Any, start: str) -> None:
    on_holiday: Any = "next_business_day" if moves and calendar else "skip"
    rule = Rule(cron=cron, tz=zone, calendar=calendar, on_holiday=on_holiday, windows=windows)
    first, last = at(start), at(start) + timedelta(days=16)
    expected = set()
    for raw in Cron(cron, zone).iterate(first - timedelta(days=20)):
        if raw > last:
            break
        local = raw.astimezone(ZoneInfo(zone))
        if calendar and load_calendar(calendar).is_holiday(local.date()):
            if not moves:
                continue
            day = load_calendar(calendar).next_business_day(local.date())
            raw = datetime.combine(day, local.time(), ZoneInfo(zone)).astimezone(UTC)
        if not windows or Windows(windows).contains(raw.astimezone(ZoneInfo(zone))):
            expected.add(raw)
    found = backfill(rule, first, last, 10_000)
    assert found == sorted(moment for moment in expected if first <= moment <= last)
    assert latest_occurrence(rule, first - timedelta(seconds=1), last) == (found[-1] if found else None)


def test_lists_are_bounded() -> None:
    rule = parse_rule(cron="* * * * *")
    assert len(backfill(rule, at("2024-01-01T00:00"), at("2024-01-01T00:09"), 10)) == 10
    for options in ({"limit": 9}, {"limit": 0}, {"limit": True}):
        with pytest.raises(InvalidError, match="limit"):
            backfill(rule, at("2024-01-01T00:00"), at("2024-01-01T00:09"), **options)
    with pytest.raises(InvalidError, match="last"):
        backfill(rule, at("2024-01-02"), at("2024-01-01"), 5)
    with pytest.raises(InvalidError, match="count"):
        preview(rule, at("2024-01-01"), 0)


def test_the_end_of_time_is_an_end() -> None:
    for options in ({}, {"calendar": "DE"}, {"windows": ["00:00-24:00"]}):
        rule = parse_rule(cron="* * * * *", tz="Europe/Berlin", **options)
        assert next_occurrence(rule, datetime.max.replace(tzinfo=UTC)) is None


# --- plans ------------------------------------------------------------------------------------------------------------

HOURLY = "0 * * * *"


def planned(rule: Rule, watermark: str, now: str, *, runs: int = 0, active: int = 0, queued: int = 0) -> Plan:
    return plan("s1", rule, at(watermark), at(now), runs=runs, active=active, queued=queued)


def fired(result: Plan) -> list[str]:
    return [f"{fire.occurrence:%H:%M}" for fire in result.fires]


def missed(result: Plan) -> list[tuple[str, str, int | None, str]]:
    return [(f"{gone.first:%H:%M}", f"{gone.last:%H:%M}", gone.count, gone.reason) for gone in result.missed]


def test_nothing_is_due() -> None:
    result = planned(parse_rule(cron=HOURLY), "2024-01-01T08:00", "2024-01-01T08:59")
    assert (result.fires, result.missed) == ([], [])
    assert result.watermark == at("2024-01-01T08:00")
    assert result.next_at == at("2024-01-01T09:00")


def test_on_time() -> None:
    result = planned(parse_rule(cron=HOURLY), "2024-01-01T08:00", "2024-01-01T09:01")
    assert fired(result) == ["09:00"]
    assert result.watermark == at("2024-01-01T09:00")
    assert result.next_at == at("2024-01-01T10:00")
    assert not result.fires[0].cancel_active


def test_a_clock_that_went_back_fires_nothing_again() -> None:
    result = planned(parse_rule(cron=HOURLY), "2024-01-01T09:00", "2024-01-01T08:00:30")
    assert (result.fires, result.missed) == ([], [])
    assert result.watermark == at("2024-01-01T09:00")
    assert result.next_at == at("2024-01-01T10:00")


@pytest.mark.parametrize(
    ("options", "fires", "gone"),
    [
        ({"catch_up": "none"}, ["12:00"], [("09:00", "11:00", 3, "catch_up")]),
        ({"catch_up": "latest"}, ["11:00", "12:00"], [("09:00", "10:00", 2, "catch_up")]),
        ({"catch_up": "all"}, ["09:00", "10:00", "11:00", "12:00"], []),
        ({"catch_up": "all", "catch_up_cap": 2}, ["09:00", "10:00", "12:00"], [("11:00", "11:00", 1, "cap")]),
        ({"catch_up": "2h30s"}, ["10:00", "11:00", "12:00"], [("09:00", "09:00", 1, "catch_up")]),
        ({"catch_up": "1m"}, ["12:00"], [("09:00", "11:00", 3, "catch_up")]),
    ],
)
def test_catch_up(options: dict[str, Any], fires: list[str], gone: list[tuple[str, str, int, str]]) -> None:
    rule = parse_rule(cron=HOURLY, overlap="allow", **options)
    result = planned(rule, "2024-01-01T08:00", "2024-01-01T12:00:30")
    assert fired(result) == fires
    assert missed(result) == gone
    assert result.watermark == at("2024-01-01T12:00")


@pytest.mark.parametrize(
    ("overlap", "active", "queued", "fires", "gone"),
    [
        ("skip", 0, 0, ["09:00"], [("10:00", "10:00", 1, "overlap")]),
        ("skip", 1, 0, [], [("09:00", "10:00", 2, "overlap")]),
        ("skip", 0, 1, [], [("09:00", "10:00", 2, "overlap")]),
        ("queue_one", 1, 0, ["09:00"], [("10:00", "10:00", 1, "overlap")]),
        ("queue_one", 1, 1, [], [("09:00", "10:00", 2, "overlap")]),
        ("queue_all", 1, 5, ["09:00", "10:00"], []),
        ("allow", 9, 9, ["09:00", "10:00"], []),
        ("cancel_running", 1, 0, ["10:00"], [("09:00", "09:00", 1, "overlap")]),
    ],
)
def test_i17_overlap(
    overlap: Overlap, active: int, queued: int, fires: list[str], gone: list[tuple[str, str, int, str]]
) -> None:
    rule = parse_rule(cron=HOURLY, overlap=overlap, catch_up="all")
    result = planned(rule, "2024-01-01T08:00", "2024-01-01T10:00", active=active, queued=queued)
    assert fired(result) == fires
    assert missed(result) == gone
    assert all(fire.cancel_active is (overlap == "cancel_running") for fire in result.fires)


def test_max_runs_ends_the_schedule() -> None:
    rule = parse_rule(cron=HOURLY, overlap="allow", catch_up="all", max_runs=5)
    result = planned(rule, "2024-01-01T08:00", "2024-01-01T12:00", runs=3)
    assert fired(result) == ["09:00", "10:00"]
    assert result.next_at is None
    over = planned(rule, "2024-01-01T08:00", "2024-01-01T12:00", runs=5)
    assert (over.fires, over.missed, over.next_at) == ([], [], None)


def test_the_end_ends_the_schedule() -> None:
    rule = parse_rule(cron=HOURLY, end_at=at("2024-01-01T09:30"))
    result = planned(rule, "2024-01-01T08:00", "2024-01-01T09:00")
    assert fired(result) == ["09:00"]
    assert result.next_at is None


def test_jitter_is_the_same_everywhere_and_spreads() -> None:
    rule = parse_rule(cron="* * * * *", overlap="allow", catch_up="all", catch_up_cap=1000, jitter="10m")
    arguments: Any = (rule, at("2024-01-01T00:00"), at("2024-01-01T08:00"))
    state: Any = {"runs": 0, "active": 0, "queued": 0}
    one, again, other = (
        plan("s1", *arguments, **state),
        plan("s1", *arguments, **state),
        plan("s2", *arguments, **state),
    )
    delays = [(fire.due_at - fire.occurrence).total_seconds() for fire in one.fires]
    assert one == again
    assert one.fires != other.fires
    assert all(0 <= delay < 600 for delay in delays)
    assert sum(delay < 300 for delay in delays) == pytest.approx(240, abs=60)


@pytest.mark.parametrize("catch_up", ["none", "latest", "all", "1h"])
@pytest.mark.parametrize("options", [{}, {"calendar": "DE", "windows": ["MON-FRI 08:00-18:00"], "tz": "Europe/Berlin"}])
def test_ten_years_of_seconds_stay_bounded(catch_up: str, options: dict[str, Any]) -> None:
    rule = parse_rule(cron="* * * * * *", catch_up=catch_up, overlap="allow", **options)
    result = planned(rule, "2024-06-03T09:00", "2034-06-02T09:00")
    assert len(result.fires) <= 200
    assert len(result.missed) <= 2
    assert result.missed[0].count is None
    assert result.watermark == at("2034-06-02T09:00")
    assert result.missed[-1].last < at("2034-06-02T08:59")


@settings(max_examples=60, deadline=None)
@given(
    cron=st.sampled_from(["*/7 * * * *", "0 */2 * * *", "30 9 * * *", "*/20 * * * * *"]),
    catch_up=st.sampled_from(["none", "latest", "all", "45m", "3h"]),
    overlap=st.sampled_from(["skip", "queue_one", "queue_all", "cancel_running", "allow"]),
    minutes=st.floats(0, 600),
    active=st.integers(0, 2),
    queued=st.integers(0, 2),
)
def test_i28_every_due_occurrence_fires_or_is_missed(
    cron: str, catch_up: str, overlap: Overlap, minutes: float, active: int, queued: int
) -> None:
    rule = parse_rule(cron=cron, catch_up=catch_up, overlap=overlap, tz="Europe/Berlin")
    watermark = at("2024-03-30T22:00")
    now = watermark + timedelta(minutes=minutes)
    result = plan("s", rule, watermark, now, runs=0, active=active, queued=queued)
    due = [moment for moment in backfill(rule, watermark, now, 10_000) if moment > watermark]
    fires = [fire.occurrence for fire in result.fires]
    covered = [moment for gone in result.missed for moment in due if gone.first <= moment <= gone.last]
    assert sorted(covered + fires) == due
    assert sum(gone.count or 0 for gone in result.missed) == len(covered)
    assert result.watermark == (due[-1] if due else watermark)
    assert result.next_at == next_occurrence(rule, now)


def test_plans_can_be_stored() -> None:
    result = planned(parse_rule(cron=HOURLY), "2024-01-01T05:00", "2024-01-01T09:00")
    assert msgspec.json.decode(msgspec.json.encode(result), type=Plan) == result
    assert isinstance(result.missed[0], Missed)


@pytest.mark.parametrize("field", ["watermark", "now"])
def test_naive_times_are_refused(field: str) -> None:
    arguments: dict[str, Any] = {"watermark": at("2024-01-01"), "now": at("2024-01-01")}
    arguments[field] = datetime.fromisoformat("2024-01-01")
    with pytest.raises(InvalidError) as caught:
        plan("s", Rule(cron=HOURLY), **arguments, runs=0, active=0, queued=0)
    assert caught.value.field == field
