"""A caller's own connection, as our statements use it: asyncpg's, psycopg's, or what SQLAlchemy has underneath.

Nothing is imported that the caller has not imported himself: drivers are told by where a type comes from. Each adapter answers
`await fetch(sql, *arguments)` with `$1` parameters. Those of connections that block never really wait, so a coroutine that
uses nothing else can be run without an event loop, on the thread that the connection belongs to.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, Protocol

from mainspring.errors import InvalidError
from mainspring.store.drivers import driver_of, type_name

_EXPECTED = "expected what app.transaction() gives, or a connection of asyncpg, psycopg 3 or SQLAlchemy with its transaction open"
_BEGIN = {
    "asyncpg": "`async with connection.transaction():`",
    "psycopg": "`with connection.transaction():` (`async with` for an AsyncConnection)",
    "sqlalchemy": "an isolation level other than AUTOCOMMIT",
}
_REFUSED = {
    "psycopg2": "psycopg2 is not supported: use psycopg 3 (SQLAlchemy: postgresql+psycopg://), whose connections work alike",
    "sqlite3": "this app keeps its jobs in PostgreSQL, and no transaction spans that and a SQLite file",
    "aiosqlite": "this app keeps its jobs in PostgreSQL, and no transaction spans that and a SQLite file",
    "apsw": "this app keeps its jobs in PostgreSQL, and no transaction spans that and a SQLite file",
}
_NO_SCHEMA = ("42P01", "3F000", "42703")  # no such table, schema, column
_NO_RIGHT = "42501"


class Connection(Protocol):
    """What our statements need."""

    async def fetch(self, sql: str, *arguments: Any) -> list[Any]: ...


async def adapt(connection: Any, *, blocking: bool) -> Connection:
    """The adapter of a connection with an open transaction; `InvalidError` says what is wrong with any other."""
    driver = driver_of(connection)
    beneath = connection
    if driver == "sqlalchemy":
        beneath = await _beneath_sqlalchemy(connection, blocking=blocking)
    match driver_of(beneath):
        case "asyncpg" if hasattr(beneath, "is_in_transaction"):
            return _asyncpg(beneath, str(driver), blocking=blocking)
        case "psycopg" if hasattr(beneath, "commit"):
            return _psycopg(beneath, str(driver), blocking=blocking)
        case unknown:
            raise _refusal(_REFUSED.get(unknown or "") or f"{_EXPECTED}; got {type_name(beneath)}")


def _asyncpg(connection: Any, driver: str, *, blocking: bool) -> Connection:
    _check_colour(waits=True, blocking=blocking)
    if not connection.is_in_transaction():
        raise _refusal(_not_open(driver))
    checked: Connection = connection  # its `fetch` is the one that we expect
    return checked


def _psycopg(connection: Any, driver: str, *, blocking: bool) -> Connection:
    _check_colour(waits=iscoroutinefunction(connection.commit), blocking=blocking)
    state = connection.info.transaction_status.name
    if state == "INERROR":
        raise _refusal("a statement of this transaction has failed: roll it back and begin again")
    if connection.autocommit and state == "IDLE":
        raise _refusal(_not_open(driver))
    return _BlockingPsycopg(connection) if blocking else _Psycopg(connection)


class _Psycopg:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *arguments: Any) -> list[Any]:
        from psycopg import AsyncRawCursor
        from psycopg.rows import tuple_row

        async with AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(sql, arguments)
            return list(await cursor.fetchall()) if cursor.description else []


class _BlockingPsycopg:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *arguments: Any) -> list[Any]:
        from psycopg import RawCursor
        from psycopg.rows import tuple_row

        with RawCursor(self._connection, row_factory=tuple_row) as cursor:
            cursor.execute(sql, arguments)
            return list(cursor.fetchall()) if cursor.description else []


async def _beneath_sqlalchemy(given: Any, *, blocking: bool) -> Any:
    """The driver's connection, once SQLAlchemy has begun what it begins with the first statement only."""
    if not hasattr(given, "commit"):
        raise _refusal(f"{_EXPECTED}; got {type_name(given)}")
    _check_colour(waits=iscoroutinefunction(given.commit), blocking=blocking)
    if blocking:
        connection = given if hasattr(given, "exec_driver_sql") else given.connection()
        _check_dialect(connection)
        beneath = connection.connection.driver_connection
        if not (connection.in_transaction() and _is_begun(beneath)):
            connection.exec_driver_sql("select 1")
    else:
        connection = given if hasattr(given, "exec_driver_sql") else await given.connection()
        _check_dialect(connection)
        beneath = (await connection.get_raw_connection()).driver_connection
        if not (connection.in_transaction() and _is_begun(beneath)):
            await connection.exec_driver_sql("select 1")
    return beneath


def _is_begun(beneath: Any) -> bool:
    """psycopg begins by itself with our first statement."""
    return driver_of(beneath) != "asyncpg" or bool(beneath.is_in_transaction())


def _check_dialect(connection: Any) -> None:
    if connection.dialect.name != "postgresql":
        raise _refusal(
            f"this app keeps its jobs in PostgreSQL, and no transaction spans that and {connection.dialect.name}"
        )


def _check_colour(*, waits: bool, blocking: bool) -> None:
    if waits and blocking:
        raise _refusal("this connection belongs to an event loop: submit there, with function.within(...)")
    if not waits and not blocking:
        raise _refusal(
            "this connection would block the event loop: give an async one (psycopg's AsyncConnection, SQLAlchemy's "
            "AsyncSession), or submit with function.sync.within(...)"
        )


def _not_open(driver: str) -> str:
    return f"this connection has no open transaction, so the job would not be part of one: use {_BEGIN[driver]}"


def _refusal(problem: str) -> InvalidError:
    return InvalidError("within", problem)


@contextmanager
def explained(schema: str) -> Iterator[None]:
    """A driver's error as it is, except where the connection's database or user cannot be meant."""
    try:
        yield
    except Exception as error:
        state = getattr(error, "sqlstate", None)
        if state in _NO_SCHEMA:
            problem = (
                f"the database of this connection has no schema {schema!r} of this version ({error}): connect to the "
                "database that the app keeps its jobs in, or run `mainspring migrate`"
            )
        elif state == _NO_RIGHT:
            problem = (
                f"the user of this connection may not write to schema {schema!r} ({error}): grant it usage on the schema, and "
                "select, insert and update on its tables"
            )
        else:
            raise
        raise _refusal(problem) from error
