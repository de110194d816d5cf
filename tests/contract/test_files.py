"""SQLite only: what a file may be, and how its one writer groups commits."""

import asyncio
import os
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from contract.backends import SqliteBackend
from contract.scene import START, Heard, JumpingClock, Scene, make_batch, with_priority
from mainspring.errors import StoreError, StoreUnavailableError, StoreVersionError
from mainspring.store.queries import load_migrations
from mainspring.store.sqlite import SqliteStore
from mainspring.store.sqlite.database import APPLICATION_ID, path_of
from mainspring.store.sqlite.writer import Tx


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "file.db"


@pytest.fixture
async def scene(folder: Path) -> AsyncIterator[Scene]:
    clock = JumpingClock(START)
    backend = SqliteBackend(folder)
    store = await backend.open(clock)
    made = Scene(backend, store, clock)
    yield made
    made.check()
    await store.close()


def writer(scene: Scene) -> SqliteStore:
    assert isinstance(scene.store, SqliteStore)
    return scene.store


def edit(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in folder.iterdir()}


def scribble(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 100)


# --- files


async def test_a_commit_is_durable_when_it_is_answered(path: Path) -> None:
    store = await SqliteStore.open(path, JumpingClock(START))
    connection = store._writer._connection
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2  # full
    await store.close()


async def test_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    await (await SqliteStore.open(path)).close()
    newest = load_migrations("mainspring.store.sqlite")[-1].number
    edit(path, f"insert into migration (number, name, checksum) values ({newest + 1}, 'future', 'x')")
    with pytest.raises(StoreVersionError, match="newer Mainspring"):
        await SqliteStore.open(path)


async def test_a_file_with_an_altered_migration_is_refused(path: Path) -> None:
    await (await SqliteStore.open(path)).close()
    edit(path, "update migration set checksum = 'altered' where number = 1")
    with pytest.raises(StoreVersionError, match="not the one this version ships"):
        await SqliteStore.open(path)


async def test_another_programs_database_is_refused_and_left_as_it_was(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table theirs (x)")
    connection.commit()
    connection.close()
    before = contents(path.parent)
    with pytest.raises(StoreError, match="another program's database"):
        await SqliteStore.open(path)
    assert contents(path.parent) == before


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(path: Path) -> None:
    scribble(path)
    before = contents(path.parent)
    with pytest.raises(StoreError, match="not a usable SQLite file"):
        await SqliteStore.open(path)
    assert contents(path.parent) == before


async def test_a_missing_folder_is_named(folder: Path) -> None:
    with pytest.raises(StoreError, match="check that the folder exists"):
        await SqliteStore.open(folder / "none" / "file.db")


async def test_our_files_are_marked(path: Path) -> None:
    await (await SqliteStore.open(path)).close()
    connection = apsw.Connection(str(path))
    assert connection.pragma("application_id") == APPLICATION_ID
    connection.close()


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite:file.db", "postgres://x", "", "sqlite://file.db"])
def test_a_url_that_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="is not a store"):
        path_of(url)


def test_a_url_names_a_relative_or_an_absolute_file() -> None:
    assert path_of("sqlite:///a%20b.db") == Path("a b.db").absolute()
    assert path_of("sqlite:////tmp/a.db") == Path("/tmp/a.db")


async def test_many_openers_of_a_new_file_at_once_all_get_it(path: Path) -> None:
    program = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom mainspring.store.sqlite import SqliteStore\n"
        "async def main() -> None:\n    await (await SqliteStore.open(Path(sys.argv[1]))).close()\nasyncio.run(main())"
    )
    children = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, str(path), stderr=asyncio.subprocess.PIPE, env=os.environ
        )
        for _ in range(3)
    ]
    for child in children:
        _, errors = await child.communicate()
        assert (child.returncode, errors) == (0, b"")


async def test_a_store_that_joins_in_the_same_tick_of_the_clock_is_heard_of_too(scene: Scene) -> None:
    await scene.submit_one()
    place = writer(scene)._hub.folder
    before = place.stat()
    other = await scene.backend.open(scene.clock)
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))  # a folder's time moves in steps of milliseconds
    heard = asyncio.Event()
    other.subscribe(lambda hint: heard.set())
    await scene.submit_one()
    async with asyncio.timeout(10):
        await heard.wait()
    await other.close()


# --- what cannot be written


async def test_a_read_only_file_refuses_writes_with_a_clear_error_and_reads_go_on(scene: Scene) -> None:
    job = await scene.submit_one()
    store = writer(scene)
    store._writer._connection.pragma("query_only", 1)
    with pytest.raises(StoreUnavailableError, match="read-only: nothing was written"):
        await scene.submit_one()
    assert await scene.state(job) == "pending"
    assert scene.count("job") == 1
    store._writer._connection.pragma("query_only", 0)
    await scene.submit_one()
    assert scene.count("job") == 2


async def test_i1_a_full_disk_refuses_the_group_and_nothing_acknowledged_is_lost(scene: Scene) -> None:
    jobs = await scene.submit(10)
    connection = writer(scene)._writer._connection
    pages = connection.pragma("page_count")
    connection.pragma("max_page_count", pages + 2)
    with pytest.raises(StoreUnavailableError, match="full: nothing was written"):
        await scene.insert(arguments=[b"x" * 100_000] * 20)
    assert scene.count("job") == 10
    connection.pragma("max_page_count", 1_000_000)
    jobs += await scene.submit(10)
    assert {row[0] for row in scene.rows("select id from job")} == set(jobs)


async def test_a_forked_child_may_not_use_the_store(scene: Scene) -> None:
    reading, writing = scene.store.read_jobs([]), scene.store.cancel_jobs([])
    child = os.fork()
    if child == 0:  # only plain calls here: the event loop and its threads belong to the parent
        code = 0
        for use in (reading, writing):
            try:
                use.send(None)
                code = 1
            except StoreError as error:
                code = code if "after fork" in str(error) else 2
            except BaseException:
                code = 3
        os._exit(code)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert await reading == []
    assert await writing == []


# --- group commit


class Held:
    """Keeps the writer busy, so that what comes meanwhile is one group."""

    def __init__(self, scene: Scene) -> None:
        self._store = writer(scene)
        self._entered = threading.Event()
        self._go = threading.Event()

    def _wait(self, tx: Tx) -> None:
        self._entered.set()
        assert self._go.wait(10)

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._store._write(self._wait))
        await asyncio.to_thread(self._entered.wait, 10)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)  # the tasks of the test put what they have into the queue
        self._go.set()
        await self._task


def failing_insert() -> tuple[list[object], list[object], list[bytes]]:
    good, lane = make_batch(START, arguments=[b"1", b"2"], delay=0.5)
    bad, _ = make_batch(START)
    return [good, with_priority(bad, 11)], [lane], [*good.ids, *bad.ids]


async def test_e_an_operation_that_fails_changes_nothing_and_harms_nobody_in_its_group(scene: Scene) -> None:
    batches, lanes, ids = failing_insert()
    heard = Heard(scene.store)
    commits = scene.rows("pragma data_version")
    async with Held(scene):
        before = asyncio.create_task(scene.submit(3))
        failing = asyncio.create_task(scene.store.insert_jobs(batches, lanes))  # type: ignore[arg-type]
        after = asyncio.create_task(scene.submit(2))
    assert len(await before) == 3
    with pytest.raises(apsw.ConstraintError):
        await failing
    assert len(await after) == 2
    assert scene.count("job") == 5
    assert await scene.store.read_jobs(ids) == [None] * 3
    assert heard.take("timer") == []  # what the failed one would have said is not said
    assert scene.rows("pragma data_version") != commits


async def test_what_comes_while_a_commit_is_under_way_is_one_commit(scene: Scene) -> None:
    connection = writer(scene)._writer._connection
    commits: list[None] = []
    connection.set_commit_hook(lambda: bool(commits.append(None)))  # type: ignore[func-returns-value]
    async with Held(scene):
        submits = [asyncio.create_task(scene.submit_one()) for _ in range(50)]
    await asyncio.gather(*submits)
    connection.set_commit_hook(None)
    assert scene.count("job") == 50
    assert len(commits) == 2  # the one that was held, and one for all the rest


async def test_a_caller_that_gives_up_harms_nobody(scene: Scene) -> None:
    async with Held(scene):
        given_up = asyncio.create_task(scene.submit_one())
        other = asyncio.create_task(scene.submit_one())
        await asyncio.sleep(0)
        given_up.cancel()
    assert await scene.state(await other) == "pending"
    assert given_up.cancelled()
    assert scene.count("job") == 2  # it was on its way, and nobody can say any more that it was not


async def test_hints_come_after_the_commit_and_not_at_all_without_one(scene: Scene) -> None:
    seen: list[int] = []
    scene.store.subscribe(lambda hint: seen.append(scene.count("job")))
    await scene.submit(4)
    assert seen == [4]
    connection = writer(scene)._writer._connection
    connection.pragma("query_only", 1)
    with pytest.raises(StoreUnavailableError):
        await scene.submit(4)
    connection.pragma("query_only", 0)
    assert seen == [4]
