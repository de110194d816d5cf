"""Long answers: whatever waits on behalf of a request ends when its time is over, when the server stops, or when nobody listens."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring.api.asgi import Receive
from mainspring.api.bodies import GoneError
from mainspring.api.problems import NotReadyError

if TYPE_CHECKING:
    from mainspring.api.asking import Ask

T = TypeVar("T")


async def wait_for(ask: "Ask", work: Coroutine[Any, Any, T], timeout_s: float) -> T | None:
    """What the work gives; None where it has not come in time, or the server stops meanwhile. One that stops already says so, or
    whoever waits would ask again and again. The request's body must have been read."""
    if ask.parts.stopping.is_set():
        work.close()
        raise NotReadyError("the server is stopping; ask again, another one may answer")
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(ask.parts.stopping.wait())
    leaving = asyncio.ensure_future(gone(ask.receive))
    try:
        await asyncio.wait((working, stopping, leaving), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if leaving.done():
            raise GoneError
        return None
    finally:
        await end(working, stopping, leaving)


async def gone(receive: Receive) -> None:
    """Until whoever asked has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def end(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
