"""The databases that these tests run on, seen from outside of Mainspring: what is stored, and whether it is sound."""

import asyncio
import secrets
import shutil
import time
from pathlib import Path
from typing import Any, Protocol

import apsw
import psycopg

from contract.backends import IdLoader
from mainspring.store.opening import StoreSettings, migrate_store
from mainspring.store.sqlite.database import connect

_AWAY_S = 30.0  # a server that is started again is back long before


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
    read around those, and also right after the server has been away."""

    def __init__(self, server_url: str, url: str | None = None, listen_url: str | None = None) -> None:
        self.settings = StoreSettings(url or server_url, f"faults_{secrets.token_hex(6)}", listen_url)
        self._server_url = server_url
        self._reader: psycopg.Connection[tuple[Any, ...]] | None = None

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if values:
            sql = sql.replace("%", "%%").replace("?", "%s")
        deadline_s = time.monotonic() + _AWAY_S
        while True:
            try:
                return self._connection().execute(sql.encode(), values or None, binary=True).fetchall()
            except psycopg.OperationalError:
                self._hang_up()
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.02)

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
            self._connection().execute(f"truncate {to}; insert into {to} select * from {from_}".encode())
        return made

    def close(self) -> None:
        """Nobody works on it any more."""
        connection = self._connection()
        connection.execute("set client_min_messages = warning")
        connection.execute(f"drop schema if exists {self.settings.schema} cascade".encode())
        self._hang_up()

    def _connection(self) -> "psycopg.Connection[tuple[Any, ...]]":
        if self._reader is None:
            path = f"-c search_path={self.settings.schema}"
            self._reader = psycopg.connect(self._server_url, autocommit=True, options=path)
            self._reader.adapters.register_loader("uuid", IdLoader)
        return self._reader

    def _hang_up(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
