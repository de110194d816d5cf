"""Mainspring on SQLite: full durability, history kept."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.peers import effects
from bench.peers.processes import Group, module_argv, tail
from bench.peers.protocol import Timer
from mainspring import App
from mainspring.app import JobFunction

SLOTS = int(os.environ.get("BENCH_SLOTS", "1000"))
Function = JobFunction[[str], None]


def make_app(store: str) -> tuple[App, Function, Function]:
    """The app, its no-op in the event loop, and its sleeping job in a thread, where blocking work belongs."""
    app = App(store)

    async def noop(argument: str) -> None:
        effects.run(argument)

    def nap(argument: str) -> None:
        effects.run(argument)

    return app, app.job()(noop), app.job()(nap)


class MainspringSqlite:
    """Mainspring behind the verbs of the bench."""

    name = "mainspring-sqlite"
    settings = (
        f"1 worker process with its node, slots={SLOTS}, async no-ops in the event loop, sleeping jobs in up to 64 threads; "
        "assigned durably before the start, settled durably after the end, history kept; SQLite: WAL, synchronous FULL; "
        "bulk = submit_many"
    )
    submit_jobs = 2_000
    drain_jobs = 200_000
    quiet_s = 20.0

    def __init__(self) -> None:
        self._workers: Group | None = None

    def setup(self, workdir: Path, stamps: Path) -> None:
        self._workdir, self._stamps, self._log = workdir, stamps, workdir / "worker.log"
        self._store = f"sqlite:///{workdir}/mainspring.db"
        self._app, self._noop, self._nap = make_app(self._store)
        self._app.sync.__enter__()

    def submit(self, payloads: Sequence[str]) -> None:
        for payload in payloads:
            self._noop.sync.submit(payload)

    def submit_bulk(self, payloads: Sequence[str]) -> None:
        function = self._nap if effects.naps(payloads[0]) else self._noop
        self._app.sync.submit_many([function.job(payload) for payload in payloads])

    def submit_at(self, timers: Sequence[Timer]) -> None:
        drafts = [
            self._noop.options(at=datetime.fromtimestamp(timer.due_ms / 1000, UTC)).job(timer.payload)
            for timer in timers
        ]
        self._app.sync.submit_many(drafts)

    def start_workers(self) -> None:
        self._workers = Group(
            module_argv("bench.peers.mainspring_sqlite", self._store),
            cwd=self._workdir,
            log=self._log,
            env={effects.ENV: str(self._stamps)},
        )

    def kill_workers(self) -> None:
        if self._workers is not None:
            self._workers.kill()
            self._workers = None

    def stop_workers(self) -> None:
        if self._workers is not None:
            self._workers.stop()
            self._workers = None

    def teardown(self) -> None:
        self.stop_workers()
        self._app.sync.__exit__()

    def log_tail(self) -> str:
        return tail(self._log)


if __name__ == "__main__":
    make_app(sys.argv[1])[0].sync.run(slots=SLOTS)
