"""What a job function may ask about its attempt: `Context`.

Made by the runner, only for functions with a parameter annotated `Context`; read and awaited by users' code, in the
event loop, in a thread or in another process. Guarantees: everything but `cancelled` never changes during the
attempt, and `cancelled` turns true once, before anything else is done to stop the job.
"""

import asyncio
import itertools
import os
from collections.abc import Callable, Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload

import msgspec

from mainspring.core.objects import partial
from mainspring.core.options import Duration
from mainspring.core.partition import format_id
from mainspring.core.segments import LEVELS, as_lines
from mainspring.core.timer import from_micros
from mainspring.errors import InvalidError, NotRunningError
from mainspring.execute.checkpoints import Checkpoints
from mainspring.execute.masking import mask_for
from mainspring.execute.outputs import store_output
from mainspring.execute.partials import check_number, encode_partial
from mainspring.execute.remembering import Memory, Step
from mainspring.execute.scratch import made
from mainspring.execute.services import Services
from mainspring.execute.signals import Cancel
from mainspring.execute.sync_context import SyncContext
from mainspring.wire import Assignment, Progress, Stored

MAX_PROGRESS_MESSAGE = 1000

Tell = Callable[[Progress], None]
_T = TypeVar("_T")
_P = ParamSpec("_P")


class Context:
    """One attempt, as its function sees it."""

    __slots__ = (
        "_assignment",
        "_cancelled",
        "_checkpoints",
        "_memory",
        "_partials",
        "_services",
        "_tell",
        "_waiters",
    )

    def __init__(self, assignment: Assignment, tell: Tell, services: Services) -> None:
        """`tell` takes the attempt's progress, in any thread."""
        self._assignment = assignment
        self._tell = tell
        self._services = services
        self._checkpoints = Checkpoints(services)
        self._memory = Memory(services)
        self._partials = itertools.count(1)
        self._cancelled = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def job_id(self) -> str:
        return format_id(self._assignment.job)

    @property
    def attempt(self) -> int:
        """1 for the first; rises with every attempt, also after a snooze or a lost worker."""
        return self._assignment.attempt

    @property
    def kind(self) -> str:
        return self._assignment.kind

    @property
    def queue(self) -> str:
        return self._assignment.queue

    @property
    def tenant(self) -> str:
        return self._assignment.tenant

    @property
    def failures(self) -> int:
        """How many earlier attempts failed."""
        return self._assignment.failures

    @property
    def retries_left(self) -> int:
        """How often this job may still fail and be tried again."""
        return max(0, self._assignment.options.retries - self._assignment.failures)

    @property
    def is_last_attempt(self) -> bool:
        """Would a failure now be the job's end?"""
        return self.retries_left == 0

    @property
    def deadline(self) -> datetime | None:
        """When the job is wanted by, in UTC; None if nobody said."""
        deadline_at = self._assignment.options.deadline_at
        return None if deadline_at is None else from_micros(deadline_at)

    @property
    def tags(self) -> tuple[str, ...]:
        return self._assignment.options.tags

    @property
    def labels(self) -> frozenset[str]:
        return self._assignment.options.labels

    def secret(self, name: str) -> str:
        """The value of a secret, by the name that the job's option `secrets` gives it. It is masked in logs, progress and
        failures, and nowhere else: a result that holds it shows it."""
        try:
            return self._assignment.secrets[name]
        except KeyError:
            known = ", ".join(self._assignment.secrets) or "none"
            raise InvalidError(
                "secrets", f"this job has no secret {name!r}; its option `secrets` names: {known}"
            ) from None

    def progress(self, percent: float, message: str = "") -> None:
        """Say how far the job is: 0 to 100, and a few words. Not awaited, and the same in async functions, threads and processes.

        It costs little and never waits: the newest is sent with the worker's next report, every few seconds, the first one at
        once. A message is cut after 1,000 characters.
        """
        if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:
            raise InvalidError("percent", f"expected a number from 0 to 100, got {percent!r}")
        if not isinstance(message, str):
            raise InvalidError("message", f"expected text, got {type(message).__name__}")
        shown = mask_for(self._assignment.secrets).text(message)
        text = shown[:MAX_PROGRESS_MESSAGE].encode(errors="replace").decode()
        self._tell(Progress(self._assignment.job, self._assignment.attempt, float(percent), text))

    def log(self, text: str, level: str = "info") -> None:
        """Write a line, or several, into the job's log. Not awaited, and the same in async functions, threads and processes.

        level: debug, info, warning or error. Lines are stored within a second or so, and all of them before the job has ended;
        `mainspring jobs logs ID` shows them.
        """
        if not isinstance(text, str):
            raise InvalidError("text", f"expected text, got {type(text).__name__}")
        if level not in LEVELS:
            raise InvalidError("level", f"{level!r} is none of {', '.join(LEVELS)}")
        self._services.log(LEVELS[level], as_lines(text))

    async def emit(self, value: object) -> None:
        """Give out a partial result while the job runs: a value with a JSON form. Stored when this returns.

        Whoever has the job's handle reads them with `async for value in job.partial()`, from the first one on.
        """
        data = encode_partial(value)
        number = check_number(next(self._partials))  # now that it can be stored: a gap would stop followers
        await self._services.put(partial(self._assignment.attempt, number), data)

    async def output(
        self, source: str | os.PathLike[str] | bytes, name: str | None = None, media: str | None = None
    ) -> Stored:
        """Store a file of the job, by its path, or bytes under a name. It is durable when this returns, and listed once the job has
        completed: `await job.outputs()`, `await job.download(name, path)`.

        name: the file's own where it is left out. media: its type, such as text/csv; guessed from the name where it is left out.
        """
        return await store_output(self._services, source, name, media)

    @property
    def scratch(self) -> Path:
        """An empty folder of the attempt's own, made when it is first asked for and removed after the attempt."""
        folder = self._services.scratch
        if folder is None:
            raise NotRunningError("this attempt has no folder")
        return made(folder)

    async def checkpoint(self, state: object, every: Duration | None = None) -> None:
        """Save where the job is, as JSON: the next attempt finds it in `resume`. It is durable when this returns.

        `every`: save no more often than that, however often this is called; what is held back is saved when the function ends,
        also when it is asked to stop, but not when its process dies.
        """
        await self._checkpoints.save(state, every)

    @property
    def resume(self) -> Any:
        """The newest checkpoint of the attempts before, as plain JSON; None where there is none."""
        data = self._services.resume
        return None if data is None else msgspec.json.decode(data)

    @overload
    async def step(
        self, name: str, function: Callable[_P, Coroutine[Any, Any, _T]], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T: ...

    @overload
    async def step(self, name: str, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function once in the life of the job: a later attempt gets what it returned, and does not call it again.

        Its result, JSON, is durable when this returns, and is read back as the function's return annotation says. A function that
        is not async runs in a thread. The name is the step's own within the job; with other arguments than before it is an error.
        """
        step = Step(name, function, args, kwargs)
        result = await self._memory.recall(step)
        if result is None:
            try:
                value = await step.run()
            except BaseException:
                self._memory.forget(step)
                raise
            result = await self._memory.remember(step, value)
        return step.decode(result)

    @property
    def sync(self) -> SyncContext:
        """For functions that are not async: the same calls, not awaited."""
        return SyncContext(self)

    @property
    def cancelled(self) -> bool:
        """Should the job stop? After a cancel, a timeout, or when the worker stops and its patience is over."""
        return self._cancelled

    def check_cancelled(self) -> None:
        """Raise if the job should stop: for functions in threads and processes, between two pieces of work."""
        if self._cancelled:
            raise Cancel("the job was asked to stop")

    async def wait_cancelled(self) -> None:
        """Return when the job should stop."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            # Asked only now: a request from another thread either finds the waiter or is seen here.
            if not self._cancelled:
                await waiter
        finally:
            self._waiters.remove(waiter)

    def request_stop(self) -> None:
        """Called by the runner, from whatever thread it is in."""
        self._cancelled = True
        for waiter in list(self._waiters):
            try:
                waiter.get_loop().call_soon_threadsafe(_resolve, waiter)
            except RuntimeError:  # a loop of the job's own, closed since
                continue


def _resolve(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
