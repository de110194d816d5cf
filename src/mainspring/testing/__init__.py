"""Testing your jobs without waiting: a node that you drive by hand.

    async with ManualNode(app) as node:
        job = await send.options(delay="10m").submit("a@b.c")
        await node.advance("10m")
        assert (await job.status()).state == "completed"

The store, the scheduler and the worker are the real ones; only the clock is yours, and nothing happens until you `tick` or
`advance`. The store is a file in a folder of its own that goes with the node, or the app's own if you ask for that.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from mainspring.app import App
from mainspring.app.running import machine_resources
from mainspring.core.duration import parse_duration
from mainspring.core.job import Resources
from mainspring.core.options import Duration, check_labels
from mainspring.core.timer import SECOND, Micros, from_micros, seconds, to_micros
from mainspring.errors import NotRunningError
from mainspring.execute.types.catalogue import read_names, with_types
from mainspring.execute.worker import Worker
from mainspring.node import Node
from mainspring.runtime.clock import ManualClock
from mainspring.store.opening import StoreSettings
from mainspring.verbs.declaring import synchronise

_DEFAULT_START = datetime(2030, 1, 1, tzinfo=UTC)
_KEEP_S = 7 * 86_400.0


class ManualNode:
    """A node and a worker for one app, under a clock that stands still."""

    def __init__(
        self,
        app: App,
        *,
        now: datetime = _DEFAULT_START,
        slots: int = 100,
        labels: Iterable[str] = (),
        resources: Resources | None = None,
        types: str | Iterable[str] = (),
        own_store: bool = False,
    ) -> None:
        """`labels`, `resources` and `types`: what the worker has, as in `App.run`. `own_store`: work on the store that the app
        names, which stays when the node has gone."""
        self._app = app
        self._own_store = own_store
        self._slots = slots
        self._labels = check_labels(labels)
        self._resources = resources or machine_resources()
        self._types = read_names("types", types)
        self._clock = ManualClock(to_micros("now", now))

    async def __aenter__(self) -> "ManualNode":
        registry = with_types(self._app.registry, self._types)
        self._own = (self._app.store_settings, self._app.clock)
        self._folder = None if self._own_store else Path(tempfile.mkdtemp(prefix="mainspring-test-"))
        if self._folder is not None:
            self._app.store_settings = StoreSettings(f"sqlite:///{self._folder}/test.db")
        self._app.clock = self._clock
        await self._app.__aenter__()
        store = self._app.store
        await synchronise(store, *self._app.declared)
        self.node = Node(
            store,
            self._app.engine.objects,
            keep_s=_KEEP_S,
            keep_failed_s=_KEEP_S,
            keys=self._app.engine.keys,
            monotonic=lambda: self._clock.now() / SECOND,
        )
        await self.node.join()
        self._worker = Worker(
            registry,
            self.node.desk,
            slots=self._slots,
            labels=self._labels,
            resources=self._resources,
            hooks=self._app.hooks,
            grace_s=0.0,
            now=store.clock.now,
        )
        self._working = asyncio.create_task(self._worker.run())
        try:
            await self._until(self.node.desk.wait_pulling())
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.node.drain()
        await self._worker.stop()
        await self._working
        await self._close()

    async def _close(self) -> None:
        await self.node.leave()
        await self._app.__aexit__()
        self._app.store_settings, self._app.clock = self._own
        if self._folder is not None:
            shutil.rmtree(self._folder)

    @property
    def now(self) -> datetime:
        return from_micros(self._clock.now())

    async def tick(self) -> None:
        """Do all that is due now, and wait until every job that was started has ended."""
        while True:
            before = self.node.gauges.assigned
            await self.node.tick()
            await self._until(self.node.desk.wait_idle())
            if self.node.gauges.assigned == before:
                return

    async def advance(self, by: Duration) -> None:
        """Let time pass: stop at every timer and occurrence on the way, and `tick` there."""
        end = self._clock.now() + seconds(parse_duration("by", by))
        await self.tick()
        while (at := self._next_event()) is not None and at <= end:
            self._clock.advance((at - self._clock.now()) / SECOND)
            await self.tick()
        self._clock.advance((end - self._clock.now()) / SECOND)
        await self.tick()

    async def _until(self, event: Coroutine[Any, Any, None]) -> None:
        """Wait for an event of the worker's, or for the error that ended it."""
        waiting = asyncio.ensure_future(event)
        await asyncio.wait((waiting, self._working), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            self._working.result()
            raise NotRunningError("the worker has ended")

    def _next_event(self) -> Micros | None:
        times = (self.node.sweeper.next_at, self.node.ticker.next_at, self.node.dispatcher.lanes.next_opening())
        return min((at for at in times if at is not None and at > self._clock.now()), default=None)
