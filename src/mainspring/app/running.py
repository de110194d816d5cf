"""One run of an app: a node, a worker and perhaps the HTTP API in this process, from start to drain."""

import asyncio
import inspect
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mainspring.config import RunSettings
from mainspring.core.job import Resources
from mainspring.errors import StoreUnavailableError
from mainspring.execute.registry import Registry
from mainspring.execute.worker import Worker
from mainspring.node import Node
from mainspring.runtime.log import get_logger
from mainspring.runtime.loop import tune_interpreter
from mainspring.verbs.declaring import synchronise

if TYPE_CHECKING:
    from mainspring.app.application import App
    from mainspring.app.serving import Serving

_log = get_logger("mainspring.app")

_LAST_BACKOFF_S = 5.0


async def open_patiently(app: "App") -> None:
    """As `async with app`, but a database that cannot be reached is waited for: services start in any order."""
    backoff_s = 0.5
    while True:
        try:
            await app.__aenter__()
            return
        except StoreUnavailableError as error:
            if not app.store_settings.is_postgres:
                raise
            _log.warning("waiting for the store", error=str(error), again_in_s=backoff_s)
            await asyncio.sleep(backoff_s)
            backoff_s = min(_LAST_BACKOFF_S, backoff_s * 2)


class Running:
    """See `run`. Started inside the open app."""

    def __init__(
        self,
        app: "App",
        settings: RunSettings,
        registry: Registry,
        labels: frozenset[str],
        resources: Resources | None,
        serving: "Serving | None" = None,
    ) -> None:
        self._app = app
        self._serving = serving
        self.node = Node(
            app.store,
            app.engine.objects,
            keep_s=settings.keep_s,
            keep_failed_s=settings.keep_failed_s,
            keys=app.engine.keys,
            leave=self.stop,
            url=None if serving is None else serving.settings.url,
        )
        app.engine.desk = self.node.desk
        # A server without an application's code and without types has nothing to execute.
        self.worker: Worker | None = None
        if serving is None or len(registry):
            self.worker = Worker(
                registry,
                self.node.desk,
                slots=settings.slots,
                grace_s=settings.grace_s,
                log_limit=settings.log_limit,
                labels=labels,
                resources=resources or machine_resources(),
                hooks=app.hooks,
                now=app.store.clock.now,
            )
        self._stopping: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()

    async def run(self, *, signals: bool, ready: Callable[[], Awaitable[None] | None] | None) -> None:
        tune_interpreter()
        await synchronise(self._app.store, *self._app.declared)
        handled = handle_signals(self._loop, self.stop) if signals else []
        await self.node.start()
        try:
            if self._serving is not None:
                await self._serving.start(self._app.engine, self.node)
            if ready is not None:
                told = ready()
                if inspect.isawaitable(told):
                    await told
            await (self._asked.wait() if self.worker is None else self.worker.run())
        finally:
            if self._serving is not None:
                await self._serving.stop()
            await self.node.stop()
            for number in handled:
                self._loop.remove_signal_handler(number)

    def stop(self) -> None:
        """May be called again: the first call began the drain, and it goes on."""
        self._asked.set()
        if self._stopping is None:
            if self._serving is not None:
                self._serving.drain()
            self.node.drain()
            self._stopping = self._loop.create_task(self._stop_worker())

    async def _stop_worker(self) -> None:
        if self.worker is not None:
            await self.worker.stop()


def handle_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> list[int]:
    """Stop on SIGTERM and SIGINT; the signals that are handled."""
    handled: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stop)
        except (ValueError, RuntimeError):
            _log.info("not the main thread: signals are the application's")
            break
        handled.append(number)
    return handled


def machine_resources() -> Resources:
    """What jobs with `cpu=` or `memory_mb=` share, unless the run says otherwise."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_048_576
    return Resources(cpu=float(os.cpu_count() or 1), memory_mb=memory)
