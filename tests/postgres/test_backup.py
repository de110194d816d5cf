"""The backup that the PostgreSQL guide shows: taken while everything runs, it is a whole store."""

import asyncio
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mainspring import App
from mainspring.app.function import JobFunction
from mainspring.store.opening import has_store
from postgres.server import NAME, Server, find_binaries


@pytest.fixture
def elsewhere(postgres: Server) -> Iterator[str]:
    """The URL of an empty database on the same server."""
    if not postgres.ours or not (find_binaries() / "pg_dump").exists():
        pytest.skip("needs a server of its own, and pg_dump")
    name = f"restored_{secrets.token_hex(4)}"
    with psycopg.connect(postgres.superuser_url, autocommit=True) as admin:
        admin.execute(f"create database {name} owner {NAME}".encode())
        yield f"{postgres.url.rpartition('/')[0]}/{name}"
        admin.execute(f"drop database {name} with (force)".encode())


def make(url: str, schema: str) -> tuple[App, JobFunction[[int], int]]:
    app = App(url, schema=schema)

    @app.job()
    async def double(number: int) -> int:
        return 2 * number

    return app, double


async def test_a_dump_is_a_whole_store(postgres: Server, elsewhere: str, folder: Path) -> None:
    schema = f"backup_{secrets.token_hex(4)}"
    (app, double), dump = make(postgres.url, schema), str(folder / "jobs.dump")
    async with app:
        running = asyncio.create_task(app.run(signals=False))
        done = await double.submit(3)
        assert await done.result(timeout=30) == 6
        app.stop()
        await running
        waiting = await double.submit(4)
        await asyncio.to_thread(tool, "pg_dump", postgres.url, "--schema", schema, "--format=custom", "--file", dump)
        before = await app.store.count_jobs()
    await asyncio.to_thread(tool, "pg_restore", "--no-owner", "--exit-on-error", "--dbname", elsewhere, dump)

    again, _ = make(elsewhere, schema)
    assert await has_store(again.store_settings)
    async with again:
        assert await again.store.count_jobs() == before
        assert await again.get(done.id).result(timeout=1) == 6
        running = asyncio.create_task(again.run(signals=False))
        assert await again.get(waiting.id).result(timeout=30) == 8
        again.stop()
        await running
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("set client_min_messages = warning")
        connection.execute(f"drop schema {schema} cascade".encode())


def tool(name: str, *arguments: str) -> None:
    subprocess.run([find_binaries() / name, *arguments], check=True, timeout=60, capture_output=True)
