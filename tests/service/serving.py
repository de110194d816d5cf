"""A real server in this process, on a free port: in the test's event loop, or on a thread with a loop of its own.

The server executes what `app` declares, so a test that wants jobs to end gives it an application with functions; with a bare
`App(store)` nothing is executed here.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from mainspring import App
from mainspring.app.serving import Serving
from mainspring.config import ServeSettings
from mainspring.node import Node
from mainspring.objects.place import ObjectPlace
from mainspring.runtime.loop import new_event_loop
from mainspring.store.contract import Store
from mainspring.store.opening import StoreSettings
from mainspring.store.sqlite import SqliteStore
from mainspring.verbs.engine import Engine

T = TypeVar("T")
R = TypeVar("R")


@asynccontextmanager
async def api_over(
    store: Store, *, keys: bool = True, objects: ObjectPlace | None = None
) -> AsyncIterator[tuple[Engine, Serving]]:
    """The API over a store, and no node at work: nothing fires there, nothing runs, and the clock may stand still."""
    objects = objects or ObjectPlace("memory:///")
    node = Node(store, objects, keep_s=1e6, keep_failed_s=1e6)  # not started: its desk is all that a server needs of it
    engine = Engine(store, objects, desk=node.desk)
    serving = Serving(ServeSettings(port=0, keys=keys))
    await serving.start(engine, node)
    try:
        yield engine, serving
    finally:
        await serving.stop()
        engine.close()


@contextmanager
def api_apart(path: Path) -> Iterator[str]:
    """The same over a SQLite file, on a thread of its own and without keys; its URL."""

    @asynccontextmanager
    async def serve() -> AsyncIterator[str]:
        store = await SqliteStore.open(path)
        objects = ObjectPlace(StoreSettings(f"sqlite:///{path}").objects_place)
        async with api_over(store, keys=False, objects=objects) as (_, serving):
            yield serving.address
        await store.close()

    with _apart(serve()) as url:
        yield url


class Served(Struct, frozen=True):
    """`key`: an administrator's, of all tenants; None where the server has no keys. `app`: what it serves."""

    url: str
    key: str | None
    app: App


@asynccontextmanager
async def served(app: App, *, keys: bool = False, port: int = 0, **run: Any) -> AsyncIterator[Served]:
    """In this event loop. `run`: more for `app.run`."""
    serving = Serving(ServeSettings(port=port, keys=keys))
    ready = asyncio.Event()
    running = asyncio.create_task(app.run(signals=False, serving=serving, ready=ready.set, **run))
    started = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        yield Served(serving.address, serving.first_key, app)
    finally:
        started.cancel()
        app.stop()
        await running


@contextmanager
def served_apart(app: App, *, keys: bool = False, port: int = 0, **run: Any) -> Iterator[Served]:
    """On a thread of its own: for tests that block, as commands do."""
    with _apart(served(app, keys=keys, port=port, **run)) as server:
        yield server


@contextmanager
def _apart(server: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Keep something open in an event loop on another thread."""
    loop = new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="test-server")
    thread.start()

    def call(work: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        opened = call(server.__aenter__())
        try:
            yield opened
        finally:
            call(server.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
