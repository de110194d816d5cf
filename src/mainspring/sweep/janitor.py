"""The janitor: what jobs have stored goes when it should, a bounded step at a time.

Results whose time is over are removed with their files; whoever asks for one learns that. Objects of jobs that no longer exist are
found by going through the days and asking the store for their jobs, every few hours: a job that exists loses nothing, and one
that was pruned, erased or lost with an old database leaves nothing for long. One node does it: the owner of the first partition.
A place that cannot be used is said once in a while, and waited for.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from mainspring.core.timer import SECOND, Micros, seconds
from mainspring.errors import InvalidError, StoreUnavailableError
from mainspring.objects.place import ObjectPlace
from mainspring.runtime.clock import Clock
from mainspring.runtime.gauges import Gauges
from mainspring.runtime.log import get_logger
from mainspring.store.contract import Jobs, Timers

BATCH = 200
LOOK_S = 600.0  # what is over is not shown any more, removed or not
ROUND_S = 6 * 3600.0
AGAIN_S = 600.0
_AT_ONCE = 8  # jobs whose objects are being removed

_log = get_logger("mainspring.janitor")


class JanitorStore(Jobs, Timers, Protocol):
    """What the janitor needs of a store."""


class Janitor:
    """Removes objects. `own` says which partitions this node has."""

    name = "janitor"

    def __init__(self, store: JanitorStore, objects: ObjectPlace, clock: Clock, gauges: Gauges) -> None:
        self._store = store
        self._objects = objects
        self._clock = clock
        self._gauges = gauges
        self._in_charge = False
        self._round_at: Micros = 0
        self._days: list[str] | None = None  # still to look at in this round; None: there is no round
        self._jobs: list[bytes] = []  # of a day
        self._removing = asyncio.Semaphore(_AT_ONCE)

    def own(self, partitions: Sequence[int]) -> None:
        self._in_charge = 0 in partitions

    async def run_once(self) -> float:
        if not self._in_charge:
            return LOOK_S
        try:
            more = await self._expire()
            return 0 if await self._look_around() or more else self._rest_s()
        except (InvalidError, StoreUnavailableError) as error:
            _log.warning("objects cannot be removed", error=str(error), again_in_s=AGAIN_S)
            return AGAIN_S

    async def _expire(self) -> bool:
        """Files first: what is interrupted is found again by its result. Is there more?"""
        due = await self._store.list_expired(BATCH)
        if due:
            await self._remove([job for job, has_files in due if has_files], "outputs/")
            await self._store.expire_results([job for job, _ in due])
        return len(due) == BATCH

    async def _look_around(self) -> bool:
        """A step of the round through all days. Is there more?"""
        if self._days is None:
            if not self._is_time():
                return False
            self._days = list(reversed(await self._objects.days()))
        if not self._jobs and self._days:
            self._jobs = await self._objects.jobs_of(self._days[-1])
            self._days.pop()
        batch, self._jobs = self._jobs[:BATCH], self._jobs[BATCH:]
        await self._remove(await self._gone(batch))
        if self._jobs or self._days:
            return True
        self._days, self._round_at = None, self._clock.now() + seconds(ROUND_S)
        return False

    async def _gone(self, jobs: Sequence[bytes]) -> list[bytes]:
        records = await self._store.read_jobs(jobs) if jobs else []
        return [job for job, record in zip(jobs, records, strict=True) if record is None]

    async def _remove(self, jobs: Sequence[bytes], prefix: str = "") -> None:
        async def remove(job: bytes) -> int:
            async with self._removing:
                return await self._objects.delete(job, prefix)

        self._gauges.removed += sum(await asyncio.gather(*(remove(job) for job in jobs)))

    def _is_time(self) -> bool:
        """Also where the clock was set back."""
        return not 0 < self._round_at - self._clock.now() <= seconds(ROUND_S)

    def _rest_s(self) -> float:
        return min(LOOK_S, max(0.0, (self._round_at - self._clock.now()) / SECOND))
