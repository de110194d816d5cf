"""What happens in a store, as events: submitted, started, completed, failed, retrying, cancelled.

Used by `mainspring dev`. A `Watcher` looks when a hint says that something changed, reads the newest jobs and those it follows, and
tells the differences; so it sees what any process does on the store. It is a view for people, not a record: in a burst it
follows the first jobs only, and says so.
"""

import asyncio
from collections.abc import Callable, Iterator

from msgspec import Struct

from mainspring.core.job import JobRecord
from mainspring.core.lifecycle import ENDED, LIVE, State
from mainspring.core.timer import SECOND, Micros
from mainspring.store.contract import Hint, JobFilter, Store
from mainspring.wire import Failure

SETTLE_S = 0.05  # hints come in pairs: submitted, and a moment later assigned
LOOK_S = 1.0
PAGE = 200
MOST_FOLLOWED = 2000
_OLD: Micros = 60 * SECOND


class Event(Struct, frozen=True):
    """One thing that happened to one job. `failure` goes with failed and retrying, `result` with completed."""

    name: str
    at: Micros
    job: JobRecord
    failure: Failure | None = None
    result: bytes | None = None


class Watcher:
    """Follows the jobs of one store; `tell` gets every event, in the order of their times."""

    def __init__(self, store: Store, tell: Callable[[Event], None], overflow: Callable[[], None]) -> None:
        self._store = store
        self._tell = tell
        self._overflow = overflow
        self._changed = asyncio.Event()
        self._seen: dict[bytes, JobRecord] = {}
        self._since: Micros = store.clock.now()

    async def run(self) -> None:
        """Until cancelled."""
        unsubscribe = self._store.subscribe(self.hear)
        try:
            await self._remember()
            while True:
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                await asyncio.sleep(SETTLE_S)
                self._changed.clear()
                await self.look()
        finally:
            unsubscribe()

    def hear(self, hint: Hint) -> None:
        if hint.topic in ("ready", "timer", "settled", "cancel"):
            self._changed.set()

    async def look(self) -> None:
        """Tell what has changed since the last look."""
        followed = [job for job, record in self._seen.items() if record.state not in ENDED]
        fresh = await self._fresh()
        current = [record for record in await self._store.read_jobs(followed) if record is not None]
        events = [event for record in (*fresh, *current) for event in self._differences(record)]
        for event in sorted(events, key=lambda event: event.at):
            self._tell(await self._complete(event))
        self._forget()

    async def _remember(self) -> None:
        """What was there before we looked is followed, not told."""
        for state in (State.PENDING, *LIVE):
            found = await self._store.list_jobs(JobFilter(state=state), before=None, limit=PAGE)
            self._seen |= {record.id: record for record in found if record.created_at < self._since}

    async def _fresh(self) -> list[JobRecord]:
        newest = await self._store.list_jobs(JobFilter(), before=None, limit=PAGE)
        fresh = [r for r in newest if r.id not in self._seen and r.created_at >= self._since]
        if len(fresh) == PAGE:
            self._overflow()
        return fresh

    def _differences(self, record: JobRecord) -> list[Event]:
        before = self._seen.get(record.id)
        self._seen[record.id] = record
        return list(changes(before, record))

    async def _complete(self, event: Event) -> Event:
        """With the error or the result that goes with it."""
        job = event.job
        if event.name in ("failed", "retrying"):
            failures = await self._store.read_failures(job.id)
            return Event(event.name, event.at, job, failures[-1].failure if failures else None)
        if event.name == "completed":
            (ended,) = await self._store.read_ended([job.id])
            return Event(event.name, event.at, job, None, ended.result if ended else None)
        return event

    def _forget(self) -> None:
        """Bounded: ended jobs go when they cannot come back in a listing as new, and the oldest go if there are too many."""
        self._since = max(self._since, self._store.clock.now() - _OLD)
        for job in [id_ for id_, r in self._seen.items() if r.state in ENDED and r.created_at < self._since]:
            del self._seen[job]
        for job in list(self._seen)[: max(0, len(self._seen) - MOST_FOLLOWED)]:
            del self._seen[job]


def changes(before: JobRecord | None, after: JobRecord) -> Iterator[Event]:
    """What must have happened between two looks at a job."""
    if before is None:
        yield Event("submitted", after.created_at, after)
    elif before.state in ENDED and after.state not in ENDED:
        yield Event("replayed", after.due_at, after)
    failed_before = before.failures if before else 0
    retried = after.failures - (after.state == State.FAILED)
    if retried > failed_before:
        yield Event("retrying", max(after.started_at or 0, after.created_at), after)
    if after.state in ENDED:
        if before is None or before.state not in ENDED:
            yield Event(after.state, after.finished_at or after.due_at, after)
        return
    if after.state in LIVE and (before is None or after.attempt > before.attempt or before.state not in LIVE):
        yield Event("started", after.started_at or after.due_at, after)
