"""Rows out of a PostgreSQL database and into one, as CSV files. Runs in the process of an SQL job.

Guarantees: connections lead only where `execute.addresses` lets them, asked when a socket is connected; nothing but the URL decides
who we are there (no variables, no files of the worker's user); what is read is read in a transaction that cannot write; what
is written is there as a whole or not at all.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from mainspring.errors import InvalidError
from mainspring.execute.addresses import VARIABLE, Allowed
from mainspring.execute.sql.names import quoted
from mainspring.execute.sql.order import Table

if TYPE_CHECKING:
    import asyncpg

T = TypeVar("T")

SCHEMES = ("postgresql", "postgres")

_CONNECT_S = 10.0
_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
_EXAMPLE = "postgresql://USER:PASSWORD@HOST/DATABASE"


def check_url(field: str, url: str) -> None:
    connection(field, url)


def connection(field: str, url: str) -> dict[str, Any]:
    """What asyncpg is told. The URL's text is not shown: a password may be in it."""
    try:
        parts = urlsplit(url)
        port = parts.port or 5432
    except ValueError:
        raise InvalidError(field, f"expected a URL such as {_EXAMPLE}") from None
    if parts.scheme not in SCHEMES or not parts.hostname or not parts.username or not parts.path.strip("/"):
        raise InvalidError(field, f"expected a URL with a user, a host and a database, such as {_EXAMPLE}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    mode = options.pop("sslmode", "prefer")
    if options or mode not in _MODES:
        raise InvalidError(field, f"the only option of the URL may be sslmode, one of {', '.join(_MODES)}")
    return {
        "host": unquote(parts.hostname),
        "port": port,
        "user": unquote(parts.username),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path[1:]),
        "ssl": mode,
    }


def _ssl(mode: str) -> str | ssl.SSLContext:
    if not mode.startswith("verify"):
        return mode
    context = ssl.create_default_context()
    context.check_hostname = mode == "verify-full"
    return context


class _Loop(asyncio.SelectorEventLoop):
    """Connects nothing but what it may."""

    def __init__(self, allowed: Allowed, host: str, port: int) -> None:
        super().__init__()
        self._permits = allowed.permits
        self._wanted = host, port

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Every connection goes through here, with the address that it goes to."""
        place = address[0] if isinstance(address, tuple) else str(address)
        if not self._permits(*self._wanted, place):
            host, port = self._wanted
            problem = f"{host}:{port} is {place}, which is not a public address"
            raise InvalidError("database", f"{problem}; the worker's owner may allow it: {VARIABLE}={host}:{port}")
        await super().sock_connect(sock, address)


def read(url: str, query: str, path: Path, allowed: Allowed) -> list[tuple[str, str]]:
    """The rows of a query into a CSV file; their names and types."""

    async def copy(database: "asyncpg.Connection[Any]") -> list[tuple[str, str]]:
        async with database.transaction(readonly=True):
            statement = await database.prepare(query)
            with path.open("wb") as file:
                await database.copy_from_query(query, output=file, format="csv")
            return [(column.name, column.type.name) for column in statement.get_attributes()]

    return _with(url, allowed, copy)


def write(table: Table, path: Path, columns: list[str], allowed: Allowed) -> None:
    """The rows of a CSV file into a table."""
    schema, _, name = table.table.rpartition(".")

    async def copy(database: "asyncpg.Connection[Any]") -> None:
        async with database.transaction():
            if table.mode == "replace":
                await database.execute(f"DELETE FROM {quoted(schema) + '.' if schema else ''}{quoted(name)}")
            with path.open("rb") as file:
                await database.copy_to_table(
                    name, schema_name=schema or None, source=file, columns=columns, format="csv"
                )

    _with(table.postgres, allowed, copy)


def _with(url: str, allowed: Allowed, work: "Callable[[asyncpg.Connection[Any]], Awaitable[T]]") -> T:
    import asyncpg

    settings = connection("database", url)

    async def run() -> T:
        database = await asyncpg.connect(**settings | {"ssl": _ssl(settings["ssl"])}, timeout=_CONNECT_S)
        try:
            return await work(database)
        finally:
            await database.close()

    with asyncio.Runner(loop_factory=lambda: _Loop(allowed, settings["host"], settings["port"])) as runner:
        return runner.run(run())
