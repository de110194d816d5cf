"""The databases that these tests run on, seen from outside of Mainspring: what is stored, and whether it is sound."""

import asyncio
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any, Protocol

import apsw

from mainspring.store.opening import StoreSettings, migrate_store
from mainspring.store.sqlite.database import connect
from postgres.reader import Reader


class Place(Protocol):
    """One database. `settings` is how applications get there."""

    settings: StoreSettings

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The answer to a plain SELECT that any database understands, with `?` for each value."""

    def can_write(self) -> bool:
        """Does nobody keep others from writing at this moment?"""

    def check(self) -> None:
        """The database itself is whole."""

    def fresh(self, folder: Path) -> "Place":
        """Another one of this kind, empty."""

    def copy(self, folder: Path) -> "Place":
        """Another one with the same content."""

    def close(self) -> None: ...


class File:
    """A SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = StoreSettings(f"sqlite:///{path}")

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = connect(self.path, readonly=True)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def can_write(self) -> bool:
        connection = connect(self.path)
        try:
            connection.set_busy_timeout(0)
            connection.execute("begin immediate; rollback")
        except apsw.BusyError:
            return False
        finally:
            connection.close()
        return True

    def check(self) -> None:
        assert self.rows("pragma integrity_check") == [("ok",)]

    def fresh(self, folder: Path) -> "File":
        return File(folder / self.path.name)

    def copy(self, folder: Path) -> "File":
        for name in (self.path.name, f"{self.path.name}-wal"):
            if (self.path.parent / name).exists():
                shutil.copy(self.path.parent / name, folder / name)
        return self.fresh(folder)

    def close(self) -> None:
        """Goes with its folder."""


class Schema:
    """A schema of a PostgreSQL database. Applications get there by `url`, perhaps through a proxy or a pooler; what is stored is
    read around those."""

    def __init__(self, server_url: str, url: str | None = None, listen_url: str | None = None) -> None:
        self._objects = tempfile.mkdtemp(prefix="mainspring-faults-")
        schema = f"faults_{secrets.token_hex(6)}"
        self.settings = StoreSettings(url or server_url, schema, listen_url, objects=self._objects)
        self._server_url = server_url
        self._reader = Reader(server_url, self.settings.schema)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._reader.rows(sql, *values)

    def can_write(self) -> bool:
        """Here nobody waits for a process that stands still, but for the rows it has changed."""
        return True

    def check(self) -> None:
        """The server checks each page that it reads."""

    def fresh(self, folder: Path) -> "Schema":
        return Schema(self._server_url, self.settings.url, self.settings.listen_url)

    def copy(self, folder: Path) -> "Schema":
        made = self.fresh(folder)
        asyncio.run(migrate_store(made.settings))
        for (table,) in self.rows("select tablename from pg_tables where schemaname = ?", self.settings.schema):
            to, from_ = f"{made.settings.schema}.{table}", f"{self.settings.schema}.{table}"
            self._reader.execute(f"truncate {to}; insert into {to} select * from {from_}")
        return made

    def close(self) -> None:
        """Nobody works on it any more."""
        self._reader.drop()
        shutil.rmtree(self._objects, ignore_errors=True)
