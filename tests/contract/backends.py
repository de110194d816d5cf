"""The stores under test. A backend opens stores on one database of its own and shows the rows of its tables."""

import asyncio
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from msgspec import json

from contract.shards import ShardedStore
from mainspring.runtime.clock import Clock
from mainspring.store.contract import Store
from mainspring.store.postgres import PostgresStore
from mainspring.store.sqlite import SqliteStore
from postgres.pooler import Pooler
from postgres.reader import Reader
from postgres.server import Server

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Backend(Protocol):
    """One empty database."""

    async def open(self, clock: Clock) -> Store:
        """A store on it; every call opens another one, as another process would."""

    def rows(self, store: Store, sql: str) -> list[tuple[Any, ...]]:
        """The answer to a plain SELECT that any database understands."""

    def dump(self, store: Store) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table that there is."""


Fresh = Callable[[], AbstractContextManager[Backend]]  # each call makes a new empty database, and removes it at the end


class SqliteBackend:
    """A file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "contract.db"

    async def open(self, clock: Clock) -> SqliteStore:
        return await SqliteStore.open(self.path, clock)

    def rows(self, store: Store, sql: str) -> list[tuple[Any, ...]]:
        assert isinstance(store, SqliteStore)
        return [tuple(row) for row in store._reader.execute(sql).fetchall()]

    def dump(self, store: Store) -> dict[str, list[tuple[Any, ...]]]:
        tables = self.rows(store, "select name from sqlite_master where type = 'table'")
        return {name: self.rows(store, f"select * from {name}") for (name,) in tables}


_KEPT = ("migration", "partition", "setting")  # tables that are not empty in a new schema


class PostgresBackend:
    """A schema of a database. Stores connect by `url`, perhaps through a pooler; rows are read around it."""

    def __init__(self, server_url: str, url: str, schema: str | None = None) -> None:
        self.url = url
        self.schema = schema or f"test_{secrets.token_hex(6)}"
        self._server_url = server_url
        self._reader = Reader(server_url, self.schema)

    async def open(self, clock: Clock) -> PostgresStore:
        listen_url = None if self.url == self._server_url else self._server_url
        return await PostgresStore.open(self.url, schema=self.schema, listen_url=listen_url, clock=clock)

    def rows(self, store: Store, sql: str) -> list[tuple[Any, ...]]:
        return self._reader.rows(sql)

    def dump(self, store: Store) -> dict[str, list[tuple[Any, ...]]]:
        return {name: self._reader.rows(f"select * from {name}") for name in self._tables()}

    def _tables(self) -> list[str]:
        sql = "select tablename::text from pg_tables where schemaname = current_schema()"
        return [name for (name,) in self._reader.rows(sql)]

    def empty(self) -> None:
        """As if the store had just been made."""
        tables = [name for name in self._tables() if name not in _KEPT]
        wipe = [f"delete from {table}" for table in tables] + ["update partition set node = null" if tables else ""]
        self._reader.execute("set lock_timeout = '10s'")
        self._reader.execute("; ".join(wipe))

    def drop(self) -> None:
        self._reader.drop()


class ShardsBackend:
    """Two databases with half the slots each, and one for the limits over both."""

    def __init__(self, shards: tuple[Backend, Backend], limits: Backend) -> None:
        self._shards = shards
        self._limits = limits

    async def open(self, clock: Clock) -> ShardedStore:
        opening = [backend.open(clock) for backend in (*self._shards, self._limits)]
        *shards, limits = await asyncio.gather(*opening)
        return ShardedStore(shards, limits)

    def rows(self, store: Store, sql: str) -> list[tuple[Any, ...]]:
        """The tables as if they were one database's: a job's from all shards, nodes from their home, limits with the jobs that
        the places stand for."""
        assert isinstance(store, ShardedStore)
        (table, *_) = re.findall(r"\bfrom (\w+)", sql)
        if table in ("held", "limit_state"):
            return self._limit_rows(store, sql)
        if table == "tenant":
            return self._limits.rows(store.limits, sql)
        parts = [backend.rows(shard, sql) for backend, shard in zip(self._shards, store.shards, strict=True)]
        if table in ("node", "partition"):
            return parts[0]
        found = [row for part in parts for row in part]
        if table == "session":
            return list(dict.fromkeys(found))
        return [(sum(row[0] for row in found),)] if sql.startswith("select count(*)") else found

    def dump(self, store: Store) -> dict[str, list[tuple[Any, ...]]]:
        """Without the places, which are no jobs of anybody."""
        assert isinstance(store, ShardedStore)
        limits = self._limits.dump(store.limits)
        found = {name: limits[name] for name in ("tenant", "queue", "kind", "limit_rule", "limit_state")}
        for backend, shard in zip(self._shards, store.shards, strict=True):
            for name, rows in backend.dump(shard).items():
                found[name] = found.get(name, []) + rows
        return found

    def _limit_rows(self, store: ShardedStore, sql: str) -> list[tuple[Any, ...]]:
        """Without the places of sessions that have ended: those wait for the rescue."""
        limits = self._limits
        ended = {row[0] for row in self.rows(store, "select id from session where ended_at is not null")}
        waiting = {
            place for place, session in limits.rows(store.limits, "select job, session from live") if session in ended
        }
        named = limits.rows(store.limits, "select job, arguments from spec")
        jobs = {place: bytes.fromhex(json.decode(arguments, type=str)) for place, arguments in named}
        rows = limits.rows(store.limits, sql)
        return [tuple(jobs.get(value, value) for value in row) for row in rows if not waiting.intersection(row)]


@contextmanager
def fresh_file() -> Iterator[SqliteBackend]:
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="mainspring-") as name:
        yield SqliteBackend(Path(name))


@contextmanager
def fresh_schema(server_url: str, url: str) -> Iterator[PostgresBackend]:
    backend = PostgresBackend(server_url, url)
    try:
        yield backend
    finally:
        backend.drop()


class Schemas:
    """Empty schemas of one database. One that has been used and emptied serves again: making one takes longer than most tests."""

    def __init__(self, server_url: str, url: str) -> None:
        self._urls = (server_url, url)
        self._idle: list[PostgresBackend] = []

    @contextmanager
    def fresh(self) -> Iterator[PostgresBackend]:
        backend = self._idle.pop() if self._idle else PostgresBackend(*self._urls)
        yield backend
        backend.empty()
        self._idle.append(backend)

    def drop(self) -> None:
        for backend in self._idle:
            backend.drop()


@contextmanager
def fresh_shards(first: Fresh, second: Fresh) -> Iterator[ShardsBackend]:
    with first() as lower, second() as upper, first() as limits:
        yield ShardsBackend((lower, upper), limits)


def _sqlite(request: pytest.FixtureRequest) -> Fresh:
    return fresh_file


def _schemas(request: pytest.FixtureRequest, server_url: str, url: str) -> Fresh:
    schemas = Schemas(server_url, url)
    request.addfinalizer(schemas.drop)
    return schemas.fresh


def _postgres(request: pytest.FixtureRequest) -> Fresh:
    server: Server = request.getfixturevalue("postgres")
    return _schemas(request, server.url, server.url)


def _pgbouncer(request: pytest.FixtureRequest) -> Fresh:
    server: Server = request.getfixturevalue("postgres")
    pooler: Pooler = request.getfixturevalue("pooler")
    return _schemas(request, server.url, pooler.url)


def _sqlite_shards(request: pytest.FixtureRequest) -> Fresh:
    return partial(fresh_shards, fresh_file, fresh_file)


def _postgres_shards(request: pytest.FixtureRequest) -> Fresh:
    server: Server = request.getfixturevalue("postgres")
    # On a server that was given, schemas stand for databases.
    upper = server.database("upper") if server.ours else server.url
    first, second = (_schemas(request, url, url) for url in (server.url, upper))
    return partial(fresh_shards, first, second)


# By name, how to get empty databases. Servers are started for the tests that ask for them, not before.
BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Fresh]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "pgbouncer": _pgbouncer,
    "sqlite-shards": _sqlite_shards,
    "postgres-shards": _postgres_shards,
}


def unused(request: pytest.FixtureRequest, name: str) -> Fresh:
    """Databases that no test has had before, for tests that change more than rows: "sqlite" or "postgres"."""
    if name == "sqlite":
        return fresh_file
    server: Server = request.getfixturevalue("postgres")
    return partial(fresh_schema, server.url, server.url)
