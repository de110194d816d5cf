"""Procrastinate: one job per fetch, history kept, stalled jobs retried by the periodic task that its manual shows."""

import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from procrastinate import (  # type: ignore[import, unused-ignore]
    App,
    PsycopgConnector,
    SyncPsycopgConnector,
)

from bench.peers import effects
from bench.peers.on_postgres import OnPostgres
from bench.peers.postgres_server import SETTINGS
from bench.peers.processes import module_argv
from bench.peers.protocol import Timer

WORKERS = os.cpu_count() or 1
CONCURRENCY = 10
POLL_S = 0.1
STALLED_CRON = "* * * * * */10"  # the manual's example looks every ten minutes


def make_app(connector: Any) -> tuple[App, Any, Any]:
    """The application with its no-op and its sleeping task, the same in the bench and in the worker."""
    app = App(connector=connector)

    async def noop(argument: str) -> None:
        effects.run(argument)

    def nap(argument: str) -> None:
        effects.run(argument)

    async def retry_stalled(context: Any, timestamp: int) -> None:
        for job in await app.job_manager.get_stalled_jobs():
            await app.job_manager.retry_job(job)

    stalled = app.task(name="retry_stalled", queueing_lock="retry_stalled", pass_context=True)(retry_stalled)
    app.periodic(cron=STALLED_CRON)(stalled)
    return app, app.task(name="noop")(noop), app.task(name="nap")(nap)


class ProcrastinatePostgres(OnPostgres):
    """Procrastinate behind the verbs of the bench."""

    name = "procrastinate-postgres"
    settings = (
        f"{WORKERS} worker processes (CPU count), concurrency {CONCURRENCY} (default 1), async no-ops in the event loop, "
        f"sleeping jobs in threads; LISTEN/NOTIFY, polls every {POLL_S:g} s (default 5) for what falls due; finished jobs kept "
        "(default); jobs of a dead worker retried after 30 s by the manual's periodic task, here every 10 s (there every 10 "
        f"minutes); bulk = batch_defer; {SETTINGS}"
    )
    submit_jobs = 2_000
    drain_jobs = 2_000
    quiet_s = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._app: App | None = None

    def open(self) -> None:
        self._app, self._noop, self._nap = make_app(SyncPsycopgConnector(conninfo=self.url))
        self._app.open()
        self._app.schema_manager.apply_schema()

    def close(self) -> None:
        if self._app is not None:
            self._app.close()
            self._app = None

    def worker_commands(self) -> Sequence[Sequence[str]]:
        return [module_argv("bench.peers.procrastinate_postgres", self.url)] * WORKERS

    def submit(self, payloads: Sequence[str]) -> None:
        for payload in payloads:
            self._noop.defer(argument=payload)

    def submit_bulk(self, payloads: Sequence[str]) -> None:
        task = self._nap if effects.naps(payloads[0]) else self._noop
        task.batch_defer(*({"argument": payload} for payload in payloads))

    def submit_at(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            due = datetime.fromtimestamp(timer.due_ms / 1000, UTC)
            self._noop.configure(schedule_at=due).defer(argument=timer.payload)


async def work(url: str) -> None:
    """Run the worker until a signal stops it."""
    app = make_app(PsycopgConnector(conninfo=url, min_size=CONCURRENCY + 2, max_size=CONCURRENCY + 2))[0]
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY, fetch_job_polling_interval=POLL_S)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
