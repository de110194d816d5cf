"""The stores under test. A backend opens stores on one database of its own and shows the rows of its tables."""

import re
from pathlib import Path
from typing import Any, Protocol

from msgspec import json

from contract.shards import ShardedStore
from mainspring.runtime.clock import Clock
from mainspring.store.contract import Store
from mainspring.store.sqlite import SqliteStore


class Backend(Protocol):
    """One empty database."""

    async def open(self, clock: Clock) -> Store:
        """A store on it; every call opens another one, as another process would."""

    def rows(self, store: Store, sql: str) -> list[tuple[Any, ...]]:
        """The answer to a plain SELECT that any database understands."""


class SqliteBackend:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "contract.db"

    async def open(self, clock: Clock) -> SqliteStore:
        return await SqliteStore.open(self.path, clock)

    def rows(self, store: Store, sql: str) -> list[tuple[Any, ...]]:
        assert isinstance(store, SqliteStore)
        return [tuple(row) for row in store._reader.execute(sql).fetchall()]


class ShardsBackend:
    """Two databases with half the slots each, and one for the limits over both."""

    def __init__(self, shards: tuple[Backend, Backend], limits: Backend) -> None:
        self._shards = shards
        self._limits = limits

    async def open(self, clock: Clock) -> ShardedStore:
        shards = [await backend.open(clock) for backend in self._shards]
        return ShardedStore(shards, await self._limits.open(clock))

    def rows(self, store: Store, sql: str) -> list[tuple[Any, ...]]:
        """The tables as if they were one database's: a job's from all shards, nodes from their home, limits with the jobs that
        the places stand for."""
        assert isinstance(store, ShardedStore)
        (table, *_) = re.findall(r"\bfrom (\w+)", sql)
        if table in ("held", "limit_state"):
            return self._limit_rows(store, sql)
        parts = [backend.rows(shard, sql) for backend, shard in zip(self._shards, store.shards, strict=True)]
        if table in ("node", "partition"):
            return parts[0]
        found = [row for part in parts for row in part]
        if table == "session":
            return list(dict.fromkeys(found))
        return [(sum(row[0] for row in found),)] if "count(*)" in sql else found

    def _limit_rows(self, store: ShardedStore, sql: str) -> list[tuple[Any, ...]]:
        named = self._limits.rows(store.limits, "select job, arguments from spec")
        jobs = {place: bytes.fromhex(json.decode(arguments, type=str)) for place, arguments in named}
        rows = self._limits.rows(store.limits, sql)
        return [tuple(jobs.get(value, value) for value in row) for row in rows]


def sqlite_shards(folder: Path) -> ShardsBackend:
    places = [folder / name for name in ("first", "second", "limits")]
    for place in places:
        place.mkdir()
    first, second, limits = (SqliteBackend(place) for place in places)
    return ShardsBackend((first, second), limits)
