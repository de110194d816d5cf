"""The one waiter behind everybody who waits for jobs to end, in this process or at the other end of a connection.

After each "settled" hint it asks once for all of them (see `looking`). Nobody misses an end: whoever begins to wait is noted
before the first look, and a slow look stands behind hints that were lost.
"""

import asyncio
from collections.abc import Sequence

from mainspring.core.partition import format_id
from mainspring.errors import NotFoundError
from mainspring.store.contract import Ended, Jobs
from mainspring.verbs.looking import Looks


class _Waiting:
    """Somebody who waits for the first of some jobs of a tenant (None: of any)."""

    __slots__ = ("found", "future", "tenant")

    def __init__(self, loop: asyncio.AbstractEventLoop, tenant: str | None) -> None:
        self.future: asyncio.Future[None] = loop.create_future()
        self.tenant = tenant
        self.found: dict[bytes, Ended] = {}

    def note(self, job: bytes, ended: Ended) -> bool:
        """Is this what it waits for?"""
        if self.tenant not in (None, ended.tenant):
            return False
        self.found[job] = ended
        return True


class Waiter:
    """Answers everybody who waits for a job to end, with one query for all of them."""

    def __init__(self, store: Jobs) -> None:
        self._store = store
        self._waiting: dict[bytes, list[_Waiting]] = {}
        self._loop = asyncio.get_running_loop()
        self._looks = Looks(self._look, lambda: bool(self._waiting))
        self.hear = self._looks.hear

    async def wait(self, job: bytes, tenant: str | None = None) -> Ended:
        """When it has ended; `NotFoundError` where there is no such job, or it is not this tenant's."""
        ended, _ = await self.wait_any([job], tenant)
        if job not in ended:
            raise NotFoundError(f"there is no job {format_id(job)}")
        return ended[job]

    async def wait_any(
        self, jobs: Sequence[bytes], tenant: str | None = None
    ) -> tuple[dict[bytes, Ended], Sequence[bytes]]:
        """When at least one of them has ended: those that have. Or at once, where some are no jobs of this tenant (None: of any):
        those."""
        waiting = _Waiting(self._loop, tenant)
        for job in jobs:  # before the first look, so that no hint falls between the two
            self._waiting.setdefault(job, []).append(waiting)
        try:
            unknown = await self._first_look(jobs, waiting)
            if not waiting.found and not unknown:
                self._looks.begin()
                await waiting.future
            return waiting.found, unknown
        finally:
            self._forget(jobs, waiting)

    async def _first_look(self, jobs: Sequence[bytes], waiting: _Waiting) -> list[bytes]:
        """Notes those that have ended; where none has, answers those that never will for this tenant."""
        unknown, others = [], []
        for job, ended in zip(jobs, await self._store.read_ended(jobs), strict=True):
            if ended is None:
                others.append(job)
            elif not waiting.note(job, ended):
                unknown.append(job)
        if others and not waiting.found:
            records = await self._store.read_jobs(others)
            pairs = zip(others, records, strict=True)
            unknown += [job for job, record in pairs if record is None or waiting.tenant not in (None, record.tenant)]
        return unknown

    def close(self) -> None:
        self._looks.close()
        for everybody in self._waiting.values():
            for waiting in everybody:
                waiting.future.cancel()

    def _forget(self, jobs: Sequence[bytes], waiting: _Waiting) -> None:
        for job in jobs:
            left = self._waiting.get(job, [])
            if waiting in left:
                left.remove(waiting)
            if not left:
                self._waiting.pop(job, None)

    async def _look(self) -> None:
        ids = list(self._waiting)
        for job, ended in zip(ids, await self._store.read_ended(ids), strict=True):
            if ended is not None:
                self._tell(job, ended)

    def _tell(self, job: bytes, ended: Ended) -> None:
        for waiting in self._waiting.pop(job, []):
            if waiting.note(job, ended) and not waiting.future.done():
                waiting.future.set_result(None)
