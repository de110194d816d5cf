"""The same calls for code without asyncio: `app.sync` and `function.sync`.

An event loop on a thread of its own does the work; every call here waits for one there. `with app.sync:` opens and closes it.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from mainspring.app.handle import Job, JobStatus
from mainspring.app.within import Committing, required
from mainspring.core.draft import Draft
from mainspring.core.options import GivenOptions
from mainspring.errors import NotRunningError
from mainspring.runtime.loop import new_event_loop
from mainspring.store.contract import Transaction
from mainspring.verbs.documents import LogPart, OutputDocument

if TYPE_CHECKING:
    from mainspring.app.application import App
    from mainspring.app.function import BoundFunction

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class SyncApp:
    """`App` without asyncio."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = 0
        self._lock = threading.Lock()
        self._here = _Here()

    def __enter__(self) -> "SyncApp":
        with self._lock:
            if self._opened == 0:
                self._start()
            self._opened += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._opened -= 1
            if self._opened == 0:
                self._end()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the app and wait for it."""
        if self._loop is None:
            work.close()
            raise _not_open()
        if self._here.context is not None:
            work = _run_in(self._here.context, work)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def each(self, stream: AsyncGenerator[T, None]) -> Iterator[T]:
        """What a stream of the app gives, one after the other."""
        try:
            while (value := self.call(_next(stream))) is not None:
                yield value[0]
        finally:
            self.call(stream.aclose())

    def submit_many(
        self, drafts: Iterable[Draft], *, within: "SyncTransaction | Committing | None" = None
    ) -> "list[SyncJob[Any]]":
        """As `App.submit_many`. `within`: as in `function.sync.within(...)`."""
        if within is None or isinstance(within, SyncTransaction):
            jobs = self.call(self._app.submit_many(drafts, within=None if within is None else within.inner))
        else:
            if self._loop is None:
                raise _not_open()
            jobs = _run_here(self._app.submit_blocking(drafts, within))
        return [SyncJob(self, job) for job in jobs]

    @contextmanager
    def transaction(self) -> "Iterator[SyncTransaction]":
        """As `App.transaction`, with `with`."""
        # One context for all calls from the block, as one task has: the store can tell that they come from inside of it.
        before = self._here.context
        self._here.context = copy_context() if before is None else before.copy()
        try:
            block = self._app.transaction()
            inner = self.call(block.__aenter__())
            try:
                yield SyncTransaction(self, inner)
            except BaseException as error:
                self.call(block.__aexit__(type(error), error, error.__traceback__))
                raise
            else:
                self.call(block.__aexit__(None, None, None))
        finally:
            self._here.context = before

    def get(self, id: str) -> "SyncJob[Any]":
        return SyncJob(self, self._app.get(id))

    def run(self, **settings: Any) -> None:
        """As `App.run`, in the calling thread: until stopped."""
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._app.run(**settings))

    def _start(self) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mainspring-sync", daemon=True)
        self._thread.start()
        try:
            self.call(self._app.__aenter__())
        except BaseException:
            self._stop_loop()
            raise

    def _end(self) -> None:
        try:
            self.call(self._app.__aexit__())
        finally:
            self._stop_loop()

    def _stop_loop(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = None


def _not_open() -> NotRunningError:
    return NotRunningError("the app is not open: use `with app.sync:`")


class _Here(threading.local):
    """What belongs to the calling thread."""

    context: Context | None = None


async def _next(stream: AsyncGenerator[T, None]) -> tuple[T] | None:
    async for value in stream:
        return (value,)
    return None


async def _run_in(context: Context, work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.create_task(work, context=context)


def _run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits only in calls that block: on this thread, because its connection belongs here."""
    try:
        work.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    work.close()
    raise AssertionError("a submit on a blocking connection waited for an event loop")


class SyncTransaction:
    """`Transaction` without asyncio: what `app.sync.transaction()` gives."""

    def __init__(self, app: SyncApp, inner: Transaction) -> None:
        self._app = app
        self.inner = inner

    def execute(self, sql: str, /, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement of yours; its rows, if it has any. Parameters are `$1`, `$2` and so on."""
        return self._app.call(self.inner.execute(sql, *parameters))


class SyncFunction(Generic[P, R]):
    """A registered function without asyncio."""

    def __init__(
        self, app: SyncApp, function: "BoundFunction[P, R]", within: SyncTransaction | Committing | None = None
    ) -> None:
        self._app = app
        self._function = function
        self._within = within

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> "SyncJob[R]":
        (job,) = self._app.submit_many([self._function.job(*args, **kwargs)], within=self._within)
        return job

    def options(self, **options: Unpack[GivenOptions]) -> "SyncFunction[P, R]":
        return SyncFunction(self._app, self._function.options(**options), self._within)

    def within(self, connection: SyncTransaction | Committing) -> "SyncFunction[P, R]":
        """The same function, submitting inside a transaction that you have open: its jobs exist if and when you commit.

        connection: what `app.sync.transaction()` gives. On PostgreSQL also your own connection: of psycopg 3 (Connection) or of
        SQLAlchemy (Connection, Session). It is used on the calling thread.
        """
        return SyncFunction(self._app, self._function, required(connection))


class SyncJob(Generic[R]):
    """A job's handle without asyncio."""

    def __init__(self, app: SyncApp, job: Job[R]) -> None:
        self._app = app
        self._job = job

    @property
    def id(self) -> str:
        return self._job.id

    @property
    def existed(self) -> bool:
        return self._job.existed

    def status(self) -> JobStatus:
        return self._app.call(self._job.status())

    def result(self, timeout: float | None = None) -> R:
        return self._app.call(self._job.result(timeout))

    def outputs(self) -> Sequence[OutputDocument]:
        return self._app.call(self._job.outputs())

    def download(self, name: str, path: str | os.PathLike[str]) -> Path:
        return self._app.call(self._job.download(name, path))

    def cancel(self) -> bool:
        return self._app.call(self._job.cancel())

    def logs(self, *, attempt: int | None = None, follow: bool = False) -> Iterator[LogPart]:
        return self._app.each(self._job.logs(attempt=attempt, follow=follow))

    def partial(self) -> Iterator[Any]:
        return self._app.each(self._job.partial())

    def __repr__(self) -> str:
        return f"<SyncJob {self.id}>"
