"""graphile-worker: Node.js processes (`graphile/worker.js`) run the jobs, its SQL functions take them in.

They are part of its documented interface for other languages, and faster than its JavaScript face, which calls them too.
"""

import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from bench.peers.on_postgres import OnPostgres
from bench.peers.postgres_server import SETTINGS
from bench.peers.protocol import Timer

WORKERS = min(os.cpu_count() or 1, 8)  # each has 25 connections
_FOLDER = Path(__file__).parent / "graphile"
_PACKAGE = _FOLDER / "node_modules" / "graphile-worker"
_ADD_ONE = "SELECT FROM graphile_worker.add_job('job', json_build_object('argument', %s::text))"
_ADD_AT = "SELECT FROM graphile_worker.add_job('job', json_build_object('argument', %s::text), run_at => %s)"
_ADD_MANY = """
    SELECT count(*) FROM graphile_worker.add_jobs(array(
        SELECT ('job', json_build_object('argument', argument), NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
        FROM unnest(%s::text[]) AS argument
    ))
"""


class GraphilePostgres(OnPostgres):
    """graphile-worker behind the verbs of the bench."""

    name = "graphile-postgres"
    settings = (
        f"{WORKERS} Node.js processes (CPU count), each with concurrency 24, local queue 500, completions and failures in "
        "batches without delay (its manual's settings for speed); polls every 0.1 s (default 2) for what falls due; "
        "LISTEN/NOTIFY; finished jobs are "
        "deleted, no history; jobs of a dead worker, with all in its local queue, return only after 4 h (not waited for) "
        "or when an operator unlocks them; bulk = the SQL function add_jobs; "
        f"{SETTINGS}"
    )
    submit_jobs = 2_000
    drain_jobs = 60_000

    def __init__(self) -> None:
        super().__init__()
        self._connection: psycopg.Connection[Any] | None = None

    def open(self) -> None:
        command = ["node", str(_PACKAGE / "dist" / "cli.js"), "--schema-only", "--connection", self.url]
        made = subprocess.run(command, cwd=_FOLDER, capture_output=True, text=True)
        if made.returncode:
            raise RuntimeError(f"graphile-worker --schema-only failed:\n{made.stderr}")
        self._connection = psycopg.connect(self.url, autocommit=True)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def worker_commands(self) -> Sequence[Sequence[str]]:
        return [["node", str(_FOLDER / "worker.js"), self.url, str(self._stamps)]] * WORKERS

    def submit(self, payloads: Sequence[str]) -> None:
        assert self._connection is not None
        for payload in payloads:
            self._connection.execute(_ADD_ONE, [payload])

    def submit_bulk(self, payloads: Sequence[str]) -> None:
        assert self._connection is not None
        self._connection.execute(_ADD_MANY, [list(payloads)])

    def submit_at(self, timers: Sequence[Timer]) -> None:
        assert self._connection is not None
        for timer in timers:
            due = datetime.fromtimestamp(timer.due_ms / 1000, UTC)
            self._connection.execute(_ADD_AT, [timer.payload, due])
