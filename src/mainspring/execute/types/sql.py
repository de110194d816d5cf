"""The type `sql`: statements of DuckDB over files and databases; their rows as the result, a Parquet file or a PostgreSQL table.

DuckDB runs in a process of its own (`execute.sql.process`), which is killed when the job is cancelled or takes too long. What the
job may read is decided here, before that process is started: files by `execute.sql.files`; hosts by `execute.addresses`, which the
process asks when it connects.
"""

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from mainspring.errors import InvalidError, MainspringError
from mainspring.execute.addresses import allowed
from mainspring.execute.ceilings import ceilings, lowered
from mainspring.execute.context import Context
from mainspring.execute.placeholders import Secret, fill_url, fill_value
from mainspring.execute.sql import postgres
from mainspring.execute.sql.files import find_files, reader_of, roots
from mainspring.execute.sql.order import Answer, Files, Order, PostgresRows, Source, SqliteRows
from mainspring.execute.sql.order import Table as Table  # for users, too
from mainspring.execute.sql.process import make_folder, perform
from mainspring.execute.types import JobType

MEDIA: Final = "application/vnd.apache.parquet"

MEMORY_MB: Final = 512
THREADS: Final = 2

_SUFFIX = ".parquet"
_PLACEHOLDER = "{secret:"


class Query(Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of a database: a postgresql:// URL, or the path of a SQLite file."""

    database: str
    query: str


class SqlResult(Struct, frozen=True, kw_only=True):
    """`rows`: where they go nowhere else. `count`: of the rows found or written; None after a statement that finds none."""

    rows: list[dict[str, Any]] | None = None
    count: int | None = None
    output: str | None = None


class SqlError(MainspringError):
    """A database cannot be reached or asks for another try."""


class SqlRefusedError(SqlError):
    """The job itself is wrong, and would be again."""


async def sql(
    ctx: Context,
    statement: str | list[str],
    *,
    sources: dict[str, str | Query] = {},  # noqa: B006  (nobody changes it)
    parameters: dict[str, Any] = {},  # noqa: B006
    to: str | Table | None = None,
    memory_mb: Annotated[int, Meta(ge=64, le=1_048_576)] = MEMORY_MB,
    threads: Annotated[int, Meta(ge=1, le=64)] = THREADS,
) -> SqlResult:
    """Run statements of DuckDB; what the last one finds is the result.

    sources: the tables there are, by name: files (Parquet, CSV, JSON), and rows of a SQLite file or a PostgreSQL database
    (`{"database": …, "query": …}`). parameters: values for `$name`. to: a name such as "rows.parquet", for an output of the job, or
    {"postgres": URL, "table": name, "mode": "append" or "replace"}. `{secret:NAME}` in a database's URL and in a parameter
    stands for a secret of the job.
    """
    most = ceilings()
    folder = make_folder(ctx.scratch)
    order = Order(
        statements=[statement] if isinstance(statement, str) else statement,
        parameters=fill_value(parameters, ctx.secret),
        sources=await asyncio.to_thread(_sources, sources, ctx.secret),
        to=_target(to, folder, ctx.secret),
        folder=str(folder),
        memory_mb=lowered("memory_mb", memory_mb, MEMORY_MB, most.memory_mb),
        threads=lowered("threads", threads, THREADS, most.processes),
    )
    _check_postgres(order)
    answer = await perform(order, ctx._services.use)
    return await _result(ctx, answer, folder, to)


async def _result(ctx: Context, answer: Answer, folder: Path, to: str | Table | None) -> SqlResult:
    if answer.problem is not None:
        raise (SqlError if answer.may_pass else SqlRefusedError)(answer.problem)
    if not isinstance(to, str):
        return SqlResult(rows=answer.rows, count=answer.count)
    await ctx.output(folder / to, name=to, media=MEDIA)
    return SqlResult(count=answer.count, output=to)


def _sources(given: dict[str, str | Query], secret: Secret) -> dict[str, Source]:
    """In a thread: looking for files may wait for a disk."""
    return {name: _source(name, source, secret) for name, source in given.items()}


def _source(name: str, source: str | Query, secret: Secret) -> Source:
    field = f"sources.{name}"
    if isinstance(source, str):
        return Files(reader_of(field, source), list(map(str, find_files(field, source, roots()))))
    if not _is_url(source.database):
        files = find_files(field, source.database, roots())
        if len(files) > 1:
            raise InvalidError(field, f"{source.database!r} is {len(files)} files; a database is one")
        return SqliteRows(str(files[0]), source.query)
    url = fill_url(source.database, secret)
    postgres.check_url(field, url)
    return PostgresRows(url, source.query)


def _target(to: str | Table | None, folder: Path, secret: Secret) -> str | Table | None:
    if to is None:
        return None
    if isinstance(to, str):
        return str(folder / to)
    url = fill_url(to.postgres, secret)
    postgres.check_url("to.postgres", url)
    return Table(url, to.table, to.mode)


def _is_url(database: str) -> bool:
    return database.startswith(_PLACEHOLDER) or database.partition("://")[0] in postgres.SCHEMES


def _check_postgres(order: Order) -> None:
    used = isinstance(order.to, Table) or any(isinstance(source, PostgresRows) for source in order.sources.values())
    if used and find_spec("asyncpg") is None:
        raise SqlError("this worker has no asyncpg: install Mainspring with the extra postgres")


def _check(statement: str | list[str], to: str | Table | None = None, **arguments: Any) -> None:
    """What can be known at submit, with something in the place of secrets."""
    if not statement:
        raise InvalidError("arguments.statement", "there is none")
    if any(_PLACEHOLDER in text for text in ([statement] if isinstance(statement, str) else statement)):
        raise InvalidError(
            "arguments.statement", 'holds no secrets: write $name, and parameters={"name": "{secret:NAME}"}'
        )
    for name, source in arguments.get("sources", {}).items():
        _check_source(f"arguments.sources.{name}", name, source)
    if isinstance(to, str) and (not to.endswith(_SUFFIX) or "/" in to or to == _SUFFIX):
        raise InvalidError("arguments.to", f"expected a file's name such as rows{_SUFFIX}, without folders")
    if isinstance(to, Table):
        _check_url("arguments.to.postgres", to.postgres)


def _check_source(field: str, name: str, source: str | Query) -> None:
    if not name.strip():
        raise InvalidError(field, "a source needs a name")
    if isinstance(source, str):
        reader_of(field, source)
    elif _is_url(source.database):
        _check_url(field, source.database)


def _check_url(field: str, url: str) -> None:
    if not url.startswith(_PLACEHOLDER):
        postgres.check_url(field, fill_url(url, lambda _: "secret"))


def _missing() -> str | None:
    if find_spec("duckdb") is None:
        return "it needs DuckDB: install Mainspring with the extra sql, as in pip install 'mainspring[sql]'"
    try:
        roots(), allowed(), ceilings()
    except InvalidError as error:
        return str(error)
    return None


TYPE = JobType("sql", sql, _missing, check=_check, give_up_on=(InvalidError, SqlRefusedError))
