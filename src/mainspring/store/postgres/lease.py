"""Leases are renewed on a thread with an event loop and a connection of its own, so that a job that blocks the application's event
loop never costs its node the lease."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from mainspring.runtime.log import get_logger

ANSWER_S = 5.0  # half a lease: a connection that has gone dead without a word is given up in time for another one

_log = get_logger("mainspring.store")


class LeaseLine:
    """One connection that answers from any thread."""

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        self._connect = connect
        self._connection: Any = None
        self._loop = asyncio.new_event_loop()
        self._busy = asyncio.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="mainspring-lease", daemon=True)
        self._thread.start()

    def fetch(self, sql: str, arguments: tuple[Any, ...], done: Callable[[list[Any]], None]) -> None:
        """`done` is called on the line's thread with the rows; not at all where the database cannot be reached."""
        asyncio.run_coroutine_threadsafe(self._fetch(sql, arguments, done), self._loop)

    def close(self) -> None:
        self._closed = True
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _fetch(self, sql: str, arguments: tuple[Any, ...], done: Callable[[list[Any]], None]) -> None:
        async with self._busy:
            if self._closed:
                return
            try:
                async with asyncio.timeout(ANSWER_S):
                    rows = await self._ask(sql, arguments)
            except Exception as error:
                _log.warning("cannot renew the lease; trying again", error=str(error) or type(error).__name__)
                self._drop()
                return
        done(rows)

    async def _ask(self, sql: str, arguments: tuple[Any, ...]) -> list[Any]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
        await self._connection.execute("begin")
        rows: list[Any] = await self._connection.fetch(sql, *arguments)
        await self._connection.execute("commit")
        return rows

    async def _hang_up(self) -> None:
        async with self._busy:
            self._drop()

    def _drop(self) -> None:
        """Without waiting for anything: it may be dead."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
