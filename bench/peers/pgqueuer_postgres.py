"""pgqueuer: jobs fetched and settled in batches, with a log of what ran."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, PgQueuer  # type: ignore[import, unused-ignore]
from pgqueuer.models import Job  # type: ignore[import, unused-ignore]
from pgqueuer.queries import Queries  # type: ignore[import, unused-ignore]

from bench.peers import effects
from bench.peers.on_postgres import OnPostgres
from bench.peers.postgres_server import SETTINGS
from bench.peers.processes import module_argv
from bench.peers.protocol import Timer

WORKERS = os.cpu_count() or 1
BATCH = 500


class PgqueuerPostgres(OnPostgres):
    """pgqueuer behind the verbs of the bench."""

    name = "pgqueuer-postgres"
    settings = (
        f"{WORKERS} worker processes (CPU count), batch_size {BATCH} (default 10) for fetching and settling, each with one "
        "connection, and its autovacuum settings, as its manual advises; async no-ops in the event loop, sleeping jobs in "
        "threads; LISTEN/NOTIFY; durability durable (default), a log of what ran is kept; jobs of a dead worker return "
        f"after 30 s (default); bulk = enqueue with lists; {SETTINGS}"
    )
    submit_jobs = 2_000
    drain_jobs = 60_000
    quiet_s = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._runner: asyncio.Runner | None = None
        self._connection: Any = None

    def open(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._runner.run(self._open())

    async def _open(self) -> None:
        self._connection = await asyncpg.connect(self.url)
        self._queries = Queries(AsyncpgDriver(self._connection))
        await self._queries.install()
        await self._queries.optimize_autovacuum()

    def close(self) -> None:
        if self._runner is not None:
            if self._connection is not None:
                self._runner.run(self._connection.close())
                self._connection = None
            self._runner.close()
            self._runner = None

    def worker_commands(self) -> Sequence[Sequence[str]]:
        return [module_argv("bench.peers.pgqueuer_postgres", self.url)] * WORKERS

    def submit(self, payloads: Sequence[str]) -> None:
        assert self._runner is not None
        self._runner.run(self._submit(payloads))

    async def _submit(self, payloads: Sequence[str]) -> None:
        for payload in payloads:
            await self._queries.enqueue("noop", payload.encode())

    def submit_bulk(self, payloads: Sequence[str]) -> None:
        assert self._runner is not None
        entrypoint = "nap" if effects.naps(payloads[0]) else "noop"
        count = len(payloads)
        self._runner.run(self._queries.enqueue([entrypoint] * count, [p.encode() for p in payloads], [0] * count))

    def submit_at(self, timers: Sequence[Timer]) -> None:
        assert self._runner is not None
        self._runner.run(self._submit_at(timers))

    async def _submit_at(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            delay = datetime.fromtimestamp(timer.due_ms / 1000, UTC) - datetime.now(UTC)
            await self._queries.enqueue("noop", timer.payload.encode(), execute_after=max(delay, timedelta()))


async def work(url: str) -> None:
    """Run the worker until a signal stops it."""
    connection = await asyncpg.connect(url)
    queuer = PgQueuer(AsyncpgDriver(connection))

    async def noop(job: Job) -> None:
        effects.run(_text(job))

    async def nap(job: Job) -> None:
        await asyncio.to_thread(effects.run, _text(job))

    queuer.entrypoint("noop")(noop)
    queuer.entrypoint("nap")(nap)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
    try:
        await queuer.run(batch_size=BATCH)
    finally:
        await connection.close()


def _text(job: Job) -> str:
    payload: bytes | None = job.payload
    return (payload or b"").decode()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work(sys.argv[1]))
