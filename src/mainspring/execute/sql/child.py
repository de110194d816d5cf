"""The process of one SQL job: reads an order, runs it, writes the answer, ends.

Started by `sql.process`. DuckDB and sqlite3 are only ever imported here: a second SQLite library must not be in a process that
has a store's file open, because closing any file of its own there may drop the locks of the first.
"""

import contextlib
import os
import resource
import sqlite3
import sys
from pathlib import Path

import duckdb
import msgspec

from mainspring.errors import InvalidError
from mainspring.execute.addresses import Allowed, allowed
from mainspring.execute.lifeline import die_with
from mainspring.execute.metering import peak_mb
from mainspring.execute.sql import postgres
from mainspring.execute.sql.engine import TEMPORARY_MB, Engine
from mainspring.execute.sql.loading import load_csv, load_sqlite
from mainspring.execute.sql.order import Answer, Files, Order, PostgresRows, Source, SqliteRows, Table
from mainspring.execute.sql.walls import only_write_below

_SLACK_MB = 1_024  # for what DuckDB does not count: the interpreter, threads, rows on their way out
_PASSING = ("08", "40", "53", "57")  # classes of SQLSTATE: connections, conflicts, resources, shutdowns
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")


def main(parent: int) -> None:
    die_with(parent)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # whatever a library prints is not the answer
        order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
        _limit(order)
        only_write_below(Path(order.folder))  # before DuckDB has threads
        out.write(msgspec.json.encode(msgspec.structs.replace(_answer(order), peak_mb=peak_mb())))


def _limit(order: Order) -> None:
    data = (order.memory_mb + _SLACK_MB) << 20
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    resource.setrlimit(resource.RLIMIT_FSIZE, (TEMPORARY_MB << 20, TEMPORARY_MB << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # rather this one than its worker


def _answer(order: Order) -> Answer:
    """Problems are part of it: what is no error of the job is a bug, and ends the process."""
    where = ""
    try:
        engine, reachable = Engine(order), allowed()
        for name, source in order.sources.items():
            where = f"sources.{name}: "
            _load(engine, name, source, Path(order.folder), reachable)
        where = ""
        return _finish(engine, order, reachable)
    except Exception as error:
        answer = _problem(error, order)
        return msgspec.structs.replace(answer, problem=where + (answer.problem or ""))


def _problem(error: Exception, order: Order) -> Answer:
    match error:
        case duckdb.OutOfMemoryException() | MemoryError():
            return Answer(problem=f"memory_mb: {order.memory_mb} MB are not enough: {error}")
        case InvalidError() | duckdb.Error() | UnicodeError():
            return Answer(problem=str(error))
        case sqlite3.Error():
            return Answer(problem=f"SQLite: {error}", may_pass=getattr(error, "sqlite_errorname", "") in _BUSY)
        case OSError():
            return Answer(problem=f"PostgreSQL: {error or type(error).__name__}", may_pass=True)
    if type(error).__module__.startswith("asyncpg"):
        state = getattr(error, "sqlstate", None)
        return Answer(problem=f"PostgreSQL: {error}", may_pass=state is None or state[:2] in _PASSING)
    raise error


def _load(engine: Engine, name: str, source: Source, folder: Path, reachable: Allowed) -> None:
    match source:
        case Files():
            engine.add_files(name, source)
        case SqliteRows(path, query):
            load_sqlite(engine.duck, name, path, query)
        case PostgresRows(url, query):
            columns = postgres.read(url, query, folder / "source.csv", reachable)
            load_csv(engine.duck, name, folder / "source.csv", columns)


def _finish(engine: Engine, order: Order, reachable: Allowed) -> Answer:
    *first, last = engine.parse(order.statements, order.parameters)
    for statement in first:
        engine.execute(statement)
    match order.to:
        case None:
            rows = engine.rows(last)
            return Answer(rows=rows, count=None if rows is None else len(rows))
        case str(path):
            return Answer(count=engine.save_parquet(last, Path(path)))
        case Table() as table:
            file = Path(order.folder, "rows.csv")
            columns, count = engine.save_csv(last, file)
            postgres.write(table, file, columns, reachable)
            return Answer(count=count)
