"""Group commit for submits: what arrives while others commit goes into the next transaction together.

One caller's bad row never fails another's: a group that the database refuses is tried again one by one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from mainspring.core.job import NewJobs
from mainspring.core.lane import Lane
from mainspring.errors import StoreError
from mainspring.store.contract import Inserted

MAX_JOBS = 2000
MAX_COMMITS = 3  # at once: while one waits for the disk, the next are sent

Insert = Callable[[Sequence[NewJobs], Sequence[Lane]], Awaitable[list[list[Inserted]]]]


class _Call:
    def __init__(self, batches: Sequence[NewJobs], lanes: Sequence[Lane]) -> None:
        self.batches = batches
        self.lanes = lanes
        self.jobs = sum(len(batch.ids) for batch in batches)
        self.answer: asyncio.Future[list[list[Inserted]]] = asyncio.get_running_loop().create_future()


class Grouping:
    """Calls of `insert`, in as few transactions as they come."""

    def __init__(self, insert: Insert) -> None:
        self._insert = insert
        self._waiting: deque[_Call] = deque()
        self._committing: set[asyncio.Task[None]] = set()

    async def insert(self, batches: Sequence[NewJobs], lanes: Sequence[Lane]) -> list[list[Inserted]]:
        call = _Call(batches, lanes)
        self._waiting.append(call)
        if len(self._committing) < MAX_COMMITS:
            task = asyncio.create_task(self._commit_waiting())
            self._committing.add(task)
            task.add_done_callback(self._committing.discard)
        return await call.answer

    async def close(self) -> None:
        """Commits what is on its way."""
        while self._committing:
            await asyncio.wait(self._committing)

    async def _commit_waiting(self) -> None:
        while self._waiting:
            group, jobs = [self._waiting.popleft()], 0
            jobs = group[0].jobs
            while self._waiting and jobs + self._waiting[0].jobs <= MAX_JOBS:
                group.append(self._waiting.popleft())
                jobs += group[-1].jobs
            await self._commit(group)

    async def _commit(self, group: list[_Call]) -> None:
        batches = [batch for call in group for batch in call.batches]
        lanes = {lane.number(): lane for call in group for lane in call.lanes}
        try:
            answers = iter(await self._insert(batches, list(lanes.values())))
        except Exception as error:
            if len(group) > 1 and not isinstance(error, StoreError):
                for call in group:
                    await self._commit([call])
                return
            for call in group:
                if not call.answer.done():
                    call.answer.set_exception(error)
            return
        for call in group:
            mine = [next(answers) for _ in call.batches]
            if not call.answer.done():
                call.answer.set_result(mine)
