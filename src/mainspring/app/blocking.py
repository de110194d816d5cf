"""The same calls for code without asyncio: `app.sync` and `function.sync`.

An event loop on a thread of its own does the work; every call here waits for one there. `with app.sync:` opens and closes it.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from mainspring.app.handle import Job, JobStatus
from mainspring.core.draft import Draft
from mainspring.core.options import GivenOptions
from mainspring.errors import NotRunningError
from mainspring.runtime.loop import new_event_loop

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
            raise NotRunningError("the app is not open: use `with app.sync:`")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def submit_many(self, drafts: Iterable[Draft]) -> "list[SyncJob[Any]]":
        return [SyncJob(self, job) for job in self.call(self._app.submit_many(drafts))]

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


class SyncFunction(Generic[P, R]):
    """A registered function without asyncio."""

    def __init__(self, app: SyncApp, function: "BoundFunction[P, R]") -> None:
        self._app = app
        self._function = function

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> "SyncJob[R]":
        return SyncJob(self._app, self._app.call(self._function.submit(*args, **kwargs)))

    def options(self, **options: Unpack[GivenOptions]) -> "SyncFunction[P, R]":
        return SyncFunction(self._app, self._function.options(**options))


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

    def cancel(self) -> bool:
        return self._app.call(self._job.cancel())

    def __repr__(self) -> str:
        return f"<SyncJob {self.id}>"
