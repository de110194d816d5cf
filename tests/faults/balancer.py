"""What stands between workers and servers: an HTTP proxy that takes servers in turn, and loses requests where a test wants it to.

A lost request is lost whole: before it reached a server, or after the server has done it and its answer was on the way. Which one
it is comes from a seed. It runs on a thread of its own.
"""

import asyncio
import itertools
import random
import threading
from typing import Any, Self

import aiohttp
from aiohttp import web

_PATIENCE = aiohttp.ClientTimeout(total=None, sock_connect=5.0)


class Balancer:
    """Use as a context manager. `lose`: the share of requests that get lost, half of them before and half after their delivery."""

    def __init__(self, *upstreams: str, lose: float = 0.0, seed: int = 1) -> None:
        self._turns = itertools.cycle(upstreams)
        self.lose = lose
        self._random = random.Random(seed)
        self.served = self.lost_before = self.lost_after = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="balancer", daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        self._client = aiohttp.ClientSession(timeout=_PATIENCE, connector=aiohttp.TCPConnector(limit=0))
        self._runner = web.ServerRunner(web.Server(self._pass_on), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = str(site.name)

    async def _stop(self) -> None:
        await self._client.close()
        await self._runner.cleanup()

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        draw = self._random.random()
        body = await request.read()
        if draw < self.lose / 2:
            self.lost_before += 1
            return _lost(request)
        headers = {name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers}
        try:
            async with self._client.request(
                request.method, next(self._turns) + request.path_qs, data=body or None, headers=headers
            ) as answer:
                content = await answer.read()
        except aiohttp.ClientError:
            return web.Response(status=502, text="bad gateway")
        if draw < self.lose:
            self.lost_after += 1
            return _lost(request)
        self.served += 1
        return web.Response(status=answer.status, body=content, content_type=answer.content_type)


def _lost(request: web.BaseRequest) -> web.Response:
    """The connection breaks; nothing of the answer arrives."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
