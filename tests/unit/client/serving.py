"""A server whose answers a test decides, for what a real one cannot be made to do: to lose an answer, to fall silent."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from mainspring.client.transport import Transport

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def connected(handler: Handler, *, retry_for_s: float = 5.0) -> AsyncIterator[Transport]:
    runner = web.ServerRunner(web.Server(handler), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    transport = Transport(str(site.name), "msk_key", retry_for_s=retry_for_s)
    try:
        yield transport
    finally:
        await transport.close()
        await runner.cleanup()


def cut(request: web.BaseRequest) -> None:
    """Break the connection: whoever asked hears nothing more."""
    assert request.transport is not None
    request.transport.close()
