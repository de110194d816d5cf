"""A real server in this process, on a free port: in the test's event loop, or on a thread with a loop of its own.

The server executes what `app` declares, so a test that wants jobs to end gives it an application with functions; with a bare
`App(store)` nothing is executed here.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from msgspec import Struct

from mainspring import App
from mainspring.app.serving import Serving
from mainspring.config import ServeSettings
from mainspring.runtime.loop import new_event_loop


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
    told: list[Served] = []
    failed: list[BaseException] = []
    ready, ending = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with served(app, keys=keys, port=port, **run) as server:
            told.append(server)
            ready.set()
            await ending.wait()

    def work() -> None:
        try:
            runner.run(serve())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        thread = threading.Thread(target=work, name="test-server")
        thread.start()
        ready.wait()
        try:
            if told:
                yield told[0]
        finally:
            runner.get_loop().call_soon_threadsafe(ending.set)
            thread.join()
    if failed:
        raise failed[0]
