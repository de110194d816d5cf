"""The type sql with a real DuckDB: what goes in, what comes out, and what stays shut."""

import asyncio
import errno
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import psycopg
import pytest
from execute.typed import Typed, typed

from mainspring.errors import InvalidError
from mainspring.execute.sql.order import Files, Order, Source, Table
from mainspring.execute.types.sql import TYPE
from mainspring.wire import OutcomeType
from postgres.server import Server


@pytest.fixture
async def sql() -> AsyncIterator[Typed]:
    async with typed(TYPE) as made:
        yield made


@pytest.fixture
def root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that jobs may read."""
    (folder / "root").mkdir()
    monkeypatch.setenv("MAINSPRING_SQL_ROOT", str(folder / "root"))
    return folder / "root"


@pytest.fixture
def database(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database that jobs may reach."""
    parts = urlsplit(postgres.url)
    monkeypatch.setenv("MAINSPRING_ALLOW_HOSTS", f"{parts.hostname}:{parts.port or 5432}")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("drop schema if exists shop cascade")
        connection.execute("create schema shop")
    return postgres.url


def _duck(path: Path, query: str) -> list[Any]:
    """In another process: this one has a store's SQLite in other tests."""
    code = "import duckdb, json, sys; print(json.dumps(duckdb.sql(sys.argv[1]).fetchall(), default=str))"
    done = subprocess.run([sys.executable, "-c", code, query], cwd=path, capture_output=True, text=True, check=True)
    found: list[Any] = json.loads(done.stdout)
    return found


async def test_rows_are_the_result(sql: Typed) -> None:
    statement = (
        "SELECT i AS n, i * 1.5::DOUBLE AS x, 'a' || i AS t, [i] AS l, {'k': NULL} AS s FROM range($up) AS r(i); -- end"
    )
    outcome = await sql.run(statement=statement, parameters={"up": 2})

    assert json.loads(outcome.result or b"") == {
        "rows": [
            {"n": 0, "x": 0.0, "t": "a0", "l": [0], "s": {"k": None}},
            {"n": 1, "x": 1.5, "t": "a1", "l": [1], "s": {"k": None}},
        ],
        "count": 2,
        "output": None,
    }
    assert outcome.usage is not None
    assert outcome.usage.cpu_s > 0
    assert (outcome.usage.peak_mb or 0) > 10


async def test_values_that_json_has_no_word_for(sql: Typed) -> None:
    statement = """SELECT 'nan'::DOUBLE AS nan, 170141183460469231731687303715884105727::HUGEINT AS huge, 'ä;' AS row,
        TIMESTAMPTZ '2026-01-02 03:04:05+01' AS at, DATE '2026-01-02' AS day, 1.50::DECIMAL(5, 2) AS price /* ; */ ;;"""
    assert (await sql.result(statement=statement))["rows"] == [
        {
            "nan": None,
            "huge": "170141183460469231731687303715884105727",
            "row": "ä;",
            "at": "2026-01-02 02:04:05+00",
            "day": "2026-01-02",
            "price": 1.5,
        }
    ]


async def test_several_statements_with_their_own_parameters(sql: Typed) -> None:
    statements = ["CREATE TABLE t AS SELECT $a::INT AS a; INSERT INTO t VALUES (2)", "SELECT sum(a) + $b AS s FROM t"]
    assert (await sql.result(statement=statements, parameters={"a": 1, "b": 10}))["rows"] == [{"s": 13}]
    assert (await sql.result(statement="CREATE TABLE t (a INT)"))["rows"] is None
    assert "no statement has $c" in await sql.failure(statement=statements, parameters={"a": 1, "b": 1, "c": 1})


async def test_files_are_tables(sql: Typed, root: Path) -> None:
    (root / "a.csv").write_text("id,name\n1,Ada\n2,Bob\n")
    (root / "b.jsonl").write_text('{"id": 1, "n": 5}\n{"id": 1, "n": 6}\n')
    (root / "2026").mkdir()
    _duck(root, "COPY (SELECT 1 AS id, 'x' AS p) TO '2026/one.parquet'")
    _duck(root, "COPY (SELECT 2 AS id, 'y' AS p) TO '2026/two.parquet'")
    result = await sql.result(
        statement='SELECT name, sum(n)::INT AS n, any_value(p) AS p FROM a LEFT JOIN b USING (id) LEFT JOIN "of 2026" USING (id)'
        " GROUP BY ALL ORDER BY 1",
        sources={"a": str(root / "a.csv"), "b": "b.jsonl", "of 2026": "2026/*.parquet"},
    )
    assert result["rows"] == [{"name": "Ada", "n": 11, "p": "x"}, {"name": "Bob", "n": None, "p": "y"}]


async def test_rows_of_a_sqlite_file(sql: Typed, root: Path) -> None:
    file = sqlite3.connect(root / "shop.db")
    file.execute("PRAGMA journal_mode = wal")
    file.execute("CREATE TABLE t (i INTEGER, x REAL, s TEXT, b BLOB, m, e)")
    rows = [(n, n / 2, f"0{n}", bytes([n % 256]), n if n % 2 else "text", None) for n in range(25_000)]
    file.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
    file.commit()  # still open, with a WAL: a program that works on its file
    result = await sql.result(
        statement="SELECT count(*) AS n, sum(i)::BIGINT AS i, sum(x) AS x, max(s) AS s, max(b) = '\\xFF'::BLOB AS b, min(m) AS m,"
        " count(e) AS e, typeof(any_value(i)) AS it, typeof(any_value(m)) AS mt FROM t",
        sources={"t": {"database": "shop.db", "query": "SELECT * FROM t"}},
    )
    file.close()
    assert result["rows"] == [
        {
            **{"n": 25_000, "i": 312_487_500, "x": 156_243_750.0, "s": "09999", "b": True, "m": "1", "e": 0},
            **{"it": "BIGINT", "mt": "VARCHAR"},
        }
    ]


def _wal(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(path)
    file.execute("PRAGMA journal_mode = wal")
    file.execute("CREATE TABLE t (a)")
    file.execute("INSERT INTO t VALUES (1)")
    file.commit()
    return file


@pytest.mark.parametrize("in_use", [True, False])
async def test_a_sqlite_file_may_have_a_log_of_its_writes(sql: Typed, root: Path, in_use: bool) -> None:
    """What SQLite would make beside it, to read it while nobody has it open, it may not make."""
    file = _wal(root / "shop.db")
    if not in_use:
        file.close()
    before = sorted(os.listdir(root))
    result = await sql.result(statement="FROM t", sources={"t": {"database": "shop.db", "query": "SELECT * FROM t"}})
    assert result["rows"] == [{"a": 1}]
    assert sorted(os.listdir(root)) == before
    file.close()


def test_one_that_somebody_begins_to_write_meanwhile_is_read_again(root: Path) -> None:
    _wal(root / "shop.db").close()
    code = """
import os, sys, duckdb
from mainspring.execute.sql import loading

def changing(cursor):
    yield from read(cursor)
    os.utime(sys.argv[1], (0, 0))

read, loading._batches = loading._batches, changing
try:
    loading.load_sqlite(duckdb.connect(), "t", sys.argv[1], "SELECT * FROM t")
except Exception as error:
    print(error.sqlite_errorname)
"""
    command = [sys.executable, "-c", code, str(root / "shop.db")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "SQLITE_BUSY\n"


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM t",
        "ATTACH '/tmp/other.db' AS other",
        "PRAGMA journal_mode = delete",
        "SELECT * FROM pragma_database_list",
        "CREATE TABLE u (a)",
        "SELECT * FROM nothing",
    ],
)
async def test_a_sqlite_file_can_only_be_read(sql: Typed, root: Path, query: str) -> None:
    with sqlite3.connect(root / "shop.db") as file:
        file.execute("CREATE TABLE t (a)")
        file.execute("INSERT INTO t VALUES (1)")
    file.close()
    message = await sql.failure(statement="FROM t", sources={"t": {"database": "shop.db", "query": query}})
    assert message.startswith("sources.t: SQLite: ")


async def test_rows_of_a_postgresql_database(sql: Typed, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(
            "create table shop.t as select 7 as i, 1.50::numeric as n, 'NaN'::numeric as odd, '' as empty, null::text as nothing,"
            " E'a,\"b\\n' as s, '\\x00ff'::bytea as b, true as yes, timestamptz '2026-01-02 03:04:05+01' as at,"
            " '{\"a\": [1]}'::jsonb as j, array[1, 2] as l, uuid '00000000-0000-0000-0000-000000000001' as u"
        )
    result = await sql.result(
        statement="SELECT *, typeof(n) AS nt FROM t",
        sources={"t": {"database": database, "query": "SELECT * FROM shop.t"}},
    )
    assert result["rows"] == [
        {
            **{
                "i": 7,
                "n": 1.5,
                "odd": None,
                "empty": "",
                "nothing": None,
                "s": 'a,"b\n',
                "b": "\\x00\\xFF",
                "yes": True,
            },
            **{"at": "2026-01-02 02:04:05+00", "j": {"a": [1]}, "l": "{1,2}", "nt": "DECIMAL(18,2)"},
            **{"u": "00000000-0000-0000-0000-000000000001"},
        }
    ]


async def test_a_source_cannot_write(sql: Typed, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("create table shop.t (a int)")
    query = "INSERT INTO shop.t VALUES (1) RETURNING a"
    message = await sql.failure(statement="FROM t", sources={"t": {"database": database, "query": query}})
    assert "read-only transaction" in message


async def test_a_url_may_hold_secrets(sql: Typed, database: str) -> None:
    parts = urlsplit(database)
    given = database.replace(parts.password or "", "{secret:PASSWORD}", 1) if parts.password else database
    sources = {
        "t": {"database": given, "query": "SELECT 1 AS a"},
        "u": {"database": "{secret:URL}", "query": "SELECT 2 AS b"},
    }
    secrets = {"PASSWORD": parts.password or "unused-secret", "URL": database}
    result = await sql.result(statement="FROM t, u", sources=sources, secrets=secrets)
    assert result["rows"] == [{"a": 1, "b": 2}]


async def test_a_table_is_written_as_a_whole(sql: Typed, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute('create table shop."The Table" (a int primary key, s text, b bytea, at timestamptz)')
    statement = """SELECT i AS a, CASE i WHEN 0 THEN '' WHEN 1 THEN NULL ELSE 'x,"y' END AS s, '\\x00\\xFF'::BLOB AS b,
        TIMESTAMPTZ '2026-01-02 03:04:05+01' AS at FROM range($n) AS r(i)"""
    to = {"postgres": database, "table": "shop.The Table"}

    assert (await sql.result(statement=statement, parameters={"n": 3}, to=to))["count"] == 3
    assert "duplicate key" in await sql.failure(statement=statement, parameters={"n": 3}, to=to)
    assert (await sql.result(statement=statement, parameters={"n": 2}, to=to | {"mode": "replace"}))["count"] == 2
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select a, s, b, at::text like '%:04:05%' from shop.\"The Table\" order by a"
        ).fetchall()
    assert rows == [(0, "", b"\x00\xff", True), (1, None, b"\x00\xff", True)]


async def test_a_parquet_file_is_an_output(sql: Typed, folder: Path) -> None:
    outcome = await sql.run(
        statement="SELECT i FROM range($n) AS r(i) -- all", parameters={"n": 100_000}, to="rows.parquet"
    )

    assert json.loads(outcome.result or b"") == {"rows": None, "count": 100_000, "output": "rows.parquet"}
    assert [(one.name, one.media) for one in outcome.outputs] == [("rows.parquet", "application/vnd.apache.parquet")]
    (folder / "back.parquet").write_bytes(await sql.object("outputs/000001/rows%2Eparquet"))
    assert _duck(folder, "SELECT count(*), sum(i)::BIGINT FROM 'back.parquet'") == [[100_000, 4_999_950_000]]


async def test_what_is_too_much_for_a_result_says_where_to_put_it(sql: Typed) -> None:
    for statement in ("FROM range(10001)", "SELECT repeat('x', 1000001)"):
        assert 'give `to` the name of a file, such as "rows.parquet"' in await sql.failure(statement=statement)
    assert (await sql.result(statement="FROM range(10000)"))["count"] == 10_000


# One process for many statements: starting one for each is all that would take time.
_TRY = """
import sys, msgspec
from mainspring.execute.sql import child
from mainspring.execute.sql.order import Order
order, texts = msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[Order, list[str | list[str]]])
answers = []
for text in texts:
    again = msgspec.structs.replace(order, statements=[text] if isinstance(text, str) else text)
    answers.append(child._answer(again).problem or "")
print(msgspec.json.encode(answers).decode())
"""


def _problems(folder: Path, statements: Sequence[str | list[str]], *files: Path) -> list[str]:
    """What each of them fails with, where a job would run them; "" where it does not."""
    (folder / "scratch" / "sql").mkdir(parents=True)
    sources: dict[str, Source] = {"a": Files("read_csv", [str(file) for file in files])} if files else {}
    order = Order([], {}, sources, None, str(folder / "scratch" / "sql"), 512, 1)
    data = msgspec.json.encode((order, statements))
    done = subprocess.run([sys.executable, "-c", _TRY], input=data, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    answers: list[str] = msgspec.json.decode(done.stdout)
    return answers


def test_wrong_statements_say_where(folder: Path) -> None:
    wrong: dict[str, str | list[str]] = {
        "LINE 3": "SELECT 1,\n  FROM\n WHERE",
        "LINE 2: FROM nothing": "SELECT *\nFROM nothing",
        "statement 2: Parser Error": ["SELECT 1", "SELECT 2;\nSELEC 3"],
        "statement 2: Binder Error": ["SELECT 1", "SELECT\n  nothing"],
        "Conversion Error": "SELECT 'x'::INT",
        "there is none": "-- nothing",
        "parameters: a": "SELECT $a",
    }
    for message, problem in zip(wrong, _problems(folder, list(wrong.values())), strict=True):
        assert message in problem


_REFUSALS = (
    "file system operations are disabled",
    "has been locked",
    "is not for jobs",
    "texts does not exist",
    "secret.csv does not exist",
)


def test_nothing_of_the_machine_can_be_reached(root: Path) -> None:
    outside, source = root.parent, root / "a.csv"
    there = f"'{source}' (USE_TMP_FILE false)"  # else it would make a file beside it first
    (outside / "secret.csv").write_text("a\n1\n")
    source.write_text("a\n1\n")
    before = {*os.listdir(outside), "scratch"}
    statements = [
        "FROM read_text('/etc/passwd')",
        f"FROM read_csv('{outside}/secret.csv')",
        "FROM read_blob('/proc/self/environ')",
        "FROM glob('/etc/*')",
        f"FROM '{outside}/secret.csv'",
        f"CREATE TABLE b AS FROM read_csv('{root}/../secret.csv')",
        "FROM read_csv('https://example.org/x.csv')",
        "FROM texts",  # a variable of the program around it
        f"COPY (SELECT 1) TO '{outside}/new.csv'",
        f"ATTACH '{outside}/new.db'",
        f"EXPORT DATABASE '{outside}/new'",
        "INSTALL httpfs",
        "LOAD sqlite_scanner",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "SET memory_limit = '100GB'",
        "RESET lock_configuration",
        # What it may read it may not write.
        f"COPY (SELECT 1 AS a) TO {there}",
        f"EXPLAIN ANALYZE COPY (SELECT 1 AS a) TO {there}",
        f"PREPARE p AS COPY (SELECT 1 AS a) TO {there}; EXECUTE p",
        f"COPY (PIVOT a ON a USING count(*)) TO {there}",
        f"WITH c AS (COPY (SELECT 1) TO {there}) FROM c; SELECT 1",
        f"SELECT 'ä'; CREATE TABLE t AS WITH ä AS (CoPy (SELECT 1) TO {there}) FROM ä; SELECT 1",
        f"ATTACH '{source}'",
    ]
    for statement, problem in zip(statements, _problems(outside, statements, source), strict=True):
        assert any(words in problem for words in _REFUSALS), (statement, problem)
    assert set(os.listdir(outside)) == before
    assert source.read_text() == "a\n1\n"


_BUILD_WALLS = """
import os, pathlib, sys, threading
from mainspring.execute.sql.walls import only_write_below
folder, outside = map(pathlib.Path, sys.argv[1:])
if not only_write_below(folder):
    sys.exit("no Landlock")
def refused(call, *arguments):
    try:
        call(*arguments)
    except PermissionError:
        return True
def look():
    (folder / "mine").write_text("x")
    (folder / "mine").unlink()
    assert outside.read_text() == "kept"
    assert refused(outside.write_text, "x") and refused(os.unlink, outside) and refused(os.truncate, outside, 0)
    assert refused(os.mkdir, outside.parent / "new") and refused(os.execv, "/bin/true", ["true"])
    print("fine")
thread = threading.Thread(target=look)
thread.start()
thread.join()
"""


def test_the_kernel_lets_the_process_write_to_its_folder_only(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "file").write_text("kept")
    command = [sys.executable, "-c", _BUILD_WALLS, str(folder / "mine"), str(folder / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "no Landlock" in done.stderr:
        pytest.skip("this kernel has no Landlock")
    assert done.stdout == "fine\n", done.stderr
    assert (folder / "file").read_text() == "kept"


def test_what_statements_are_for_works_there(root: Path) -> None:
    (root / "a.csv").write_text("a\n1\n")
    fine: list[str | list[str]] = [
        ["CREATE TABLE t AS FROM a", "INSERT INTO t VALUES (2)", "UPDATE t SET a = 3", "DELETE FROM t", "DROP TABLE t"],
        ["BEGIN", "CREATE MACRO plus(x) AS x + 1", "COMMIT", "SELECT plus(a) FROM a"],
        ["SET VARIABLE x = 1", "SELECT getvariable('x')"],
        "SUMMARIZE a",
        """SELECT 'copy' AS "copy" -- copy""",
        "PIVOT a ON a IN (1, 2) USING count(*)",
    ]
    assert _problems(root.parent, fine, root / "a.csv") == [""] * len(fine)


@pytest.mark.parametrize(
    "path", ["../secret.csv", "{outside}/secret.csv", "link.csv", "*/../../secret.csv", "l*.csv", "none.csv"]
)
async def test_no_file_outside_the_folders_is_a_source(sql: Typed, root: Path, path: str) -> None:
    (root.parent / "secret.csv").write_text("a\n1\n")
    (root / "link.csv").symlink_to(root.parent / "secret.csv")
    given = path.format(outside=root.parent)
    assert "there is no file" in await sql.failure(statement="FROM a", sources={"a": given})


async def test_looking_for_files_keeps_nobody_waiting(sql: Typed, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be a million, on a disk far away: the worker's event loop goes on."""
    looked_in: list[threading.Thread] = []
    real = Path.glob

    def glob(*given: Any) -> Any:
        looked_in.append(threading.current_thread())
        return real(*given)

    monkeypatch.setattr(Path, "glob", glob)
    (root / "a.csv").write_text("n\n1\n")
    assert (await sql.result(statement="FROM t", sources={"t": "*.csv"}))["rows"] == [{"n": 1}]
    assert looked_in
    assert threading.current_thread() not in looked_in


async def test_a_worker_gives_no_files_unless_its_owner_says_so(
    sql: Typed, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAINSPRING_SQL_ROOT", raising=False)
    (folder / "a.csv").write_text("a\n1\n")
    message = await sql.failure(statement="FROM a", sources={"a": str(folder / "a.csv")})
    assert "MAINSPRING_SQL_ROOT=FOLDER" in message


async def test_databases_inside_are_refused_unless_the_owner_allows_them(
    sql: Typed, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAINSPRING_ALLOW_HOSTS")
    sources = {"t": {"database": database, "query": "SELECT 1"}}
    assert "which is not a public address" in await sql.failure(statement="FROM t", sources=sources)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///app?host=/run/postgresql",
        "postgresql://app@/app",
        "postgresql://host/app",
        "postgresql://u:p@host/app?passfile=/root/.pgpass",
        "postgresql://u:p@host/app?sslmode=sometimes",
        "postgresql://u:p@host:x/app",
    ],
)
def test_urls_that_would_lead_elsewhere_are_refused_at_submit(url: str) -> None:
    assert TYPE.check is not None
    with pytest.raises(InvalidError, match=r"arguments\.to\.postgres"):
        TYPE.check(statement="SELECT 1", to=Table(url, "t"))


def test_no_certificates_are_read_to_look_at_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a server's event loop, at every submit."""
    monkeypatch.setattr("ssl.create_default_context", lambda: pytest.fail("they take milliseconds"))
    assert TYPE.check is not None
    TYPE.check(statement="SELECT 1", to=Table("postgresql://u:p@host/app?sslmode=verify-full", "t"))


@pytest.mark.parametrize("to", ["rows.csv", "../rows.parquet", "a/b.parquet", ".parquet", ""])
async def test_a_name_that_is_none_is_refused_at_submit(sql: Typed, to: str) -> None:
    with pytest.raises(InvalidError, match=r"arguments\.to"):
        sql.submit(statement="SELECT 1", to=to)


async def test_secrets_belong_into_parameters(sql: Typed) -> None:
    with pytest.raises(InvalidError, match="parameters="):
        sql.submit(statement="SELECT '{secret:A}'")
    result = await sql.result(
        statement="SELECT length($a) AS n", parameters={"a": "{secret:A}"}, secrets={"A": "x'; --x"}
    )
    assert result["rows"] == [{"n": 7}]


async def test_a_database_that_is_away_is_asked_again(sql: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_ALLOW_HOSTS", "127.0.0.1:1")
    sources = {"t": {"database": f"postgresql://u:{quote('p@ss')}@127.0.0.1:1/d", "query": "SELECT 1"}}
    outcome = await sql.run(statement="FROM t", sources=sources)
    assert outcome.retry
    assert outcome.failure is not None
    assert "p@ss" not in outcome.failure.message


async def test_too_little_memory_is_said(sql: Typed) -> None:
    statement = "SELECT length(string_agg(repeat('x', 1000) || i, ',')) FROM range(1000000) AS r(i)"
    message = await sql.failure(statement=statement, memory_mb=64)
    assert message.startswith("memory_mb: 64 MB are not enough")


_LONG = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"


def _processes() -> set[str]:
    """The processes of SQL jobs that this one has."""
    children = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    return {pid for pid in Path(children).read_text().split() if b"execute.sql.child" in _command(pid)}


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


async def _started() -> int:
    async with asyncio.timeout(10):
        while not (found := _processes()):  # noqa: ASYNC110  (of another process this is all there is to see)
            await asyncio.sleep(0.01)
    return int(found.pop())


async def _busy(pid: int) -> None:
    """Until it has used CPU time."""
    async with asyncio.timeout(10):
        while _ticks(pid) < 30:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _ticks(pid: int) -> int:
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


async def test_the_memory_of_the_worker_is_not_its_own(sql: Typed) -> None:
    """A process is as large as the one that starts it, for a moment."""
    held = b"x" * 300_000_000
    outcome = await sql.run(statement="SELECT 1")
    del held
    assert outcome.usage is not None
    assert outcome.usage.peak_mb is not None
    assert 20 < outcome.usage.peak_mb < 280


async def test_a_timeout_ends_the_process(sql: Typed) -> None:
    outcome = await sql.run(statement=_LONG, timeout_s=1.0)
    assert outcome.failure is not None
    assert outcome.failure.reason == "timeout"
    assert not _processes()
    assert outcome.usage is not None
    assert outcome.usage.cpu_s > 0.2
    assert outcome.usage.peak_mb is not None
    assert outcome.usage.written_bytes is not None


async def test_so_does_a_cancel(sql: Typed) -> None:
    job = sql.submit(statement=_LONG)
    await _started()
    sql.link.cancel(job)
    assert (await sql.link.outcome(job)).type is OutcomeType.CANCELLED
    assert not _processes()


async def test_a_process_that_cannot_be_held_does_not_run(sql: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more_files(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("os.pidfd_open", no_more_files)
    outcome = await sql.run(statement=_LONG)
    assert outcome.failure is not None
    assert "Too many open files" in outcome.failure.message
    assert outcome.retry
    assert not _processes()


async def test_a_process_that_is_killed_is_tried_again(sql: Typed) -> None:
    job = sql.submit(statement=_LONG)
    pid = await _started()
    await _busy(pid)
    os.kill(pid, 9)
    outcome = await sql.link.outcome(job)
    assert outcome.usage is not None
    assert outcome.usage.cpu_s > 0.2
    assert outcome.retry
    assert outcome.failure is not None
    assert "was killed by SIGKILL" in outcome.failure.message


async def test_the_owner_of_a_worker_has_the_last_word(sql: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_MAX_LIMITS", "memory_mb=256,processes=1")
    told = await sql.failure(statement="select 1", memory_mb=1024)
    assert told == "memory_mb: the job asks for 1024, and its worker allows 256 (MAINSPRING_MAX_LIMITS)"
    assert "threads: the job asks for 8" in await sql.failure(statement="select 1", threads=8)
    asked = "select current_setting('threads') as threads, current_setting('memory_limit') as memory"
    assert (await sql.result(statement=asked))["rows"] == [{"threads": 1, "memory": "256.0 MiB"}]
    monkeypatch.setenv("MAINSPRING_MAX_LIMITS", "memory_mb=")
    assert "MAINSPRING_MAX_LIMITS" in (TYPE.missing() or "")
