"""From every earlier schema, with what its own code left behind, to today's: everything is still there and comes to its end."""

import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import psycopg
import pytest

from contract.backends import Backend, PostgresBackend, SqliteBackend
from contract.scene import START, JumpingClock, Scene
from mainspring.core.timer import SECOND
from mainspring.errors import StoreError
from mainspring.store.contract import Inserted, JobFilter, LimitUse
from mainspring.store.queries import load_migrations
from mainspring.store.sqlite.database import APPLICATION_ID
from postgres.server import Server
from upgrade.site import Site, settings_of

SCHEMAS = {tuple(path.stem.split("-")): path for path in Path(__file__).parent.glob("schemas/*-*.sql")}


@pytest.mark.parametrize("package", ["sqlite", "postgres"])
def test_every_earlier_schema_is_tried(package: str) -> None:
    """Who adds a migration first keeps what the code before it leaves behind (schemas/make.py)."""
    earlier = [migration.number for migration in load_migrations(f"mainspring.store.{package}")[:-1]]
    assert {(package, f"{number:04}") for number in earlier} <= set(SCHEMAS)


@contextmanager
def _file(sql: str, folder: Path) -> Iterator[SqliteBackend]:
    backend = SqliteBackend(folder)
    connection = apsw.Connection(str(backend.path))
    connection.execute(sql)
    connection.execute(f"pragma application_id={APPLICATION_ID}")
    connection.close()
    yield backend


@contextmanager
def _schema(sql: str, server: Server) -> Iterator[PostgresBackend]:
    backend = PostgresBackend(server.url, server.url, f"forward_{secrets.token_hex(4)}")
    with psycopg.connect(server.url) as connection:
        connection.execute(re.sub(r"\bmainspring\b", backend.schema, sql).encode())
    try:
        yield backend
    finally:
        backend.drop()


@pytest.fixture(params=sorted(SCHEMAS), ids="-".join)
def left(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[Backend, list[str]]]:
    """What an earlier version made, and the migrations that it has not."""
    package, number = request.param
    shipped = load_migrations(f"mainspring.store.{package}")
    missing = [f"{migration.number:04} {migration.name}" for migration in shipped if migration.number > int(number)]
    sql = SCHEMAS[package, number].read_text()
    with _file(sql, folder) if package == "sqlite" else _schema(sql, request.getfixturevalue("postgres")) as made:
        yield made, missing


@pytest.fixture
async def scene(left: tuple[Backend, list[str]], folder: Path) -> AsyncIterator[Scene]:
    """Migrated by the command."""
    backend, missing = left
    clock = JumpingClock(START)
    code, said, _ = await Site(folder, settings_of(backend)).command("migrate")
    assert (code, said) == (0, "".join(f"applied {step}\n" for step in missing))
    store = await backend.open(clock)
    made = Scene(backend, store, clock)
    made.check()
    yield made
    made.check()
    await store.close()


async def test_what_an_earlier_version_left_behind_is_there(scene: Scene) -> None:
    store = scene.store
    states = Counter(record.state for record in await store.list_jobs(JobFilter(), before=None, limit=99))
    assert states == Counter(completed=1, failed=1, cancelled=1, running=1, assigned=2, blocked=2, pending=11)
    (completed,) = await store.list_jobs(JobFilter(state="completed"), before=None, limit=9)
    (ended,) = await store.read_ended([completed.id])
    assert ended is not None
    assert ended.result == b'"kept"'
    (failed,) = await store.list_jobs(JobFilter(state="failed"), before=None, limit=9)
    assert [entry.failure.message for entry in await store.read_failures(failed.id)] == ["no"]
    for claim in ({"key": "order 7"}, {"unique": 60}):
        (answer,) = await scene.insert(**claim)
        assert answer == Inserted(answer.id, existed=True)
    assert await store.read_limit_uses([("queue/default/narrow", "")]) == [LimitUse(1, None)]
    assert {queue.name: queue.paused for queue in await store.list_queues()} == {"narrow": False, "closed": True}
    assert [missed.reason for missed in await store.list_missed("default/s", 9)] == ["overlap"]
    (node,) = await store.list_nodes()
    assert (node.capacity, node.draining, node.partitions) == (1, False, store.partitions)


async def test_what_an_earlier_version_left_behind_comes_to_its_end(scene: Scene) -> None:
    store = scene.store
    (node,) = await store.list_nodes()
    assert await store.drain_nodes([node.id]) == 1
    (old,) = await store.list_sessions()
    assert old.live == 3
    assert await store.end_nodes({node.id: None}) == 1
    assert await store.rescue_attempts(10) == 3
    assert await scene.held("queue/default/narrow") == 0
    new = await scene.new_node(b"new")
    assert await store.claim_partitions(new, 3) == list(scene.everywhere)
    await scene.fire("s", START + 180 * SECOND, serial=True)
    session = await scene.session(new)
    scene.clock.advance(120)
    while await scene.ripen() or await scene.ready():
        for won in (await scene.assign(session)).won:
            assert await scene.settle(session, won.job, won.attempt + 1, "completed")
    states = {state for _, state in await store.count_jobs()}
    assert states == {"completed", "failed", "cancelled"}
    scene.clock.advance(86_400 * 2)
    assert await scene.prune(86_400) == 20
    assert scene.count("job") == 0


async def test_a_users_table_whose_name_a_migration_needs_is_named_and_nothing_is_changed(folder: Path) -> None:
    with _file(SCHEMAS["sqlite", "0002"].read_text(), folder) as backend:
        with closing(apsw.Connection(str(backend.path))) as users:
            users.execute("create table Tenant (name text)")
        with pytest.raises(StoreError, match="'tenant' of yours, and Mainspring needs the name from schema 3 on"):
            await backend.open(JumpingClock(START))
        with closing(apsw.Connection(str(backend.path))) as users:
            assert users.execute("select max(number) from migration").get == 2
            users.execute("alter table Tenant rename to client")
        store = await backend.open(JumpingClock(START))
        assert backend.rows(store, "select count(*) from client") == [(0,)]
        await store.close()
