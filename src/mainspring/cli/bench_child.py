"""The measured process of `mainspring bench`: one node with one worker, telling its parent what happens.

It prints one JSON line per event: {"ready": true} when it works, {"late": seconds from submit to start} for each job
of the kind `stamp`, and, ten times a second, {"done": jobs, "rss_mb": memory, "cpu_s": CPU time}. It ends on SIGTERM.
"""

import asyncio
import resource
import sys
import time

import structlog
from msgspec import json

from mainspring.app import App
from mainspring.runtime.loop import new_event_loop

_TELL_S = 0.1


def tell(**event: object) -> None:
    sys.stdout.write(json.encode(event).decode() + "\n")
    sys.stdout.flush()


class Load:
    """The application under test."""

    def __init__(self, store: str) -> None:
        self.app = App(store)
        self.done = 0
        self.noop = self.app.job(name="noop")(self._noop)
        self.stamp = self.app.job(name="stamp")(self._stamp)

    async def _noop(self, text: str) -> None:
        self.done += 1

    async def _stamp(self, sent_at: float) -> None:
        tell(late=time.time() - sent_at)

    async def run(self, slots: int) -> None:
        telling = asyncio.create_task(self._tell_forever())
        try:
            await self.app.run(slots=slots, ready=lambda: tell(ready=True))
        finally:
            telling.cancel()

    async def _tell_forever(self) -> None:
        while True:
            usage = resource.getrusage(resource.RUSAGE_SELF)
            tell(
                at=time.monotonic(),
                done=self.done,
                rss_mb=usage.ru_maxrss / 1024,
                cpu_s=usage.ru_utime + usage.ru_stime,
            )
            await asyncio.sleep(_TELL_S)


def main(store: str, slots: int) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(Load(store).run(slots))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
