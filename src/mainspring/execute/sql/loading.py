"""Rows of a SQLite file, and CSV as PostgreSQL writes it, into tables of DuckDB. Runs in the process of an SQL job.

SQLite is read with the standard library, in one transaction that sees one state of the file. Nothing but reading is possible: the
file is opened read-only, and a statement that would do anything else (ATTACH another file, say) is refused when it is prepared.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mainspring.execute.sql.names import literal, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BATCH = 10_000
_WAL_MODE = b"\2\2"
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_TYPES: dict[frozenset[type], str] = {
    frozenset({int}): "BIGINT",
    frozenset({float}): "DOUBLE",
    frozenset({int, float}): "DOUBLE",
    frozenset({bytes}): "BLOB",
}
# The others stay text. NUMERIC is text at first: how many places it needs only its values tell.
_OF_POSTGRES = {
    **{"bool": "BOOLEAN", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "oid": "BIGINT"},
    **{"float4": "FLOAT", "float8": "DOUBLE", "date": "DATE", "time": "TIME", "uuid": "UUID"},
    **{"timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ", "json": "JSON", "jsonb": "JSON"},
}


def load_sqlite(duck: "DuckDBPyConnection", name: str, path: str, query: str) -> None:
    at_rest_since = _at_rest_since(path)
    how = "mode=ro" if at_rest_since is None else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(path)}?{how}", uri=True, isolation_level=None)) as file:
        file.execute("BEGIN")
        file.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY)
        columns, types = _sqlite_columns(file, query)
        duck.execute(f"CREATE TABLE {quoted(name)} ({', '.join(map(_column, columns, types))})")
        values = ", ".join(f"unnest(?::{type_}[])" for type_ in types)
        for rows in _batches(file.execute(query)):
            lists = [_as(type_, column) for type_, column in zip(types, zip(*rows, strict=True), strict=True)]
            duck.execute(f"INSERT INTO {quoted(name)} SELECT {values}", lists)
    if at_rest_since not in (None, os.stat(path).st_mtime_ns):
        raise _busy("the file was written while it was read")


def _at_rest_since(path: str) -> int | None:
    """Of a file in WAL mode that nobody has open: to read it, SQLite would make others beside it, unless it is told that it does
    not change meanwhile."""
    try:
        with open(path, "rb") as file:
            since = os.fstat(file.fileno()).st_mtime_ns
            header = file.read(20)
    except OSError:  # SQLite will say it
        return None
    return since if header[18:] == _WAL_MODE and not os.path.exists(f"{path}-wal") else None


def _busy(text: str) -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorname = "SQLITE_BUSY"
    return error


def _sqlite_columns(file: sqlite3.Connection, query: str) -> tuple[list[str], list[str]]:
    """Names, and types by all values that there are: in SQLite a column's own type binds nobody."""
    cursor = file.execute(query)
    if cursor.description is None:
        raise sqlite3.ProgrammingError("expected a query that has rows, such as SELECT * FROM orders")
    columns = [column[0] for column in cursor.description]
    seen: list[set[type]] = [set() for _ in columns]
    for row in cursor:
        for kinds, value in zip(seen, row, strict=True):
            kinds.add(type(value))
    return columns, [_TYPES.get(frozenset(kinds - {type(None)}), "VARCHAR") for kinds in seen]


def _batches(cursor: sqlite3.Cursor) -> Iterator[list[Any]]:
    while rows := list(islice(cursor, _BATCH)):
        yield rows


def _as(type_: str, values: tuple[Any, ...]) -> list[Any]:
    return [_text(value) for value in values] if type_ == "VARCHAR" else list(values)


def _text(value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case bytes():
            return value.hex()
    return str(value)


def load_csv(duck: "DuckDBPyConnection", name: str, path: Path, columns: list[tuple[str, str]]) -> None:
    """`columns`: names, and types as PostgreSQL calls them."""
    texts = ", ".join(f"{literal(column)}: 'VARCHAR'" for column, _ in columns)
    duck.execute(
        f"CREATE TEMP TABLE loaded AS FROM read_csv({literal(str(path))}, header=false, auto_detect=false, delim=',', "
        f"quote='\"', escape='\"', nullstr='', allow_quoted_nulls=false, max_line_size=268435456, columns={{{texts}}})"
    )
    path.unlink()
    casts = ", ".join(f"{_cast(duck, column, type_)} AS {quoted(column)}" for column, type_ in columns)
    duck.execute(f"CREATE TABLE {quoted(name)} AS SELECT {casts} FROM loaded")
    duck.execute("DROP TABLE loaded")


def _cast(duck: "DuckDBPyConnection", column: str, type_: str) -> str:
    if type_ == "bytea":
        return f"unhex(substr({quoted(column)}, 3))"
    target = _decimal(duck, column) if type_ == "numeric" else _OF_POSTGRES.get(type_, "VARCHAR")
    return f"{quoted(column)}::{target}"


def _decimal(duck: "DuckDBPyConnection", column: str) -> str:
    """As many places as the values have; DOUBLE where they are too long, or no numbers at all (NaN)."""
    text = quoted(column)
    found = duck.execute(
        f"SELECT max(length(split_part(ltrim({text}, '-'), '.', 1))), max(length(split_part({text}, '.', 2))), "
        f"bool_and(regexp_full_match({text}, '-?[0-9]+([.][0-9]+)?')) FROM loaded"
    ).fetchone()
    whole, places, plain = found if found and found[2] is not None else (0, 0, True)
    return f"DECIMAL({max(whole + places, 18)}, {places})" if plain and whole + places <= 38 else "DOUBLE"


def _column(name: str, type_: str) -> str:
    return f"{quoted(name)} {type_}"
