"""What a schedule says about time: the rule, and its validation.

Owns `Rule`, the stored form, and `parse_rule`, the only way from a user's options to it. Called where schedules are
declared (`app`, `api`); `core.occurrence` reads rules. Guarantees: a `Rule` made here has been checked completely (its
zone and calendar exist, its times are in order, it fires at least once), survives a JSON round trip unchanged, and
holds nothing that has no effect.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from inspect import signature
from typing import Any, Final, Literal, get_args

import msgspec

from mainspring.core.calendar import MAX_WINDOWS, Windows, load_calendar
from mainspring.core.cron import Cron, Days, Dst, require_aware, require_choice
from mainspring.core.duration import parse_duration
from mainspring.errors import InvalidError

OnHoliday = Literal["skip", "next_business_day"]
Overlap = Literal["skip", "queue_one", "queue_all", "cancel_running", "allow"]
CatchUp = Literal["none", "latest", "all", "within"]

MAX_CATCH_UP_CAP: Final = 10_000
MAX_JITTER_S: Final = 86_400.0
MAX_RUNS: Final = 2**31 - 1


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """When a schedule fires. Make it with `parse_rule`, which takes the options in the forms that users write:

    cron, tz, dst, days: see `core.cron`.
    calendar: a code ("DE", "DE-BY", "US", "XNYS") or a list of dates.
    on_holiday: an occurrence on a listed day is dropped ("skip", the default) or moves to the next business day.
    windows: local times such as "MON-FRI 08:00-18:00"; occurrences outside them are dropped.
    overlap: what happens while an earlier job of the schedule has not ended.
    catch_up: which late occurrences still fire: "none", "latest", "all", or a duration ("1h": those not older).
    catch_up_cap: at most so many of them, with "all" or a duration; 100 if left out.
    jitter: each job starts up to so much later, the same on every node.
    start_at, end_at: first and last allowed time, both inclusive.
    max_runs: the schedule is over after so many fires.

    Encodes to JSON with msgspec; equal rules are equal values and hash alike.
    """

    cron: str
    tz: str = "UTC"
    dst: Dst = "vixie"
    days: Days = "or"
    calendar: str | tuple[str, ...] | None = None
    on_holiday: OnHoliday = "skip"
    windows: tuple[str, ...] = ()
    overlap: Overlap = "skip"
    catch_up: CatchUp = "latest"
    catch_up_within_s: float = 0.0  # with "within" only
    catch_up_cap: int = 100
    jitter_s: float = 0.0
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None


def parse_rule(
    *,
    cron: str,
    tz: str = "UTC",
    dst: Dst = "vixie",
    days: Days = "or",
    calendar: str | Sequence[str | date] | None = None,
    on_holiday: OnHoliday | None = None,
    windows: str | Sequence[str] = (),
    overlap: Overlap = "skip",
    catch_up: str | float | timedelta = "latest",
    catch_up_cap: int | None = None,
    jitter: str | float | timedelta = 0,
    start_at: datetime | str | None = None,
    end_at: datetime | str | None = None,
    max_runs: int | None = None,
) -> Rule:
    """Check a user's options and make a `Rule` of them; what is wrong is an `InvalidError` that names the option."""
    Cron(cron, tz, dst, days)
    require_choice("overlap", overlap, get_args(Overlap))
    mode, within_s = _catch_up(catch_up)
    return _refuse_empty(
        Rule(
            cron=cron.strip(" \t"),
            tz=tz,
            dst=dst,
            days=days,
            calendar=_calendar(calendar),
            on_holiday=_on_holiday(on_holiday, calendar),
            windows=_windows(windows),
            overlap=overlap,
            catch_up=mode,
            catch_up_within_s=within_s,
            catch_up_cap=_catch_up_cap(catch_up_cap, mode),
            jitter_s=_jitter(jitter),
            start_at=_moment("start_at", start_at),
            end_at=_moment("end_at", end_at),
            max_runs=None if max_runs is None else _count("max_runs", max_runs, MAX_RUNS),
        )
    )


def read_rule(document: Mapping[str, Any]) -> Rule:
    """A rule from options by name, as they come in a request or from a decorator."""
    known = signature(parse_rule).parameters
    for name in document:
        if name not in known:
            raise InvalidError(name, f"is no part of a schedule's rule; there are {', '.join(known)}")
    if "cron" not in document:
        raise InvalidError("cron", "is missing: say when, such as '0 9 * * *'")
    return parse_rule(**document)


def rule_document(rule: Rule) -> dict[str, Any]:
    """What `read_rule` reads back, in forms that JSON has; what is as by default is left out."""
    said = {name: value for name, value in msgspec.to_builtins(rule).items() if not name.endswith("_s")}
    if rule.catch_up == "within":
        said["catch_up"] = rule.catch_up_within_s
    if rule.jitter_s:
        said["jitter"] = rule.jitter_s
    return said


def _refuse_empty(rule: Rule) -> Rule:
    """A schedule that can never fire is a mistake that nobody would notice."""
    from mainspring.core.occurrence import next_occurrence  # occurrence reads Rule, so it cannot be imported above

    if rule.start_at and rule.end_at and rule.end_at < rule.start_at:
        raise InvalidError("end_at", "is before start_at")
    # Without a start the check needs some day to begin at; rules that fire at all fire again and again after it.
    if next_occurrence(rule, datetime(2000, 1, 1, tzinfo=UTC)) is None:
        raise InvalidError("cron", f"{rule.cron!r} never fires with these dates, calendar and windows")
    return rule


def _calendar(value: object) -> str | tuple[str, ...] | None:
    if value is None:
        return None
    spec = value if isinstance(value, str) else tuple(map(_date_text, _sequence("calendar", value)))
    load_calendar(spec)
    return spec


def _date_text(value: object) -> str:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if not isinstance(value, str):
        raise InvalidError("calendar", f"holds a {type(value).__name__}: use dates such as '2026-12-24'")
    return value


def _on_holiday(value: OnHoliday | None, calendar: object) -> OnHoliday:
    if value is None:
        return "skip"
    require_choice("on_holiday", value, get_args(OnHoliday))
    if calendar is None:
        raise InvalidError("on_holiday", "has no effect without calendar: add one or leave it out")
    return value


def _windows(value: object) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else tuple(_sequence("windows", value))
    if len(texts) > MAX_WINDOWS:
        raise InvalidError("windows", f"has more than {MAX_WINDOWS} entries")
    checked = tuple(text for text in texts if isinstance(text, str))
    if len(checked) != len(texts):
        raise InvalidError("windows", "must be texts such as 'MON-FRI 08:00-18:00'")
    Windows(checked)
    return checked


def _sequence(field: str, value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple | set | frozenset):
        raise InvalidError(field, f"must be a list, not {type(value).__name__}")
    return list(value)


def _catch_up(value: object) -> tuple[CatchUp, float]:
    if value == "none" or value == "latest" or value == "all":
        return value, 0.0
    seconds = parse_duration("catch_up", value)
    if seconds == 0:
        raise InvalidError("catch_up", "a duration of zero catches nothing up: use 'none'")
    return "within", seconds


def _catch_up_cap(value: object, mode: CatchUp) -> int:
    if value is None:
        return 100
    if mode in ("none", "latest"):
        raise InvalidError("catch_up_cap", f"has no effect with catch_up={mode!r}: leave it out")
    return _count("catch_up_cap", value, MAX_CATCH_UP_CAP)


def _count(field: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidError(field, f"must be a whole number, not {type(value).__name__}")
    if not 1 <= value <= most:
        raise InvalidError(field, f"must be between 1 and {most}")
    return value


def _jitter(value: object) -> float:
    seconds = parse_duration("jitter", value)
    if seconds > MAX_JITTER_S:
        raise InvalidError("jitter", "is longer than a day: spread the schedule with cron instead")
    return seconds


def _moment(field: str, value: object) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise InvalidError(field, f"{str(value)[:80]!a} is not a time: write '2026-12-24T08:00:00Z'") from None
    try:
        return require_aware(field, moment).astimezone(UTC)
    except OverflowError:
        raise InvalidError(field, "lies outside the years 1 to 9999") from None
