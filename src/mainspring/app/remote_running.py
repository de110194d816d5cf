"""One run of an app that is at a server: a worker in this process, and nothing else. The server schedules."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mainspring.app.running import handle_signals, machine_resources
from mainspring.client.link import RemoteLink
from mainspring.client.settings import ServerSettings
from mainspring.config import RunSettings
from mainspring.core.job import Resources
from mainspring.core.retry import Backoff
from mainspring.errors import InvalidError
from mainspring.execute.patience import persist
from mainspring.execute.registry import Registry
from mainspring.execute.worker import Worker
from mainspring.runtime.log import get_logger
from mainspring.runtime.loop import tune_interpreter
from mainspring.verbs.declarations import declarations_of

if TYPE_CHECKING:
    from mainspring.app.application import App

_log = get_logger("mainspring.app")

_BACKOFF = Backoff(base_s=0.5, cap_s=5.0)


class RemoteRunning:
    """As `running.Running`."""

    def __init__(
        self,
        app: "App",
        server: ServerSettings,
        settings: RunSettings,
        registry: Registry,
        labels: frozenset[str],
        resources: Resources | None,
        join_token: str | None = None,
    ) -> None:
        self._app = app
        self._link = RemoteLink(server, join_token=join_token)
        self.worker = Worker(
            registry,
            self._link,
            slots=settings.slots,
            grace_s=settings.grace_s,
            log_limit=settings.log_limit,
            labels=labels,
            resources=resources or machine_resources(),
            hooks=app.hooks,
        )
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None

    async def run(self, *, signals: bool, ready: Callable[[], Awaitable[None] | None] | None) -> None:
        tune_interpreter()
        handled = handle_signals(self._loop, self.stop) if signals else []
        try:
            if not await self._declare():
                return
            if ready is not None:
                told = ready()
                if inspect.isawaitable(told):
                    await told
            await self.worker.run()
        finally:
            await self._link.close()
            for number in handled:
                self._loop.remove_signal_handler(number)

    def stop(self) -> None:
        """May be called again: the first call began the drain, and it goes on."""
        self._asked.set()
        if self._stopping is None:
            self._stopping = self._loop.create_task(self.worker.stop())

    async def _declare(self) -> bool:
        """Tell the server what the code declares; a server that cannot be reached yet is waited for. False: asked to stop."""
        said = declarations_of(*self._app.declared)
        declaring = asyncio.ensure_future(
            persist(lambda: self._link.declare(said), "declare", _BACKOFF, (InvalidError,))
        )
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait((declaring, asked), return_when=asyncio.FIRST_COMPLETED)
            for name in declaring.result() if declaring.done() else ():
                _log.warning("a stored schedule is not declared by this application; it goes on firing", schedule=name)
            return declaring.done()
        finally:
            declaring.cancel()
            asked.cancel()
