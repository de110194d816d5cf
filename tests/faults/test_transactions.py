"""A process ends anywhere in a transaction of its own: its order and its job are both there, or neither is."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from faults.child_transaction import CRASHED
from mainspring import App
from mainspring.store.contract import JobFilter
from postgres.server import Server

POINTS = {"in the block": [1], "before the commit": [1], "after the commit": [1, 2]}
CHILD = Path(__file__).with_name("child_transaction.py")


class Place:
    """A store that the child and this process open."""

    def __init__(self, store: str, schema: str) -> None:
        self.store, self.schema = store, schema
        self.table = f"orders_{secrets.token_hex(6)}"

    def app(self) -> App:
        return App(self.store, schema=self.schema or None)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, folder: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(f"sqlite:///{folder}/test.db", "")
        return
    server: Server = request.getfixturevalue("postgres")
    made = Place(server.url, f"test_{secrets.token_hex(6)}")
    yield made
    with psycopg.connect(server.url, autocommit=True) as owner:
        owner.execute("set client_min_messages = warning")
        owner.execute(f"drop table {made.table}; drop schema {made.schema} cascade".encode())


@pytest.mark.parametrize("point", POINTS)
async def test_an_order_and_its_job_survive_together_or_not_at_all(place: Place, point: str) -> None:
    async with place.app() as app, app.transaction() as tx:
        await tx.execute(f"create table {place.table} (number integer primary key)")
    command = [sys.executable, str(CHILD), place.store, place.schema, place.table, point]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ)  # noqa: ASYNC221
    assert done.returncode == CRASHED, done.stderr
    async with place.app() as app:
        async with app.transaction() as tx:
            orders = await tx.execute(f"select number from {place.table} order by 1")
        jobs = await app.store.list_jobs(JobFilter(), before=None, limit=10)
    expected = POINTS[point]
    assert [number for (number,) in orders] == expected
    assert sorted(job.arguments for job in jobs) == [b'{"number":%d}' % number for number in expected]
