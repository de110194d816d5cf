"""What Mainspring on SQLite and on PostgreSQL share: all but the store. Run as a module, it is the worker process."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from bench.peers import effects
from bench.peers.processes import module_argv
from bench.peers.protocol import Timer
from mainspring import App
from mainspring.app import JobFunction

SLOTS = int(os.environ.get("BENCH_SLOTS", "4000"))
SETTINGS = (
    f"1 worker process with its node, slots={SLOTS}, async no-ops in the event loop, sleeping jobs in up to 64 threads; assigned "
    "durably before the start, settled durably after the end, history kept; bulk = submit_many"
)
Function = JobFunction[[str], None]


def make_app(store: str) -> tuple[App, Function, Function]:
    """The app, its no-op in the event loop, and its sleeping job in a thread, where blocking work belongs."""
    app = App(store)

    async def noop(argument: str) -> None:
        effects.run(argument)

    def nap(argument: str) -> None:
        effects.run(argument)

    return app, app.job()(noop), app.job()(nap)


def worker_command(store: str) -> list[str]:
    """The command of a worker process on a store."""
    return module_argv("bench.peers.mainspring_app", store)


class Submitting:
    """The verbs of the bench that submit; `open_app` before them, `close_app` after."""

    _app: App | None = None

    def open_app(self, store: str) -> None:
        app, self._noop, self._nap = make_app(store)
        app.sync.__enter__()
        self._app = app

    def close_app(self) -> None:
        if self._app is not None:
            self._app.sync.__exit__()
            self._app = None

    def submit(self, payloads: Sequence[str]) -> None:
        for payload in payloads:
            self._noop.sync.submit(payload)

    def submit_bulk(self, payloads: Sequence[str]) -> None:
        assert self._app is not None
        function = self._nap if effects.naps(payloads[0]) else self._noop
        self._app.sync.submit_many([function.job(payload) for payload in payloads])

    def submit_at(self, timers: Sequence[Timer]) -> None:
        assert self._app is not None
        drafts = [
            self._noop.options(at=datetime.fromtimestamp(timer.due_ms / 1000, UTC)).job(timer.payload)
            for timer in timers
        ]
        self._app.sync.submit_many(drafts)


if __name__ == "__main__":
    make_app(sys.argv[1])[0].sync.run(slots=SLOTS)
