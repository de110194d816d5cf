"""A load of all sorts of jobs, from a seed; what was acknowledged is written down outside."""

import random
from typing import Any

from msgspec import Struct

from faults.scene import Jobs, append
from mainspring.errors import StoreUnavailableError, StoreUncertainError


class Done(Struct):
    """How many jobs were acknowledged, refused, or neither."""

    acknowledged: int = 0
    refused: int = 0
    uncertain: int = 0


class Load:
    """Submits a batch at a time. Whatever the store answers, the book-keeping is exact: acknowledged, refused, or not known.

    What is not known of jobs with keys is found out by submitting them again: then it is acknowledged.
    """

    def __init__(self, jobs: Jobs, acks: str, seed: int, most: int = 200) -> None:
        self._jobs = jobs
        self._acks = acks
        self._random = random.Random(seed)
        self._most = most
        self._named = f"{seed}-"
        self._number = 0
        self.done = Done()

    async def submit(self) -> None:
        has_keys = self._random.random() < 0.2
        drafts = [self._draft(has_keys) for _ in range(self._random.randint(1, self._most))]
        while not await self._try(drafts) and has_keys:
            pass

    async def _try(self, drafts: list[Any]) -> bool:
        try:
            submitted = await self._jobs.app.submit_many(drafts)
        except StoreUnavailableError:
            self.done.refused += len(drafts)
            return False
        except StoreUncertainError:
            self.done.uncertain += len(drafts)
            return False
        append(self._acks, "\n".join(job.id for job in submitted))
        self.done.acknowledged += len(submitted)
        return True

    def _draft(self, has_key: bool) -> Any:
        jobs, number = self._jobs, self._random.random()
        if has_key:
            self._number += 1
            return jobs.quick.options(key=f"{self._named}{self._number}").job(0)
        if number < 0.6:
            return jobs.quick.job(0)
        if number < 0.75:
            return jobs.nap.job(self._random.uniform(0.0, 0.2))
        if number < 0.85:
            return jobs.quick_thread.job(0)
        if number < 0.95:
            return jobs.quick.options(delay=self._random.uniform(0.0, 2.0)).job(0)
        return jobs.flaky.job()
