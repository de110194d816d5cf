"""Writes what the code of this version leaves behind in a store, as SQL: run it with a version's code before a migration is added.

    PYTHONPATH=tests .venv/bin/python tests/upgrade/schemas/make.py sqlite > tests/upgrade/schemas/sqlite-NNNN.sql
    PYTHONPATH=tests .venv/bin/python tests/upgrade/schemas/make.py postgres > tests/upgrade/schemas/postgres-NNNN.sql

A job in every state, a worker in the middle of its work, claims, limits, a schedule. `test_forward` brings it to its end.
"""

import asyncio
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from contract.backends import Backend, PostgresBackend, SqliteBackend
from contract.scene import START, JumpingClock, Scene
from mainspring.core.job import Limit
from mainspring.core.timer import SECOND
from mainspring.store.contract import MissedRecord
from postgres.server import Server, find_binaries

NODE, SESSION = b"node of a schema", b"its only session"
SCHEMA = "mainspring"


async def work(scene: Scene) -> None:
    store = scene.store
    await store.insert_node(NODE, "node", 10.0)
    await store.insert_session(SESSION, NODE, "worker")
    await store.put_queue(scene.queue("narrow", paused=False, limit=Limit(concurrency=1)))
    await store.put_queue(scene.queue("closed", paused=True, limit=Limit()))
    await scene.kinds({"work": Limit(rate=100.0, burst=100)})
    await store.claim_partitions(NODE, 1)
    completed, failed, retrying, running, stopping = [await scene.started(SESSION) for _ in range(5)]
    await scene.settle(SESSION, completed, 1, "completed", result=b'"kept"')
    await scene.fail(SESSION, failed, 1)
    await scene.fail(SESSION, retrying, 1, again_in_s=30)
    await store.mark_running([(running, 1)])
    await store.cancel_jobs([stopping])
    await scene.assign(SESSION, await scene.submit(2, queue="narrow"), (("queue/default/narrow", ""),))
    await scene.submit(3, tags=["x"])
    await scene.submit(2, delay=60, start_by=3600)
    await scene.insert(key="order 7")
    await scene.insert(unique=3600)
    await store.cancel_jobs(await scene.submit(1))
    await scene.chain(2)
    await scene.put_schedule("s")
    missed = [MissedRecord("default/s", START, START, 1, "overlap")]
    await scene.fire("s", START + 60 * SECOND, START + 120 * SECOND, serial=True, missed=missed)
    scene.check()


async def work_on(backend: Backend) -> None:
    clock = JumpingClock(START)
    store = await backend.open(clock)
    await work(Scene(backend, store, clock))
    await store.close()


def dump_sqlite() -> str:
    with tempfile.TemporaryDirectory() as name:
        backend = SqliteBackend(Path(name))
        asyncio.run(work_on(backend))
        return "\n".join(sqlite3.connect(backend.path).iterdump())


def dump_postgres() -> str:
    """Only what any server and any driver can carry out: no settings, no comments, no commands of psql."""
    server = Server.start()
    try:
        asyncio.run(work_on(PostgresBackend(server.url, server.url, SCHEMA)))
        options = (f"--schema={SCHEMA}", "--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges")
        command = [str(find_binaries() / "pg_dump"), *options, server.url]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    finally:
        server.close()
    return re.sub(r"^(SET |SELECT pg_catalog|--|\\).*\n|^\n", "", said, flags=re.MULTILINE).rstrip()


if __name__ == "__main__":
    print({"sqlite": dump_sqlite, "postgres": dump_postgres}[sys.argv[1]]())
