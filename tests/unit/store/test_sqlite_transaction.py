"""A user's transaction on our file: it waits without blocking, refuses what would end badly, and always lets go of the lock."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextvars import Context
from pathlib import Path
from typing import Any

import apsw
import pytest

from contract.scene import START, JumpingClock, make_batch, with_priority
from mainspring.errors import InvalidError, StoreError, StoreUnavailableError
from mainspring.store.sqlite import SqliteStore, transaction


@pytest.fixture
async def store(folder: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(folder / "test.db", JumpingClock(START))
    async with opened.transaction() as tx:
        await tx.execute("create table orders (number integer primary key, note text)")
    yield opened
    await opened.close()


def holder(store: SqliteStore) -> apsw.Connection:
    """Somebody else who has the write lock."""
    connection = apsw.Connection(str(store.path))
    connection.execute("begin immediate")
    return connection


async def submit(store: SqliteStore) -> bytes:
    batch, lane = make_batch(START)
    ((answer,),) = await store.insert_jobs([batch], [lane])
    return answer.id


async def orders(store: SqliteStore) -> list[int]:
    async with store.transaction() as tx:
        return [number for (number,) in await tx.execute("select number from orders order by 1")]


async def test_a_wait_for_the_lock_leaves_the_event_loop_alone(store: SqliteStore) -> None:
    other = holder(store)
    block = store.transaction()
    begun = asyncio.create_task(block.__aenter__())
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    for _ in range(100):
        await asyncio.sleep(0)
    assert loop.time() - started_s < 1
    assert not begun.done()
    other.execute("rollback")
    async with asyncio.timeout(10):
        await (await begun).execute("insert into orders (number) values (1)")
        await block.__aexit__(None, None, None)
    other.close()
    assert await orders(store) == [1]


async def test_a_wait_that_is_cancelled_takes_no_lock_with_it(store: SqliteStore) -> None:
    other = holder(store)
    waiting = [asyncio.create_task(store.transaction().__aenter__()) for _ in range(3)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    assert all(
        isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*waiting, return_exceptions=True)
    )
    other.close()
    async with asyncio.timeout(10):
        await submit(store)
        assert await orders(store) == []


async def test_a_cancelled_statement_is_interrupted(store: SqliteStore) -> None:
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n"
    begun = asyncio.Event()

    def tell() -> bool:
        loop.call_soon_threadsafe(begun.set)
        return False

    async def work() -> None:
        async with store.transaction() as tx:
            tx.connection.set_progress_handler(tell, 1000)
            await tx.execute(endless)

    loop = asyncio.get_running_loop()
    working = asyncio.create_task(work())
    async with asyncio.timeout(10):
        await begun.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        await submit(store)


async def test_what_would_wait_for_its_own_transaction_is_refused(store: SqliteStore) -> None:
    async with asyncio.timeout(10):
        async with store.transaction() as tx:
            for write in (submit(store), store.cancel_jobs([b""]), asyncio.gather(submit(store))):
                with pytest.raises(StoreError, match=r"submit with \.within\(tx\)"):
                    await write
            with pytest.raises(StoreError, match="another transaction inside"):
                async with store.transaction():
                    pass
            await tx.execute("insert into orders (number) values (1)")
            later = asyncio.Event()

            async def after() -> bytes:
                await later.wait()
                return await submit(store)

            begun_inside = asyncio.create_task(after())
        later.set()
        assert await begun_inside
        assert await orders(store) == [1]


async def test_transactions_on_two_files_may_be_nested(store: SqliteStore, folder: Path) -> None:
    other = await SqliteStore.open(folder / "other.db", JumpingClock(START))
    async with asyncio.timeout(10), store.transaction():
        async with other.transaction():
            await_both = [submit(store), submit(other)]
            for write in await_both:
                with pytest.raises(StoreError, match="inside"):
                    await write
        await submit(other)
        with pytest.raises(StoreError, match="inside"):
            await submit(store)
    await other.close()


@pytest.mark.parametrize("sql", ["commit", "end", "rollback", "COMMIT TRANSACTION"])
async def test_ending_it_by_hand_is_refused(store: SqliteStore, sql: str) -> None:
    async with store.transaction() as tx:
        await tx.execute("insert into orders (number) values (1)")
        with pytest.raises(InvalidError, match="the end of the block"):
            await tx.execute(sql)
        with pytest.raises(InvalidError, match="the end of the block"):
            tx.connection.execute(sql)
    assert await orders(store) == [1]


@pytest.mark.parametrize(
    "sql",
    [
        "delete from job",
        "update queue set paused = 1",
        "insert into setting values ('a', 'b')",
        "insert into migration (number, name, checksum) values (99, 'a', 'b')",
        "drop table ready",
        "alter table job add column mine text",
        "create index mine on job (state)",
        "create trigger mine after insert on job begin delete from orders; end",
        "create temp trigger mine after insert on job begin delete from orders; end",
        "create temp table Job (id)",
        "create temp view ready as select 1",
        "create table mine (a); create trigger t after insert on mine begin delete from job; end; insert into mine values (1)",
    ],
)
async def test_our_tables_are_not_his_to_change(store: SqliteStore, sql: str) -> None:
    job = await submit(store)
    with pytest.raises(InvalidError, match="is Mainspring's own"):
        async with store.transaction() as tx:
            await tx.execute(sql)
    (record,) = await store.read_jobs([job])
    assert record is not None
    async with store.transaction() as tx:
        assert await tx.execute("select count(*) from job") == [(1,)]  # looking is allowed


async def test_his_own_savepoints_work(store: SqliteStore) -> None:
    async with store.transaction() as tx:
        await tx.execute("insert into orders (number) values (1)")
        await tx.execute("savepoint operation")  # the name that ours have, too
        await tx.execute("insert into orders (number) values (2)")
        batch, lane = make_batch(START)
        await store.insert_within(tx, [batch], [lane])
        await tx.execute("rollback to operation")
        kept, lane = make_batch(START)
        await store.insert_within(tx, [kept], [lane])
    assert await orders(store) == [1]
    assert [record and record.id for record in await store.read_jobs([*batch.ids, *kept.ids])] == [None, *kept.ids]


async def test_an_insert_that_fails_leaves_the_transaction_as_it_was(store: SqliteStore) -> None:
    async with store.transaction() as tx:
        await tx.execute("insert into orders (number) values (1)")
        good, lane = make_batch(START)
        bad, _ = make_batch(START)
        with pytest.raises(apsw.ConstraintError):
            await store.insert_within(tx, [good, with_priority(bad, 99)], [lane])
        with pytest.raises(apsw.ConstraintError):
            await tx.execute("insert into orders (number) values (1)")
    assert await orders(store) == [1]
    assert await store.read_jobs(good.ids) == [None]


async def test_foreign_keys_hold(store: SqliteStore) -> None:
    async with store.transaction() as tx:
        await tx.execute("create table line (number integer references orders (number))")
    with pytest.raises(apsw.ConstraintError, match="FOREIGN KEY"):
        async with store.transaction() as tx:
            await tx.execute("insert into line values (1)")


async def test_a_parameter_too_few_or_too_many_is_refused(store: SqliteStore) -> None:
    async with store.transaction() as tx:
        for parameters in ((), (1,), (1, "a", 2)):
            with pytest.raises(InvalidError, match=r"the statement has \$2"):
                await tx.execute("insert into orders (number, note) values ($1, $2)", *parameters)
        await tx.execute("insert into orders (number, note) values (?, ?)", 1, "SQLite's own sign")
        with pytest.raises(apsw.BindingsError):
            await tx.execute("insert into orders (number, note) values (?, ?)", 2)
    assert await orders(store) == [1]


async def test_a_store_that_closes_rolls_back_what_is_open(folder: Path) -> None:
    store = await SqliteStore.open(folder / "closing.db")
    block = store.transaction()
    tx = await block.__aenter__()
    await tx.execute("create table orders (number integer)")
    elsewhere = Context()  # of a task that was there before
    waiting = asyncio.create_task(store.transaction().__aenter__(), context=elsewhere)
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreError, match="the app was closed"):
        await tx.execute("select 1")
    with pytest.raises(StoreError, match="the app was closed"):
        await block.__aexit__(None, None, None)
    for begin in (waiting, store.transaction().__aenter__()):
        with pytest.raises(StoreError, match="the store is closed"):
            await begin
    again = await SqliteStore.open(folder / "closing.db")
    async with again.transaction() as tx:
        assert await tx.execute("select name from sqlite_master where name = 'orders'") == []
    await again.close()


async def test_a_long_transaction_is_logged(
    store: SqliteStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.WARNING):
        await orders(store)
        assert caplog.text == ""
        monkeypatch.setattr(transaction, "_LONG_S", -1.0)
        await orders(store)
    assert "a transaction kept everybody else from writing" in caplog.text


async def test_a_full_disk_leaves_nothing(store: SqliteStore) -> None:
    large, lane = make_batch(START, arguments=[b'"%s"' % (b"x" * 100_000)] * 20)
    block = store.transaction()
    tx = await block.__aenter__()
    await tx.execute("insert into orders (number) values (1)")
    pages = tx.connection.pragma("page_count")
    tx.connection.pragma("max_page_count", pages + 2)
    with pytest.raises(StoreUnavailableError, match="is full"):
        await store.insert_within(tx, [large], [lane])
    assert await tx.execute("select count(*) from job") == [(0,)]  # no half of a submit is left
    with pytest.raises(StoreUnavailableError, match="is full"):
        await tx.execute("insert into orders (number, note) values (2, zeroblob(100000))")
    await assert_given_up(store, block, tx)
    async with store.transaction() as tx:
        tx.connection.pragma("max_page_count", 1 << 30)
    assert await store.read_jobs(large.ids) == [None] * 20
    await submit(store)


async def test_a_transaction_that_sqlite_has_given_up_is_told(store: SqliteStore) -> None:
    block = store.transaction()
    tx = await block.__aenter__()
    await tx.execute("insert into orders (number) values (1)")
    with pytest.raises(apsw.ConstraintError):
        await tx.execute("insert or rollback into orders (number) values (1)")
    await assert_given_up(store, block, tx)


async def assert_given_up(store: SqliteStore, block: Any, tx: Any) -> None:
    """What comes now would not be part of it, so nothing does."""
    batch, lane = make_batch(START)
    with pytest.raises(StoreUnavailableError, match="nothing was written"):
        await store.insert_within(tx, [batch], [lane])
    with pytest.raises(StoreUnavailableError, match="nothing was written"):
        await tx.execute("insert into orders (number) values (2)")
    with pytest.raises(StoreUnavailableError, match="nothing was written"):
        await block.__aexit__(None, None, None)
    assert await orders(store) == []


async def test_a_statement_that_was_cancelled_before_it_began_does_not_run(store: SqliteStore) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        go_on.wait(10)
        return False

    async with store.transaction() as tx:
        tx.connection.set_progress_handler(wait, 1)
        first = asyncio.create_task(tx.execute("insert into orders (number) values (1)"))
        await asyncio.to_thread(begun.wait, 10)
        second = asyncio.create_task(tx.execute("insert into orders (number) values (2)"))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        go_on.set()
        await first
        tx.connection.set_progress_handler(None)
    assert await orders(store) == [1]
