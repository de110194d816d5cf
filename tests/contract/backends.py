"""The stores under test. A backend opens stores on one database of its own and shows the rows of its tables."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from mainspring.runtime.clock import Clock
from mainspring.store.contract import Store
from mainspring.store.sqlite import SqliteStore

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Backend(Protocol):
    """One empty database."""

    async def open(self, clock: Clock) -> Store:
        """A store on it; every call opens another one, as another process would."""

    def rows(self, store: Store, sql: str) -> list[tuple[Any, ...]]:
        """The answer to a plain SELECT that any database understands."""


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


@contextmanager
def fresh_file() -> Iterator[SqliteBackend]:
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="mainspring-") as name:
        yield SqliteBackend(Path(name))


def _sqlite(request: pytest.FixtureRequest) -> Fresh:
    return fresh_file


# By name, how to get fresh databases. Servers are started for the tests that ask for them, not before.
BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Fresh]] = {
    "sqlite": _sqlite,
}
