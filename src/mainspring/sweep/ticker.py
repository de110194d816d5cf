"""The ticker: schedules whose time has come make jobs.

What is due is planned by `core.occurrence.plan`, a pure function; the store fires it only if the schedule has not moved
since it was read, so any number of tickers make one job per occurrence. It sleeps until the next occurrence of any schedule.
A schedule whose jobs cannot be sealed here stays due, for a node that has the keys, and holds up no other.
"""

import random
from functools import lru_cache
from typing import Protocol

from msgspec import Struct, json, structs

from mainspring.core.draft import place
from mainspring.core.job import NewJobs
from mainspring.core.lane import Lane
from mainspring.core.occurrence import Plan, plan
from mainspring.core.options import JobOptions
from mainspring.core.partition import make_id
from mainspring.core.schedule import Rule
from mainspring.core.timer import SECOND, Micros, from_micros, seconds, to_micros
from mainspring.errors import SecretsError
from mainspring.runtime.clock import Clock
from mainspring.runtime.gauges import Gauges
from mainspring.runtime.log import get_logger
from mainspring.secrets.sealing import Sealing
from mainspring.store.contract import Firing, Hint, MissedRecord, ScheduleRecord, Schedules
from mainspring.store.service import Tenants

_log = get_logger("mainspring.ticker")

LOOK_S = 30.0
TELL_S = 60.0
REST_S = 10.0  # never long: the clock may be set meanwhile
BATCH = 200


class Definition(Struct, frozen=True):
    """What a schedule does, as it is stored: when, which kind, with which arguments and options."""

    rule: Rule
    kind: str
    arguments: str  # JSON
    options: JobOptions = JobOptions()


decode_definition = lru_cache(maxsize=4096)(json.Decoder(Definition).decode)


class TickerStore(Schedules, Tenants, Protocol):
    """What the ticker needs of a store."""


class Ticker:
    """Fires what is due."""

    name = "ticker"

    def __init__(self, store: TickerStore, clock: Clock, gauges: Gauges, sealing: Sealing | None = None) -> None:
        """`sealing`: what keeps jobs of sealed tenants secret; without one (so without keys) their schedules do not fire."""
        self._store = store
        self._sealing = sealing or Sealing(store, None)
        self._clock = clock
        self._gauges = gauges
        self.next_at: Micros | None = 0
        self._look_at: Micros = 0
        self._held = 0  # schedules that are due and cannot fire here
        self._tell_at: Micros = 0

    async def run_once(self) -> float:
        now = self._clock.now()
        look = seconds(LOOK_S)
        has_time = 0 < self._look_at - now <= look  # not where the clock was set back
        if has_time and (self.next_at is None or now < self.next_at):
            return self._rest_s()
        await self._sealing.look()
        self._look_at = now + look
        limit = BATCH + self._held  # behind those that are held there may be others
        due = await self._due(limit)
        firings = self._sealed([fire(record, now) for record in due], now)
        if firings or len(due) == limit:
            self.next_at = 0  # what follows is known only after another look
        if firings:
            fired = await self._store.fire_schedules(firings)
            self._gauges.fired += sum(len(f.jobs) for f, won in zip(firings, fired, strict=True) if won)
        return self._rest_s()

    def _sealed(self, firings: list[Firing], now: Micros) -> list[Firing]:
        """As they are stored, without those that cannot be sealed."""
        done: list[Firing] = []
        for firing in firings:
            try:
                done.append(sealed(firing, self._sealing))
            except SecretsError as error:
                self._tell(firing, error, now)
        self._held = len(firings) - len(done)
        return done

    def _tell(self, firing: Firing, error: SecretsError, now: Micros) -> None:
        """Now and then: it is tried again and again."""
        if now >= self._tell_at:
            self._tell_at = now + seconds(TELL_S)
            _log.warning("a schedule of a sealed tenant cannot fire here", schedule=firing.schedule, error=str(error))

    async def _due(self, limit: int) -> list[ScheduleRecord]:
        self.next_at = None  # a hint that comes while the store is at work is not overwritten below
        try:
            due, next_at = await self._store.due_schedules(limit)
        except BaseException:
            self.next_at = 0  # what is due is still due
            raise
        if self.next_at is None:
            self.next_at = next_at
        return due

    def hear(self, hint: Hint) -> bool:
        if hint.topic == "schedule":
            self.next_at = 0
        return hint.topic == "schedule"

    def _rest_s(self) -> float:
        until = self._look_at if self.next_at is None else min(self.next_at, self._look_at)
        return min(REST_S, max(0.0, (until - self._clock.now()) / SECOND))


def fire(record: ScheduleRecord, now: Micros) -> Firing:
    """What this schedule does now, conditional on the version that was read."""
    definition = decode_definition(record.definition)
    rule = definition.rule
    planned = plan(
        record.id,
        rule,
        from_micros(record.watermark_at),
        from_micros(now),
        runs=record.runs,
        active=record.active,
        queued=record.queued,
    )
    jobs, lanes = [], []
    for fire in planned.fires:
        batch, lane = make_job(
            record, definition, to_micros("occurrence", fire.occurrence), to_micros("due", fire.due_at), now
        )
        jobs.append(batch)
        lanes.append(lane)
    return Firing(
        record.id,
        record.version,
        to_micros("watermark", planned.watermark),
        None if planned.next_at is None else to_micros("next", planned.next_at),
        record.runs + len(jobs),
        jobs,
        lanes,
        _missed(record.id, planned),
        cancel_active=any(fire.cancel_active for fire in planned.fires),
        serial=rule.overlap != "allow",
    )


def sealed(firing: Firing, sealing: Sealing) -> Firing:
    """As it is stored."""
    return structs.replace(firing, jobs=sealing.seal_jobs(firing.jobs))


def make_job(
    record: ScheduleRecord, definition: Definition, occurrence_at: Micros, due_at: Micros, now: Micros
) -> tuple[NewJobs, Lane]:
    """The job of one occurrence."""
    placed = place(definition.kind, definition.options, now, schedule=record.id, occurrence_at=occurrence_at)
    template = structs.replace(placed.template, due_at=due_at)
    job = make_id(now // 1000, placed.slot or 0, random.getrandbits(62))
    return NewJobs(template, [job], [definition.arguments.encode()]), placed.lane


def _missed(schedule: str, planned: Plan) -> list[MissedRecord]:
    return [
        MissedRecord(schedule, to_micros("first", m.first), to_micros("last", m.last), m.count, m.reason)
        for m in planned.missed
    ]
