"""What the worker tells the process of an SQL job, and what it answers. Pure; both are JSON over pipes, secrets put in."""

from typing import Any, Literal

from msgspec import Struct


class Files(Struct, frozen=True, tag="files"):
    """Files that DuckDB reads by itself."""

    reader: str
    paths: list[str]


class SqliteRows(Struct, frozen=True, tag="sqlite"):
    path: str
    query: str


class PostgresRows(Struct, frozen=True, tag="postgres"):
    url: str
    query: str


Source = Files | SqliteRows | PostgresRows


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table that rows are written to. `replace`: instead of all rows that it has."""

    postgres: str
    table: str
    mode: Literal["append", "replace"] = "append"


class Order(Struct, frozen=True):
    """`folder`: of the process alone, for all that it writes. `to`: a path in it, a table, or None for rows in the answer."""

    statements: list[str]
    parameters: dict[str, Any]
    sources: dict[str, Source]
    to: str | Table | None
    folder: str
    memory_mb: int
    threads: int


class Answer(Struct, frozen=True):
    """`problem`: why there is no result; `may_pass`: another try may go well. `peak_mb`: the most memory that the process had,
    which nobody can tell any more when it has ended."""

    rows: list[dict[str, Any]] | None = None
    count: int | None = None
    problem: str | None = None
    may_pass: bool = False
    peak_mb: float | None = None
