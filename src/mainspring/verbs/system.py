"""The system as a whole: what there is, what was, what an application declares (see `faces.System`)."""

from collections import Counter
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import get_args

from mainspring.access.audit import Actor
from mainspring.core.job import DEFAULT_TENANT
from mainspring.core.timer import Micros, from_micros, seconds, to_micros
from mainspring.core.version import VERSION
from mainspring.errors import InvalidError
from mainspring.store.contract import Tally
from mainspring.store.service import ALL_TENANTS
from mainspring.verbs import documents as d
from mainspring.verbs.declarations import read_declarations
from mainspring.verbs.declaring import declare, refuse_changed
from mainspring.verbs.engine import Engine
from mainspring.verbs.events import parse_event_id
from mainspring.verbs.history import periods_of
from mainspring.verbs.queues import LocalQueues
from mainspring.verbs.rates import tenants_meant
from mainspring.verbs.usage import usage_report
from mainspring.verbs.workers import LocalWorkers
from mainspring.wire import PROTOCOL

MAX_PERIODS = 1000


class LocalSystem:
    """As one tenant sees it, or over all of them."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._engine = engine
        self._store = engine.store
        self._tenant = tenant
        self._actor = actor

    async def version(self) -> d.Version:
        store = type(self._store).__name__.removesuffix("Store").lower()
        return d.Version(version=VERSION, protocol=PROTOCOL, store=store)

    async def statistics(self) -> d.Statistics:
        queues = await LocalQueues(self._engine, self._tenant, self._actor).list()
        workers = await LocalWorkers(self._engine, self._tenant, self._actor).list()
        alive = [worker for worker in workers if worker.alive]
        jobs: Counter[str] = Counter()
        for queue in queues:
            jobs.update(queue.jobs)
        return d.Statistics(
            jobs=dict(jobs),
            queues=len(queues),
            schedules=len(await self._store.list_schedules(self._tenant)),
            workers=len(alive),
            slots=sum(worker.slots or 0 for worker in alive),
            ended_per_s=round(sum(queue.ended_per_s for queue in queues), 3),
        )

    async def history(self, since: datetime, until: datetime, step_s: float, kind: str | None = None) -> d.History:
        first, last, step = to_micros("since", since), to_micros("until", until), _step(step_s)
        if last <= first:
            raise InvalidError("until", "is not after since")
        if (last - first) / step > MAX_PERIODS:
            raise InvalidError("step_s", f"makes more than {MAX_PERIODS:,} periods: take a longer one")
        tallies = await self._tallies(first, last, step)
        return d.History(
            since=from_micros(first), until=from_micros(last), step_s=step_s, periods=periods_of(tallies, kind)
        )

    async def usage(
        self, since: datetime, until: datetime | None = None, by: d.UsageBy = "client,kind"
    ) -> d.UsageReport:
        first = to_micros("since", since)
        last = self._store.clock.now() if until is None else to_micros("until", until)
        if last <= first:
            raise InvalidError("until", "is not after since")
        if by not in get_args(d.UsageBy):
            raise InvalidError("by", f"{by!r} is none of {'; '.join(get_args(d.UsageBy))}")
        return await usage_report(self._store, await tenants_meant(self._store, self._tenant), first, last, by)

    async def declare(self, said: d.Declarations) -> list[str]:
        kinds, queues, schedules = read_declarations(said, self._tenant)
        if self._actor.caller is not None and self._actor.caller.tenant not in (ALL_TENANTS, DEFAULT_TENANT):
            await refuse_changed(self._store, kinds)
        done = await declare(self._store, kinds, queues, schedules, self._tenant)
        if done.changed:
            target = f"{len(done.changed)} changed"
            await self._engine.audit.record(self._tenant, self._actor, "declare", target, after=done.changed)
        if self._tenant is None:
            return done.orphans
        return [orphan.removeprefix(f"{self._tenant}/") for orphan in done.orphans]

    def events(
        self, queue: str | None = None, after: str | None = None, *, announce: bool = False
    ) -> AsyncGenerator[tuple[str, d.JobEvent | None], None]:
        """`announce`: see `EventLog.listen`."""
        if after is not None:
            parse_event_id(after)  # refused before anything begins
        return self._engine.events.listen(self._tenant, queue, after, announce=announce)

    async def _tallies(self, first: Micros, last: Micros, step: Micros) -> list[Tally]:
        tenants = await tenants_meant(self._store, self._tenant)
        return [tally for t in tenants for tally in await self._store.tally_ended(t, first, last, step)]


def _step(step_s: float) -> Micros:
    if not 1 <= step_s <= 366 * 86_400:
        raise InvalidError("step_s", f"expected seconds from 1 to a year, got {step_s!r}")
    return seconds(step_s)
