"""An upload's data as what obstore reads on its thread: a plain iterator, also over what comes in the event loop. What is small is
waited for before it needs a thread.

Guarantees: where the source breaks off, `error` says so, which is not the place's fault; after `stop` nothing more is asked of it.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterator


async def begun(source: AsyncIterable[bytes], most: int) -> tuple[bytes, AsyncIterator[bytes] | None]:
    """The first bytes, more than `most`, and what comes behind them; None: that was all."""
    first, rest = bytearray(), aiter(source)
    async for piece in rest:
        first += piece
        if len(first) > most:
            return bytes(first), rest
    return bytes(first), None


class Feed:
    """Made in the event loop of the source, read on another thread."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes]) -> None:
        self._first = first
        self._source = rest
        self._loop = asyncio.get_running_loop()
        self._asking: asyncio.Task[bytes | None] | None = None  # known in the event loop only
        self._stopped = False
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        first, self._first = self._first, b""
        yield first
        while (piece := self._next()) is not None:
            if piece:
                yield piece

    def stop(self) -> None:
        """Whoever gave the source has left: the upload breaks off."""
        self._stopped = True
        if self._asking is not None:
            self._asking.cancel()

    def _next(self) -> bytes | None:
        try:
            return asyncio.run_coroutine_threadsafe(self._ask(), self._loop).result()
        except BaseException as error:
            self.error = error
            raise

    async def _ask(self) -> bytes | None:
        if self._stopped:
            raise asyncio.CancelledError
        self._asking = asyncio.current_task()
        return await anext(self._source, None)
