"""An upload's data as what obstore reads on its thread: a plain iterator, also over what comes in the event loop.

Guarantees: where the source breaks off, `error` says so, which is not the place's fault; after `stop` nothing more is asked of it.
"""

import asyncio
from collections.abc import AsyncIterable, Iterator
from concurrent.futures import Future


class Feed:
    """Made in the event loop of the source, read on another thread."""

    def __init__(self, source: AsyncIterable[bytes]) -> None:
        self._source = aiter(source)
        self._loop = asyncio.get_running_loop()
        self._coming: Future[bytes | None] | None = None
        self._stopped = False
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        while (piece := self._next()) is not None:
            if piece:
                yield piece

    def stop(self) -> None:
        """Whoever gave the source has left: the upload breaks off."""
        self._stopped = True
        if self._coming is not None:
            self._coming.cancel()

    def _next(self) -> bytes | None:
        try:
            self._coming = asyncio.run_coroutine_threadsafe(self._ask(), self._loop)
            return self._coming.result()
        except BaseException as error:
            self.error = error
            raise

    async def _ask(self) -> bytes | None:
        if self._stopped:
            raise asyncio.CancelledError
        return await anext(self._source, None)
