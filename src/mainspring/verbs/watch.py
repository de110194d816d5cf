"""Single jobs as they go on, for those who follow one: one read of all watched jobs per look (see `faces.Jobs.events`)."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from datetime import datetime

from mainspring.core.job import JobRecord
from mainspring.core.lifecycle import ENDED, LIVE
from mainspring.core.partition import format_id
from mainspring.core.timer import from_micros
from mainspring.errors import NotFoundError
from mainspring.store.contract import Store
from mainspring.verbs import documents as d
from mainspring.verbs.looking import Looks
from mainspring.verbs.shown import progress_of
from mainspring.wire import Progress

Seen = tuple[JobRecord | None, Progress | None]


class _Follower:
    """Somebody who follows a job. What he has not looked at yet is replaced by what is newer."""

    __slots__ = ("latest", "news")

    def __init__(self) -> None:
        self.latest: Seen = (None, None)
        self.news = asyncio.Event()

    def tell(self, seen: Seen) -> None:
        self.latest = seen
        self.news.set()


class JobWatch:
    """Made in the event loop in which it is used."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._followers: dict[bytes, list[_Follower]] = {}
        self._looks = Looks(self._look, lambda: bool(self._followers))
        self.hear = self._looks.hear

    async def follow(self, job: bytes, tenant: str | None) -> AsyncGenerator[d.JobEvent, None]:
        """Its state now, then what happens, until it has ended or is gone."""
        follower = _Follower()
        self._followers.setdefault(job, []).append(follower)
        try:
            before = (await self._read([job]))[job]
            if before[0] is None or tenant not in (None, before[0].tenant):
                raise NotFoundError(f"there is no job {format_id(job)}")
            yield _event("ended" if before[0].state in ENDED else "state", before[0], _at(before[0]), before[1])
            self._looks.begin()
            while before[0] is not None and before[0].state not in ENDED:
                await follower.news.wait()
                follower.news.clear()
                after = follower.latest
                for event in changes(before, after):
                    yield event
                before = after
        finally:
            self._forget(job, follower)

    def close(self) -> None:
        """Everybody's stream ends."""
        self._looks.close()
        for followers in self._followers.values():
            for follower in followers:
                follower.tell((None, None))

    def _forget(self, job: bytes, follower: _Follower) -> None:
        self._followers[job].remove(follower)
        if not self._followers[job]:
            del self._followers[job]

    async def _look(self) -> None:
        for job, seen in (await self._read(list(self._followers))).items():
            for follower in self._followers.get(job, ()):
                follower.tell(seen)

    async def _read(self, jobs: list[bytes]) -> dict[bytes, Seen]:
        records = await self._store.read_jobs(jobs)
        live = [record.id for record in records if record is not None and record.state in LIVE]
        said = dict(zip(live, await self._store.read_progress(live), strict=True)) if live else {}
        return {job: (record, said.get(job)) for job, record in zip(jobs, records, strict=True)}


def changes(before: Seen, after: Seen) -> Iterator[d.JobEvent]:
    """What must have happened between two looks at a job."""
    (old, said), (new, says) = before, after
    if old is None or new is None:
        return
    if new.failures > old.failures and new.state not in ENDED:
        yield _event("retrying", new, from_micros(max(new.started_at or 0, new.created_at)))
    if new.state in LIVE and (new.attempt > old.attempt or old.state not in LIVE):
        yield _event("started", new, from_micros(new.started_at or new.due_at))
    if says is not None and says != said:
        yield _event("progress", new, from_micros(says.at), says)
    if new.state in ENDED:
        yield _event("ended", new, _at(new))


def _at(record: JobRecord) -> datetime:
    """Since when it is what it is."""
    return from_micros(record.finished_at or record.started_at or record.created_at)


def _event(name: str, record: JobRecord, at: datetime, progress: Progress | None = None) -> d.JobEvent:
    return d.JobEvent(
        event=name,
        id=format_id(record.id),
        kind=record.kind,
        queue=record.queue,
        tenant=record.tenant,
        state=record.state,
        attempt=record.attempt,
        at=at,
        reason=record.reason,
        progress=None if progress is None else progress_of(progress),
    )
