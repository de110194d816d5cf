"""Why a connection of another SQLite library is refused: two of them in one process on one file lose commits."""

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite
import apsw
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from contract.scene import START, JumpingClock, make_batch
from mainspring.errors import InvalidError
from mainspring.store.sqlite import SqliteStore

CHILD = Path(__file__).with_name("two_libraries.py")


def run_child(folder: Path, what: str) -> list[str]:
    """What the other process could do while ours had the lock, and whose rows are left."""
    command = [sys.executable, str(CHILD), str(folder / "test.db"), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_alone_our_lock_holds(folder: Path) -> None:
    assert run_child(folder, "leave") == ["busy", "ours"]


def test_closing_the_file_in_another_library_drops_our_lock_and_an_acknowledged_commit_is_lost(folder: Path) -> None:
    assert run_child(folder, "touch") == ["wrote", "ours"]


@pytest.fixture
async def store(folder: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(folder / "test.db", JumpingClock(START))
    yield opened
    await opened.close()


async def refusal(store: SqliteStore, connection: object) -> str:
    batch, lane = make_batch(START)
    with pytest.raises(InvalidError) as caught:
        await store.insert_within(connection, [batch], [lane])
    assert caught.value.field == "within"
    assert await store.read_jobs(batch.ids) == [None]
    return caught.value.problem


class Own(sqlite3.Connection):
    """A subclass is what it extends."""


@pytest.mark.parametrize("kind", [sqlite3.Connection, Own])
async def test_pythons_sqlite3_is_refused_with_the_reason(store: SqliteStore, kind: type[sqlite3.Connection]) -> None:
    connection = sqlite3.connect(":memory:", factory=kind)
    problem = await refusal(store, connection)
    connection.close()
    assert "Python's sqlite3 brings a SQLite library of its own" in problem
    assert "commits are lost" in problem
    assert "async with app.transaction() as tx" in problem


async def test_aiosqlite_is_refused_with_the_reason(store: SqliteStore) -> None:
    async with aiosqlite.connect(":memory:") as connection:
        assert "aiosqlite brings a SQLite library of its own" in await refusal(store, connection)


async def test_sqlalchemy_is_refused_with_the_reason(store: SqliteStore) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.begin() as connection, Session(engine) as session:
        scoped = scoped_session(sessionmaker(engine))
        for given in (connection, session, scoped):
            assert "SQLAlchemy's driver for SQLite brings" in await refusal(store, given)
        scoped.remove()
    engine.dispose()


async def test_sqlalchemy_with_asyncio_is_refused_with_the_reason(store: SqliteStore) -> None:
    engine = create_async_engine("sqlite+aiosqlite://")
    async with engine.begin() as connection, AsyncSession(engine) as session:
        for given in (connection, session):
            assert "SQLAlchemy's driver for SQLite brings" in await refusal(store, given)
    await engine.dispose()


async def test_a_connection_of_our_own_library_is_refused_too(store: SqliteStore) -> None:
    connection = apsw.Connection(":memory:")
    assert "would not wait for its turn at the file" in await refusal(store, connection)
    connection.close()
