"""The times a rule gives, and what to do about them now.

Owns the meaning of `Rule`: which times are occurrences (`next_occurrence`, `preview`, `backfill`) and which of the due
ones fire (`plan`). Called by the ticker, which stores what a plan says, and by whoever shows coming times. Pure: `now`
and the state of the schedule are arguments, so every node that plans the same row gets the same plan.

An occurrence is a time that is left after calendar, windows, `start_at` and `end_at`; what those drop was never due and
is not recorded. Every occurrence that is due is either fired or reported as missed, with one of three reasons:

    catch_up   it was late, and the rule's catch_up does not bring it back
    cap        it would have been caught up, but the cap was reached (the oldest are caught up first)
    overlap    an earlier job of the schedule had not ended, and the rule's overlap lets no further one in

Bounds: a step costs at most a bisection over the time that passed plus `catch_up_cap` and `_COUNT_LIMIT` occurrences,
however long the outage was. So a run of missed occurrences is one range, and its count is `None` ("not counted") where
there are more than the limit.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Final, Literal

import msgspec

from mainspring.core.calendar import Calendar, Windows, load_calendar
from mainspring.core.cron import Cron, require_aware, to_instant
from mainspring.core.schedule import Overlap, Rule
from mainspring.errors import InvalidError

Reason = Literal["catch_up", "cap", "overlap"]

MAX_LISTED: Final = 100_000
_COUNT_LIMIT: Final = 2000
_ON_TIME_LIMIT: Final = 1000
_HORIZON_YEARS: Final = 50
# Windows repeat every week, and each drop skips to another opening: a rule that fits none of so many fits none at all.
_DROP_LIMIT: Final = 2000
_TICK: Final = timedelta(microseconds=1)
_SECOND: Final = timedelta(seconds=1)


class Fire(msgspec.Struct, frozen=True):
    """One job to make. `occurrence` is its identity; `due_at` is when it may start: the occurrence plus its jitter."""

    occurrence: datetime
    due_at: datetime
    cancel_active: bool  # cancel the schedule's jobs that have not ended


class Missed(msgspec.Struct, frozen=True):
    """A run of neighbouring occurrences that do not fire; `count` is `None` where there are too many to count."""

    first: datetime
    last: datetime
    count: int | None
    reason: str  # one of `Reason`


class Plan(msgspec.Struct, frozen=True):
    """What to do now. Nothing at or before `watermark` fires again; look again at `next_at` (`None`: it is over)."""

    fires: list[Fire]
    missed: list[Missed]
    watermark: datetime
    next_at: datetime | None


class _Parts:
    """A rule with its parts loaded."""

    def __init__(self, rule: Rule) -> None:
        self.cron = Cron(rule.cron, rule.tz, rule.dst, rule.days)
        self.zone = self.cron.zone
        self.calendar = None if rule.calendar is None else load_calendar(rule.calendar)
        self.moves = rule.on_holiday == "next_business_day"
        self.windows = Windows(rule.windows) if rule.windows else None


_parts = lru_cache(maxsize=4096)(_Parts)


def next_occurrence(rule: Rule, after: datetime) -> datetime | None:
    """The first occurrence strictly after `after`, in UTC; `None` if none comes in 50 years or 2000 windows."""
    parts = _parts(rule)
    cursor = require_aware("after", after)
    if rule.start_at is not None and rule.start_at > cursor:
        cursor = rule.start_at - _TICK
    try:
        found = _search(parts, cursor)
    except OverflowError:
        return None
    return None if found is None or (rule.end_at is not None and found > rule.end_at) else found


def latest_occurrence(rule: Rule, after: datetime, until: datetime) -> datetime | None:
    """The last occurrence in (after, until], by bisection: some thirty steps, however many lie between."""
    found = next_occurrence(rule, after)
    if found is None or found > until:
        return None
    low, high = found, until
    while high - low > _SECOND:
        middle = low + (high - low) / 2
        later = next_occurrence(rule, middle)
        if later is None or later > until:
            high = middle
        else:
            low = found = later
    last = next_occurrence(rule, low)
    return last if last is not None and last <= until else found


def preview(rule: Rule, after: datetime, count: int) -> list[datetime]:
    """The next `count` occurrences; fewer if the schedule ends."""
    return list(islice(_iterate(rule, require_aware("after", after)), _limit("count", count)))


def backfill(rule: Rule, first: datetime, last: datetime, limit: int) -> list[datetime]:
    """All occurrences from `first` to `last`, both inclusive; more than `limit` of them is an error, never a cut."""
    require_aware("last", last)
    if last < require_aware("first", first):
        raise InvalidError("last", "is before first")
    found = list(islice(_between(rule, first - _TICK, last), _limit("limit", limit) + 1))
    if len(found) > limit:
        raise InvalidError("limit", f"there are more than {limit} occurrences: narrow the range or raise the limit")
    return found


def plan(
    schedule_id: str,
    rule: Rule,
    watermark: datetime,
    now: datetime,
    *,
    runs: int,
    active: int,
    queued: int,
    late_after_s: float = 60.0,
) -> Plan:
    """Decide about the occurrences in (watermark, now].

    `runs`: fires so far, for max_runs. `active`: jobs of the schedule that have started and not ended (waiting to retry
    counts). `queued`: jobs of it that have not started. An occurrence older than `late_after_s` is late: the rule's
    catch_up decides about it. What is left passes through the rule's overlap, oldest first.
    """
    watermark = require_aware("watermark", watermark).astimezone(UTC)
    now = require_aware("now", now).astimezone(UTC)
    left = None if rule.max_runs is None else rule.max_runs - runs
    if left is not None and left <= 0:
        return Plan(fires=[], missed=[], watermark=watermark, next_at=None)
    due, missed = _select(rule, watermark, now, timedelta(seconds=late_after_s))
    admitted, refused = _admit(rule.overlap, due, active=active, queued=queued)
    fires = [_fire(schedule_id, rule, occurrence) for occurrence in admitted[:left]]
    missed += _refusals(refused, missed)
    over = left is not None and len(fires) >= left
    return Plan(
        fires=fires,
        missed=missed,
        watermark=max([watermark, *due, *(gone.last for gone in missed)]),
        next_at=None if over else next_occurrence(rule, max(now, watermark)),
    )


def _select(rule: Rule, watermark: datetime, now: datetime, grace: timedelta) -> tuple[list[datetime], list[Missed]]:
    """The due occurrences that the rule's catch_up lets through, oldest first, and what it does not."""
    edge = max(watermark, now - grace - _TICK)  # an occurrence exactly `grace` old is still on time
    due, missed = _catch_up(rule, watermark, edge, now)
    on_time = list(islice(_between(rule, edge, now), _ON_TIME_LIMIT))
    if len(on_time) == _ON_TIME_LIMIT:
        missed += _range(rule, on_time[-1], now, "cap")
    return due + on_time, missed


def _catch_up(rule: Rule, after: datetime, edge: datetime, now: datetime) -> tuple[list[datetime], list[Missed]]:
    last = latest_occurrence(rule, after, edge)
    if last is None:
        return [], []
    if rule.catch_up == "none":
        return [], _range(rule, after, last, "catch_up")
    if rule.catch_up == "latest":
        return [last], _range(rule, after, last - _TICK, "catch_up")
    start = after
    if rule.catch_up == "within":
        start = max(after, now - timedelta(seconds=rule.catch_up_within_s) - _TICK)
    missed = _range(rule, after, min(start, last), "catch_up")
    due = list(islice(_between(rule, start, last), rule.catch_up_cap))
    return due, missed + (_range(rule, due[-1], last, "cap") if due else [])


def _range(rule: Rule, after: datetime, until: datetime, reason: Reason) -> list[Missed]:
    """The occurrences in (after, until] as one range, or nothing if there are none."""
    listed = list(islice(_between(rule, after, until), _COUNT_LIMIT + 1))
    if not listed:
        return []
    if len(listed) <= _COUNT_LIMIT:
        return [Missed(first=listed[0], last=listed[-1], count=len(listed), reason=reason)]
    last = latest_occurrence(rule, listed[-1], until) or listed[-1]
    return [Missed(first=listed[0], last=last, count=None, reason=reason)]


def _admit(overlap: Overlap, due: list[datetime], *, active: int, queued: int) -> tuple[list[datetime], list[datetime]]:
    """Split into what fires and what the overlap rule refuses."""
    if overlap == "skip":
        room = 1 if active + queued == 0 else 0
    elif overlap == "queue_one":
        room = 1 if queued == 0 else 0
    elif overlap == "cancel_running":
        return due[-1:], due[:-1]  # each would cancel the one before, so only the newest is worth starting
    else:
        room = len(due)
    return due[:room], due[room:]


def _refusals(refused: list[datetime], missed: list[Missed]) -> list[Missed]:
    """The refused ones as ranges; one ends where another reason's range lies between (late ones, cap, on-time ones)."""
    runs: list[list[datetime]] = []
    for occurrence in refused:
        if runs and not any(runs[-1][-1] < gone.first < occurrence for gone in missed):
            runs[-1].append(occurrence)
        else:
            runs.append([occurrence])
    return [Missed(first=run[0], last=run[-1], count=len(run), reason="overlap") for run in runs]


def _fire(schedule_id: str, rule: Rule, occurrence: datetime) -> Fire:
    """Jitter is a hash, not a random number: whichever node fires the occurrence gives it the same delay."""
    seed = f"{schedule_id}\0{occurrence.isoformat()}".encode("utf-8", "surrogatepass")
    share = int.from_bytes(blake2b(seed, digest_size=6).digest()) / 2**48
    due_at = occurrence + timedelta(seconds=share * rule.jitter_s)
    return Fire(occurrence=occurrence, due_at=due_at, cancel_active=rule.overlap == "cancel_running")


def _iterate(rule: Rule, after: datetime) -> Iterator[datetime]:
    found = next_occurrence(rule, after)
    while found is not None:
        yield found
        found = next_occurrence(rule, found)


def _between(rule: Rule, after: datetime, until: datetime) -> Iterator[datetime]:
    return takewhile(lambda found: found <= until, _iterate(rule, after))


def _limit(field: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_LISTED:
        raise InvalidError(field, f"must be a whole number from 1 to {MAX_LISTED}")
    return value


# --- the search: cron, then calendar, then windows; each step that drops a time jumps over all its neighbours at once


def _search(parts: _Parts, after: datetime) -> datetime | None:
    last_year = after.year + _HORIZON_YEARS
    for _ in range(_DROP_LIMIT):
        found = _through_calendar(parts, after, last_year)
        if found is None or found.year > last_year:
            break
        if parts.windows is None or parts.windows.contains(found.astimezone(parts.zone)):
            return found
        after = max(found, _before_opening(parts, parts.windows, found))
    return None


def _before_opening(parts: _Parts, windows: Windows, outside: datetime) -> datetime:
    """A moment not after the next time in a window; never past a clock change, which may step right into one."""
    local = outside.astimezone(parts.zone)
    wall = windows.next_opening(local.replace(tzinfo=None))
    opening = to_instant(parts.zone, wall) - _TICK
    if opening <= outside:  # the first pass of an overlap is over
        opening = wall.replace(tzinfo=parts.zone, fold=1).astimezone(UTC) - _TICK
    if opening <= outside or opening.astimezone(parts.zone).utcoffset() == local.utcoffset():
        return opening
    low, high = outside, opening
    while high - low > _SECOND:
        middle = low + (high - low) / 2
        if middle.astimezone(parts.zone).utcoffset() == local.utcoffset():
            low = middle
        else:
            high = middle
    return low


def _through_calendar(parts: _Parts, after: datetime, last_year: int) -> datetime | None:
    if parts.calendar is None:
        return parts.cron.next(after)
    best = None
    if parts.moves:  # from holidays that have passed already
        target = parts.calendar.next_business_day(_local_day(parts, after))
        best = _moved_onto(parts, parts.calendar, target, after)
    while (found := parts.cron.next(after)) is not None and found.year <= last_year:
        day = _local_day(parts, found)
        if best is not None and found >= best:
            return best
        if not parts.calendar.is_holiday(day):
            return found
        if parts.moves:
            target = parts.calendar.next_business_day(day)
            moved = _moved_onto(parts, parts.calendar, target, after)
            best = min(filter(None, (best, moved)), default=None)
        # A day may come back after its midnight where clocks step back across it: never jump backwards.
        after = max(found, _start_of(parts, day + timedelta(days=1)) - _TICK)
    return best


def _moved_onto(parts: _Parts, calendar: Calendar, day: date, after: datetime) -> datetime | None:
    """The first time after `after` that moves onto the business day `day` from the holidays before it."""
    local = after.astimezone(parts.zone)
    clock = local.time().replace(fold=0) if local.date() == day else time()
    found = (_first_moved(parts, holiday, day, clock, after) for holiday in calendar.holidays_before(day))
    return min(filter(None, found), default=None)


def _first_moved(parts: _Parts, holiday: date, day: date, clock: time, after: datetime) -> datetime | None:
    start = to_instant(parts.zone, datetime.combine(holiday, clock)) - _TICK
    for found in parts.cron.iterate(start):
        local = found.astimezone(parts.zone)
        if local.date() != holiday:
            return None
        moved = to_instant(parts.zone, datetime.combine(day, local.time().replace(fold=0)))
        if moved > after:
            return moved
    return None


def _local_day(parts: _Parts, moment: datetime) -> date:
    return moment.astimezone(parts.zone).date()


def _start_of(parts: _Parts, day: date) -> datetime:
    return to_instant(parts.zone, datetime.combine(day, time()))
