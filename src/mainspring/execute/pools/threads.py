"""Threads for functions that are not async.

Used by the runner, from the event loop's thread. Threads are started when they are needed, up to a cap, and kept;
work beyond the cap waits in order. A thread cannot be stopped from outside: work that has not begun can be withdrawn,
work that has begun goes on until its function returns. The threads are daemons, so one that hangs does not keep the
process.
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable

from mainspring.execute.attempt import Attempt
from mainspring.wire import Outcome


class _Work:
    """One function to run; whoever gets `claim` first, a thread or a withdrawal, decides over it."""

    __slots__ = ("arm", "claim", "context", "future", "loop", "run")

    def __init__(self, run: Callable[[], Outcome], arm: Callable[[], None] | None) -> None:
        self.run = run
        self.arm = arm
        self.claim = threading.Lock()
        self.context = contextvars.copy_context()  # or a variable set by one job would be seen by the thread's next
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Outcome | None] = self.loop.create_future()

    def withdraw(self) -> bool:
        """True if it had not begun and never will."""
        if not self.claim.acquire(blocking=False):
            return False
        _resolve(self.future, None)
        return True

    def perform(self) -> None:
        """In a thread."""
        if not self.claim.acquire(blocking=False):
            return
        if self.arm is not None:
            self.loop.call_soon_threadsafe(self.arm)
        outcome = self.context.run(self.run)
        self.loop.call_soon_threadsafe(_resolve, self.future, outcome)


class Threads:
    """A pool of threads that grows on demand."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._threads = 0
        self._wanted = 0

    async def perform(self, attempt: Attempt, run: Callable[[], Outcome], arm: Callable[[], None]) -> Outcome | None:
        """`run` in a thread; `arm` is called in the loop when it begins. None: it was withdrawn."""
        work = _Work(run, arm if attempt.assignment.options.timeout_s is not None else None)
        told = attempt.context is not None
        attempt.halt = lambda: work.withdraw() or told
        self._wanted += 1
        self._grow()
        self._queue.put(work)
        try:
            return await work.future
        finally:
            self._wanted -= 1

    def close(self) -> None:
        """Ends idle threads now and busy ones after their function."""
        for _ in range(self._threads):
            self._queue.put(None)
        self._threads = 0

    def _grow(self) -> None:
        if self._wanted > self._threads and self._threads < self._cap:
            self._threads += 1
            name = f"mainspring-job-{self._threads}"
            threading.Thread(target=_work_off, args=(self._queue,), name=name, daemon=True).start()


def _work_off(work_queue: "queue.SimpleQueue[_Work | None]") -> None:
    while (work := work_queue.get()) is not None:
        try:
            work.perform()
        except RuntimeError:  # the loop was closed meanwhile: nobody waits for this or for anything later
            return
        del work  # or the last job's values would live until the next job comes


def _resolve(future: "asyncio.Future[Outcome | None]", outcome: Outcome | None) -> None:
    if not future.done():
        future.set_result(outcome)
