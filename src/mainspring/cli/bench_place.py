"""Where `mainspring bench` keeps its stores: files in a temporary folder, or databases on a PostgreSQL server.

Each part of a measurement gets an empty store of its own. Databases are removed after it, whatever happened in it.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from mainspring.errors import InvalidError
from mainspring.store.opening import StoreSettings, postgres_errors
from mainspring.store.url import is_postgres, parse_url

_MB = 1_048_576
_PATIENCE_S = 600.0  # a large database is not removed in a moment


class BenchStore(Protocol):
    """An empty store."""

    @property
    def url(self) -> str: ...

    async def size_mb(self) -> float:
        """What it takes on disk."""


class Place(Protocol):
    """Makes stores."""

    def store(self, name: str) -> AbstractAsyncContextManager[BenchStore]:
        """A new store, there while the context lasts."""


def place_of(url: str | None, folder: Path) -> Place:
    """Files in the folder, or databases where the URL points to a PostgreSQL server."""
    if url is None:
        return _Folder(folder)
    url = parse_url("store", url)
    if not is_postgres(url):
        raise InvalidError(
            "store", "SQLite files are made where they are needed: leave it out, or name a PostgreSQL server"
        )
    return _Server(url)


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite:///{path}"

    async def size_mb(self) -> float:
        return sum(path.stat().st_size for path in self._path.parent.glob(f"{self._path.name}*")) / _MB


class _Folder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def store(self, name: str) -> AsyncIterator[BenchStore]:
        yield _File(self._folder / f"{name}.db")


class _Database:
    def __init__(self, url: str) -> None:
        self.url = url

    async def size_mb(self) -> float:
        async with _connected(self.url) as connection:
            size: int = await connection.fetchval("select pg_database_size(current_database())")
            return size / _MB


class _Server:
    def __init__(self, url: str) -> None:
        self._url = url

    @asynccontextmanager
    async def store(self, name: str) -> AsyncIterator[BenchStore]:
        database = f"mainspring_bench_{os.getpid()}_{name}"
        async with _connected(self._url) as connection:
            await connection.execute(f'create database "{database}"', timeout=_PATIENCE_S)
        try:
            yield _Database(urlsplit(self._url)._replace(path=f"/{database}").geturl())
        finally:
            async with _connected(self._url) as connection:
                await connection.execute(f'drop database "{database}" with (force)', timeout=_PATIENCE_S)


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    """A connection; what goes wrong with it is said in our words."""
    with postgres_errors(StoreSettings(url)):
        from mainspring.store.postgres import database, errors

        with errors.mapped_errors(database.place_of(url)):
            connection = await database.connect(url)
            try:
                yield connection
            finally:
                await connection.close()
