"""Queues: how much waits where, and stopping one for a while (see `faces.Queues`)."""

from collections.abc import Iterable, Sequence

from msgspec import json

from mainspring.access.audit import Actor
from mainspring.core.job import DEFAULT_TENANT, Limit
from mainspring.core.lifecycle import State
from mainspring.core.options import JobOptions, check_name, queue_of
from mainspring.core.words import listed
from mainspring.errors import NotFoundError
from mainspring.store.contract import JobFilter, QueueRecord
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine
from mainspring.verbs.rates import ended_per_s


class LocalQueues:
    """Those of one tenant; where it is asked for all of them, jobs are counted over all, and settings are the default tenant's."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._engine = engine
        self._store = engine.store
        self._tenant = tenant
        self._home = tenant or DEFAULT_TENANT
        self._actor = actor

    async def list(self) -> Sequence[d.QueueDocument]:
        settings = await self._settings()
        counts = await self._store.count_jobs(self._tenant)
        rates = await ended_per_s(self._store, self._tenant)
        names = sorted(settings.keys() | {queue for queue, _ in counts} | await self._declared())
        return [self._document(name, settings.get(name), counts, rates.get(name, 0.0)) for name in names]

    async def read(self, name: str) -> d.QueueDocument:
        check_name("queue", name)
        for queue in await self.list():
            if queue.name == name:
                return queue
        raise await self._unknown(name)

    async def pause(self, name: str) -> None:
        await self._set_paused("pause_queue", name, True)

    async def resume(self, name: str) -> None:
        await self._set_paused("resume_queue", name, False)

    async def _set_paused(self, action: str, name: str, paused: bool) -> None:
        check_name("queue", name)
        known = (await self._settings()).get(name)
        if known is None and not await self._is_used(name):
            raise await self._unknown(name)
        record = known or QueueRecord(self._home, name, False, Limit())
        await self._store.put_queue(QueueRecord(self._home, name, paused, record.limit))
        await self._engine.audit.record(
            self._home, self._actor, action, name, {"paused": record.paused}, {"paused": paused}
        )

    def _document(
        self, name: str, setting: QueueRecord | None, counts: dict[tuple[str, str], int], rate: float
    ) -> d.QueueDocument:
        return d.QueueDocument(
            name=name,
            tenant=self._home,
            paused=setting is not None and setting.paused,
            jobs={state.value: counts.get((name, state), 0) for state in State},
            ended_per_s=rate,
            limit=limit_of(setting.limit if setting else Limit()),
        )

    async def _settings(self) -> dict[str, QueueRecord]:
        return {queue.name: queue for queue in await self._store.list_queues() if queue.tenant == self._home}

    async def _declared(self) -> set[str]:
        """The queues that kinds go to unless a submit says otherwise."""
        return {queue_of(json.decode(kind.defaults, type=JobOptions)) for kind in await self._store.list_kinds()}

    async def _is_used(self, name: str) -> bool:
        if name in await self._declared():
            return True
        return bool(await self._store.list_jobs(JobFilter(tenant=self._home, queue=name), before=None, limit=1))

    async def _unknown(self, name: str) -> NotFoundError:
        """A mistyped name must not look like a paused queue."""
        names: Iterable[str] = sorted(await self._declared() | (await self._settings()).keys())
        known = f"; known are {listed(names)}" if names else ""
        return NotFoundError(f"there is no queue {name!r}{known}")


def limit_of(limit: Limit) -> d.LimitDocument:
    """A rate as people wrote it is `burst` starts in `burst / rate` seconds."""
    return d.LimitDocument(
        concurrency=limit.concurrency, rate_per_s=limit.rate, burst=limit.burst if limit.rate else None
    )
