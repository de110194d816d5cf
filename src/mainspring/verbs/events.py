"""The log of ended jobs: one for all listeners of this process (see `faces.System.events`).

While somebody listens, one query after each "settled" hint brings what has ended since the last look, for all tenants that are
listened to. Stores may show two ends in another order than they happened, so each look begins `OVERLAP_S` earlier and nothing
is told twice. The log is bounded; a listener that falls behind it, or comes back after too much has ended, is told `reset`.

An event's id is "<end in microseconds>-<job>": it means the same on every server, so whoever comes back may go on anywhere.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable

from msgspec import Struct

from mainspring.core.partition import format_id, parse_id
from mainspring.core.timer import Micros, from_micros, seconds
from mainspring.errors import InvalidError
from mainspring.store.contract import EndedJob, Store
from mainspring.verbs import documents as d
from mainspring.verbs.looking import Looks
from mainspring.verbs.rates import tenants_meant

KEPT = 10_000  # events in the log, and those that a listener who comes back may have missed
KEPT_S = 3600.0  # whoever was away for longer may have missed jobs that are gone by now
OVERLAP_S = 2.0
_PAGE = 2000

Told = tuple[str, d.JobEvent | None]


class _Listener(Struct, eq=False):
    """Somebody who listens, and where in the log he is, which tells him nothing that ended before `log_from`. `told`: what he had
    from elsewhere."""

    tenants: list[str]
    queue: str | None
    position: int = 0
    log_from: Micros = 0
    told: set[str] = set()

    def wants(self, job: EndedJob) -> bool:
        return job.tenant in self.tenants and self.queue in (None, job.queue) and event_id(job) not in self.told


class EventLog:
    """Made in the event loop in which it is used."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._log: deque[EndedJob] = deque(maxlen=KEPT)
        self._count = 0  # events there ever were in it; the last one's number
        self._seen: dict[tuple[Micros, bytes], None] = {}
        self._from: Micros = 0  # what ended before has been seen
        self._listeners: set[_Listener] = set()
        self._tenants: Counter[str] = Counter()
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()
        self._closed = False
        self._looks = Looks(self._look, lambda: bool(self._listeners))
        self.hear = self._looks.hear

    async def listen(
        self, tenant: str | None, queue: str | None = None, after: str | None = None, *, announce: bool = False
    ) -> AsyncGenerator[Told, None]:
        """What ends from now on; `after`: what ended behind that event. None instead of an event: list again. `announce`: the
        first thing told is ("", None), as soon as nothing is missed any more."""
        last = None if after is None else parse_event_id(after)
        listener = await self._join(tenant, queue)
        try:
            if announce:
                yield "", None
            if last is not None:
                for missed in await self._missed(listener, *last):
                    yield missed
            while not self._closed:
                for told in self._take(listener):
                    yield told
                if listener.position == self._count:
                    await self._news.wait()
        finally:
            self._leave(listener)

    def close(self) -> None:
        """Everybody's stream ends."""
        self._closed = True
        self._looks.close()
        self._news.set()

    async def _join(self, tenant: str | None, queue: str | None) -> _Listener:
        """What is visible now has been before he came; whatever becomes visible from now on is news."""
        listener = _Listener(await tenants_meant(self._store, tenant), queue)
        async with self._turn:
            since = self._store.clock.now() - seconds(OVERLAP_S)
            if not self._listeners:
                self._from = since
            new = [name for name in listener.tenants if not self._tenants[name]]
            for job in await self._read(new, min(since, self._from)) if new else ():
                self._seen[job.finished_at, job.job] = None
            self._listeners.add(listener)
            self._tenants.update(listener.tenants)
            listener.position, listener.log_from = self._count, self._from
        self._looks.begin()
        return listener

    def _leave(self, listener: _Listener) -> None:
        self._listeners.discard(listener)
        self._tenants.subtract(listener.tenants)
        if not self._listeners:
            self._log.clear()
            self._seen.clear()

    def _take(self, listener: _Listener) -> Iterable[Told]:
        """What he has not had; he is told `reset` where the log does not reach back to him."""
        behind, listener.position = self._count - listener.position, self._count
        if behind > len(self._log):
            yield event_id(self._log[-1]), None
            return
        for job in list(self._log)[len(self._log) - behind :]:
            if listener.wants(job):
                yield event_id(job), event_of(job)

    async def _missed(self, listener: _Listener, ended_at: Micros, after: str) -> list[Told]:
        """What ended while he was away, from a little before the event that he had last."""
        now = self._store.clock.now()
        found: list[EndedJob] = []
        if ended_at >= now - seconds(KEPT_S):
            found = await self._store.list_ended(listener.tenants, ended_at - seconds(OVERLAP_S), KEPT + 1)
        if len(found) > KEPT or ended_at < now - seconds(KEPT_S):
            return [(f"{now}-{after.partition('-')[2]}", None)]
        wanted = [job for job in found if listener.wants(job) and event_id(job) != after]
        listener.told.update(event_id(job) for job in found if job.finished_at >= listener.log_from)
        return [(event_id(job), event_of(job)) for job in wanted]

    async def _look(self) -> None:
        async with self._turn:
            tenants = [name for name, listeners in self._tenants.items() if listeners]
            started_at = self._store.clock.now()
            fresh = [
                job for job in await self._read(tenants, self._from) if (job.finished_at, job.job) not in self._seen
            ]
            for job in fresh:
                self._seen[job.finished_at, job.job] = None
            self._log.extend(fresh)
            self._count += len(fresh)
            self._forget(started_at - seconds(OVERLAP_S))
        if fresh:
            self._news.set()
            self._news = asyncio.Event()

    def _forget(self, before: Micros) -> None:
        self._from = max(self._from, before)
        for place in [place for place in self._seen if place[0] < self._from]:
            del self._seen[place]

    async def _read(self, tenants: list[str], since: Micros) -> list[EndedJob]:
        """All that ended since, in pages: one page may end in the middle of a moment, and the next begins with it."""
        found: dict[tuple[Micros, bytes], EndedJob] = {}
        limit = _PAGE
        while tenants:
            page = await self._store.list_ended(tenants, since, limit)
            before = len(found)
            found.update({(job.finished_at, job.job): job for job in page})
            if len(page) < limit:
                break
            limit = limit if len(found) > before else limit * 2  # more of them ended in one moment than a page holds
            since = page[-1].finished_at
        return list(found.values())


def event_id(job: EndedJob) -> str:
    return f"{job.finished_at}-{format_id(job.job)}"


def parse_event_id(text: str) -> tuple[Micros, str]:
    """The time of an event, and its id as it is written here."""
    at, _, job = text.partition("-")
    try:
        if at.isascii() and at.isdigit() and len(at) <= 18:
            return int(at), f"{int(at)}-{format_id(parse_id(job))}"
    except InvalidError:
        pass
    raise InvalidError("after", f"{text[:80]!r} is not the id of an event, such as 1900000000000000-0190…")


def event_of(job: EndedJob) -> d.JobEvent:
    return d.JobEvent(
        event="ended",
        id=format_id(job.job),
        kind=job.kind,
        queue=job.queue,
        tenant=job.tenant,
        state=job.state,
        attempt=job.attempt,
        at=from_micros(job.finished_at),
        reason=job.reason,
    )
