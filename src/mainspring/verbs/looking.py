"""When to look at the store for those who wait here: soon after a hint, and slowly in any case, because hints can be lost.

One look at a time, and all of them together never take more than a share of the time. What happens while a look is under way
may not be in its answer, so a hint that comes then is followed by another look.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from mainspring.errors import StoreError
from mainspring.runtime.log import get_logger
from mainspring.store.contract import Hint

_log = get_logger("mainspring.verbs")

SLOW_LOOK_S = 1.0
_MAX_SHARE = 0.2  # of the time


class Looks:
    """Calls `look` while `wanted`. Made in the event loop in which it is used."""

    def __init__(self, look: Callable[[], Awaitable[None]], wanted: Callable[[], bool]) -> None:
        self._look = look
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0  # of the timer, by the loop's clock; the handles of uvloop do not always know it
        self._task: asyncio.Task[None] | None = None
        self._pause_s = 0.0
        self._again = False
        self._closed = False

    def hear(self, hint: Hint) -> None:
        if hint.topic == "settled" and self._wanted():
            self._look_in(self._pause_s)

    def begin(self) -> None:
        """Somebody waits: look before long, whether there is a hint or not."""
        self._look_in(SLOW_LOOK_S)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _look_in(self, seconds: float) -> None:
        if self._closed:
            return
        due_s = self._loop.time() + seconds
        if self._timer is not None:
            if self._due_s <= due_s:
                return
            self._timer.cancel()
        self._due_s = due_s
        self._timer = self._loop.call_later(seconds, self._start)

    def _start(self) -> None:
        self._timer = None
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        else:
            self._again = True

    async def _run(self) -> None:
        started_s = time.monotonic()
        try:
            await self._look()
        except StoreError as error:
            _log.warning("cannot see what has ended; looking again", error=str(error))
        finally:
            self._task = None
            self._pause_s = (time.monotonic() - started_s) / _MAX_SHARE
            if self._wanted():
                self._look_in(self._pause_s if self._again else SLOW_LOOK_S)
            self._again = False
