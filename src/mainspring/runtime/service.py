"""The one loop that every background part runs in.

A part is an object with a `name` and `run_once`, which does what is due and answers how long it may rest: 0 for "there is
more", None for "until woken". `Service` repeats it, sleeps between, is woken by `wake`, and survives errors: it logs,
waits with backoff and goes on. Tests call `run_once` themselves and need no loop.
"""

import asyncio
from typing import Protocol

from mainspring.runtime.log import get_logger

_log = get_logger("mainspring.service")

_FIRST_BACKOFF_S = 0.1
_LAST_BACKOFF_S = 5.0


class Part(Protocol):
    name: str

    async def run_once(self) -> float | None:
        """Do what is due now; answer the seconds to rest, or None to rest until woken."""


class Service:
    """Runs one part until stopped."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._backoff_s = 0.0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"mainspring-{self.part.name}")

    def wake(self) -> None:
        self._wake.set()

    async def stop(self) -> None:
        """Ends at the next rest: a step under way is finished, never cut."""
        if self._task is None:
            return
        task, self._task = self._task, None
        self._wake.set()
        await task

    async def _run(self) -> None:
        while self._task is not None:
            self._wake.clear()
            rest_s = await self._step()
            if rest_s is None or rest_s > 0:
                await self._rest(rest_s)
            else:
                await asyncio.sleep(0)

    async def _step(self) -> float | None:
        try:
            rest_s = await self.part.run_once()
        except Exception:
            self._backoff_s = min(_LAST_BACKOFF_S, self._backoff_s * 2 or _FIRST_BACKOFF_S)
            _log.exception("step failed, trying again", part=self.part.name, again_in_s=self._backoff_s)
            return self._backoff_s
        self._backoff_s = 0.0
        return rest_s

    async def _rest(self, rest_s: float | None) -> None:
        if self._task is None:
            return
        try:
            async with asyncio.timeout(rest_s):
                await self._wake.wait()
        except TimeoutError:
            pass
