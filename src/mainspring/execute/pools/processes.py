"""Processes for functions that may hang, crash or hold the interpreter lock.

Used by the runner. A process runs one job at a time and is kept for the next; up to a cap they run at once, and work
beyond it waits in order. Guarantees: a process that dies ends its attempt as failed, reason `killed`, and nothing
else; one that was told to stop is never used again, because nobody knows in what state it was interrupted.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from mainspring.core.lifecycle import Reason
from mainspring.execute.attempt import Attempt
from mainspring.execute.context import Tell
from mainspring.execute.pools.child_process import ChildProcess, ProcessDiedError
from mainspring.execute.pools.frames import Function, Order
from mainspring.execute.registry import Kind
from mainspring.execute.services import Services
from mainspring.execute.steps import failed
from mainspring.execute.targets import pickle_errors, target_of
from mainspring.wire import Failure, Outcome


class Processes:
    """Warm processes, started on demand."""

    def __init__(self, cap: int, grace_s: float) -> None:
        self._permits = cap
        self._grace_s = grace_s
        self._waiters: deque[asyncio.Future[bool]] = deque()
        self._idle: list[ChildProcess] = []
        self._all: set[ChildProcess] = set()
        self._functions: dict[str, Function] = {}

    async def perform(self, attempt: Attempt, kind: Kind, arm: Callable[[], None], tell: Tell) -> Outcome | None:
        """Run the attempt in a process; `arm` is called when its function begins, `tell` with its progress. None: it was
        stopped before."""
        if not await self._permit(attempt):
            return None
        try:
            child = await self._take()
            try:
                if attempt.stop is not None:
                    return None
                attempt.halt = child.halt
                services = attempt.services
                return await child.perform(self._order(kind, attempt, services), arm, tell, services)
            except ProcessDiedError as death:
                return failed(attempt.assignment, Failure(Reason.KILLED, "ProcessDied", str(death)))
            finally:
                await self._give_back(child)
        finally:
            self._pass_permit()

    def kill(self) -> None:
        """End every process now, with what it does."""
        for child in self._all:
            child.kill()

    async def close(self) -> None:
        children, self._idle = list(self._all), []
        await asyncio.gather(*(child.close() for child in children))
        self._all.clear()

    async def _permit(self, attempt: Attempt) -> bool:
        if self._permits > 0:
            self._permits -= 1
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)

        def withdraw() -> bool:
            if not waiter.done():
                waiter.set_result(False)
            return True

        attempt.halt = withdraw
        return await waiter

    def _pass_permit(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(True)
                return
        self._permits += 1

    async def _take(self) -> ChildProcess:
        while self._idle:
            child = self._idle.pop()
            if child.usable:
                return child
            await self._discard(child)
        child = await ChildProcess.start(self._grace_s)
        self._all.add(child)
        return child

    async def _give_back(self, child: ChildProcess) -> None:
        if child.usable:
            self._idle.append(child)
        else:
            await self._discard(child)

    async def _discard(self, child: ChildProcess) -> None:
        child.kill()
        await child.close()
        self._all.discard(child)

    def _order(self, kind: Kind, attempt: Attempt, services: Services | None) -> Order:
        function = self._function(kind)
        if services is None:
            return Order(function, attempt.assignment)
        return Order(function, attempt.assignment, services.resume, str(services.scratch))

    def _function(self, kind: Kind) -> Function:
        known = self._functions.get(kind.name)
        if known is None:
            errors = pickle_errors(kind.retry_on, kind.give_up_on)
            known = self._functions[kind.name] = Function(kind.name, target_of(kind.function), errors)
        return known
