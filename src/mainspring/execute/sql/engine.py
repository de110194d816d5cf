"""DuckDB, shut in: `Engine`. Runs in the process of an SQL job.

Guarantees: its statements read the sources that were named, write tables in memory, and reach nothing else of the machine and
nothing of the network; extensions are neither loaded nor fetched; and no statement can change any of this.

Once its settings are locked, DuckDB opens only the files of the sources and of the process's folder; but those it would also write.
So only kinds of statements that write no files are taken, without the word COPY in them (DuckDB takes `WITH x AS (COPY …)` for
a query), all parsed before one runs. `sql.walls` is the second wall.
"""

import json
from pathlib import Path
from typing import Any

import duckdb
from msgspec import Struct

from mainspring.errors import InvalidError
from mainspring.execute.sql.names import literal, quoted
from mainspring.execute.sql.order import Files, Order

MAX_ROWS = 10_000
MAX_INLINE_BYTES = 1_000_000
TEMPORARY_MB = 8_192

_TAKEN = frozenset(
    getattr(duckdb.StatementType, name)
    for name in ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE", "DROP", "ALTER", "TRANSACTION", "SET")
    if hasattr(duckdb.StatementType, name)  # versions differ
)
_ROW = quoted("row of the job")  # no column of that name, which would be taken for it
_BATCH = 1_000
_WAY_OUT = 'give `to` the name of a file, such as "rows.parquet"'


class Statement(Struct, frozen=True):
    """One statement and its values. `label`: which of several it is, for messages."""

    parsed: duckdb.Statement
    values: dict[str, Any]
    label: str


class Engine:
    """One database in memory."""

    def __init__(self, order: Order) -> None:
        self.duck = _open(order)

    def add_files(self, name: str, files: Files) -> None:
        paths = ", ".join(map(literal, files.paths))
        self.duck.execute(f"CREATE VIEW {quoted(name)} AS FROM {files.reader}([{paths}])")

    def parse(self, texts: list[str], parameters: dict[str, Any]) -> list[Statement]:
        """Every text may hold several. A parameter that none of them has is a mistake."""
        found = []
        for number, text in enumerate(texts, 1):
            label = f"statement {number}: " if len(texts) > 1 else ""
            for parsed in _named(label, self.duck.extract_statements, text):
                _check(label, parsed)
                values = {name: value for name, value in parameters.items() if name in parsed.named_parameters}
                found.append(Statement(parsed, values, label))
        if not found:
            raise InvalidError("statement", "there is none")
        if unused := parameters.keys() - {name for statement in found for name in statement.values}:
            raise InvalidError("parameters", f"no statement has ${min(unused)}")
        return found

    def execute(self, statement: Statement) -> None:
        _named(statement.label, self.duck.execute, statement.parsed, statement.values)

    def rows(self, statement: Statement) -> list[dict[str, Any]] | None:
        """What it finds, as JSON has it; None where it is no query."""
        if statement.parsed.type != duckdb.StatementType.SELECT:
            self.execute(statement)
            return None
        self._around(f"SELECT to_json({_ROW})::VARCHAR FROM (", statement, f") AS {_ROW}")
        rows, size = [], 0
        while batch := self.duck.fetchmany(_BATCH):
            rows += [_json(text) for (text,) in batch]
            size += sum(len(text) for (text,) in batch)
            if len(rows) > MAX_ROWS or size > MAX_INLINE_BYTES:
                raise InvalidError(
                    "statement", f"its rows are more than {MAX_ROWS:,}, or {MAX_INLINE_BYTES:,} bytes; {_WAY_OUT}"
                )
        return rows

    def save_parquet(self, statement: Statement, path: Path) -> int:
        """The number of rows."""
        return self._copy("", statement, "", path, "parquet")

    def save_csv(self, statement: Statement, path: Path) -> tuple[list[str], int]:
        """As PostgreSQL reads it: the names of the columns, and the number of rows."""
        found = _named(statement.label, lambda: self.duck.sql(_trimmed(statement), params=statement.values))
        binary = [name for name, type_ in zip(found.columns, found.types, strict=True) if str(type_) == "BLOB"]
        hexed = ", ".join(f"'\\x' || hex({quoted(name)}) AS {quoted(name)}" for name in binary)
        chosen = f"SELECT * REPLACE ({hexed}) FROM (" if binary else ""
        count = self._copy(chosen, statement, ")" if binary else "", path, "csv, HEADER false")
        return found.columns, count

    def _copy(self, before: str, statement: Statement, after: str, path: Path, form: str) -> int:
        if statement.parsed.type != duckdb.StatementType.SELECT:
            raise InvalidError("statement", "the last one must be a query, whose rows go to `to`")
        self._around(f"COPY ({before}", statement, f"{after}) TO {literal(str(path))} (FORMAT {form})")
        (count,) = self.duck.fetchone() or (0,)
        return int(count)

    def _around(self, before: str, statement: Statement, after: str) -> None:
        """In the line where it begins, so that errors name the lines that its author knows."""
        text = f"{before}{_trimmed(statement)}\n{after}"
        _named(statement.label, self.duck.execute, text, statement.values)


def _open(order: Order) -> duckdb.DuckDBPyConnection:
    folder = Path(order.folder)
    duck = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "allow_persistent_secrets": "false",
            "python_enable_replacements": "false",
            "home_directory": str(folder.parent),  # where extensions would go, which it cannot write to
            "temp_directory": str(folder / "temporary"),
            "max_temp_directory_size": f"{TEMPORARY_MB}MiB",
            "memory_limit": f"{order.memory_mb}MiB",
            "threads": str(order.threads),
        },
    )
    files = [path for source in order.sources.values() if isinstance(source, Files) for path in source.paths]
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute(f"SET allowed_directories = [{literal(f'{folder}/')}]")
    duck.execute(f"SET allowed_paths = [{', '.join(map(literal, files))}]")
    duck.execute("SET enable_external_access = false")
    duck.execute("SET lock_configuration = true")
    return duck


def _check(label: str, parsed: duckdb.Statement) -> None:
    kind = (
        parsed.type.name.replace("_", " ") if parsed.type not in _TAKEN else "COPY" if _copies(parsed.query) else None
    )
    if kind is not None:
        hint = "; a PIVOT names its values: ON column IN (…)" if kind == "MULTI" else ""
        raise InvalidError("statement", f"{label}{kind} is not for jobs: they query, and make tables in memory{hint}")


def _copies(text: str) -> bool:
    """Is the word COPY in it, other than in quotes?"""
    data = text.encode()
    return any(
        kind == duckdb.token_type.keyword and data[offset : offset + 4].upper() == b"COPY"
        for offset, kind in duckdb.tokenize(text)
    )


def _trimmed(statement: Statement) -> str:
    """Without semicolons at the end, whatever comments follow."""
    data = statement.parsed.query.encode()
    for offset, kind in reversed(duckdb.tokenize(statement.parsed.query)):
        if kind != duckdb.token_type.comment and data[offset : offset + 1] != b";":
            break
        data = data[:offset]
    return data.decode()


def _named(label: str, call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except duckdb.Error as error:
        if not label:
            raise
        raise type(error)(f"{label}{error}") from None


def _json(text: str) -> dict[str, Any]:
    """What JSON has no number for is null, what has too many digits is text."""
    row: dict[str, Any] = json.loads(text, parse_constant=lambda _: None, parse_int=_whole)
    return row


def _whole(digits: str) -> int | str:
    number = int(digits)
    return number if -(2**63) <= number < 2**63 else digits
