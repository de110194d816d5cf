"""The stores under test. A backend opens stores on one database of its own and shows the rows of its tables."""

from pathlib import Path
from typing import Any, Protocol

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
