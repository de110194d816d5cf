"""Reading tables of a schema past Mainspring, also right after the server has been away."""

import time
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.pq import Format

_AWAY_S = 30.0  # a server that is started again is back long before


class Reader:
    """One connection, made anew when it has broken."""

    def __init__(self, url: str, schema: str) -> None:
        self.schema = schema
        self._url = url
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The answer to a SELECT, with `?` for each value."""
        if values:
            sql = sql.replace("%", "%%").replace("?", "%s")
        deadline_s = time.monotonic() + _AWAY_S
        while True:
            try:
                return self._connected().execute(sql.encode(), values or None, binary=True).fetchall()
            except psycopg.OperationalError:
                self.close()
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.02)

    def execute(self, sql: str) -> None:
        self._connected().execute(sql.encode())

    def drop(self) -> None:
        """Remove the schema, on which nobody works any more."""
        self.rows("select 1")
        self.execute("set client_min_messages = warning")
        self.execute(f"drop schema if exists {self.schema} cascade")
        self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> "psycopg.Connection[tuple[Any, ...]]":
        if self._connection is None:
            path = f"-c search_path={self.schema}"
            self._connection = psycopg.connect(self._url, autocommit=True, options=path)
            self._connection.adapters.register_loader("uuid", _IdLoader)
        return self._connection


class _IdLoader(Loader):
    """Ids are bytes, as in every store."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)
