"""APScheduler 3.x with its SQLAlchemy job store on SQLite.

This library has no queue and no separate worker: a scheduler runs its jobs itself, and it does not see what another
process puts into its store. So while no worker runs, jobs are added by a paused scheduler in the bench process, which
is closed before the worker starts; while one runs, the bench hands each job over a pipe to the worker process, which
calls `add_job` there and answers. A job that runs at once is one with `run_date` now.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import, unused-ignore]

from bench.peers import effects
from bench.peers.processes import Group, module_argv, tail
from bench.peers.protocol import Timer

_AT_ONCE = 0
_DONE = b"\n"


def make_scheduler(path: str) -> Any:
    """A scheduler on the store at `path`, with the default pool of ten threads."""
    scheduler = BackgroundScheduler(timezone=UTC)
    scheduler.add_jobstore("sqlalchemy", url=f"sqlite:///{path}")
    return scheduler


def add(scheduler: Any, due_ms: int, payload: str) -> None:
    """Add one job. Without a grace time of None, jobs more than one second late would be thrown away."""
    run_date = datetime.now(UTC) if due_ms == _AT_ONCE else datetime.fromtimestamp(due_ms / 1000, UTC)
    scheduler.add_job(effects.run, "date", run_date=run_date, args=(payload,), misfire_grace_time=None)


class ApschedulerSqlite:
    """APScheduler behind the verbs of the bench."""

    name = "apscheduler-sqlite"
    settings = (
        "1 process, thread pool of 10 (default), no ack: a job leaves the store when it is handed to the pool "
        "(default); misfire_grace_time None (the default of 1 s drops late jobs); idle and timer jobs reach the "
        "scheduler's process through a pipe; bulk = the same add_job calls, as there is no bulk call; SQLite through "
        "SQLAlchemy: rollback journal, synchronous FULL (defaults)"
    )
    submit_jobs = 2_000
    drain_jobs = 5_000
    quiet_s = 20.0

    def __init__(self) -> None:
        self._local: Any = None
        self._workers: Group | None = None

    def setup(self, workdir: Path, stamps: Path) -> None:
        self._workdir, self._stamps, self._log = workdir, stamps, workdir / "worker.log"
        self._path = str(workdir / "jobs.db")
        self._local = make_scheduler(self._path)
        self._local.start(paused=True)

    def submit(self, payloads: Sequence[str]) -> None:
        for payload in payloads:
            self._add(_AT_ONCE, payload)

    def submit_bulk(self, payloads: Sequence[str]) -> None:
        self.submit(payloads)

    def submit_at(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            self._add(timer.due_ms, timer.payload)

    def start_workers(self) -> None:
        self._close_local()
        self._workers = Group(
            module_argv("bench.peers.apscheduler_sqlite", self._path),
            cwd=self._workdir,
            log=self._log,
            env={effects.ENV: str(self._stamps)},
            pipes=True,
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
        self._close_local()

    def log_tail(self) -> str:
        return tail(self._log)

    def _add(self, due_ms: int, payload: str) -> None:
        if self._workers is None:
            add(self._local, due_ms, payload)
            return
        to_worker, from_worker = self._workers.pipes
        to_worker.write(f"{due_ms} {payload}\n".encode())
        to_worker.flush()
        if from_worker.readline() != _DONE:
            raise RuntimeError(f"the scheduler process ended:\n{self.log_tail()}")

    def _close_local(self) -> None:
        """Take the store away first: a paused scheduler that is shut down looks for due jobs once more."""
        if self._local is not None:
            self._local.remove_jobstore("default")
            self._local.shutdown()
            self._local = None


def main(path: str) -> None:
    """Run the scheduler and add each job that comes over stdin, until stdin ends."""
    scheduler = make_scheduler(path)
    scheduler.start()
    for line in sys.stdin:
        due_ms, payload = line.split()
        add(scheduler, int(due_ms), payload)
        sys.stdout.buffer.write(_DONE)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
