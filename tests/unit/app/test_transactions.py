"""Jobs and rows of one transaction, through the app: on SQLite, with and without asyncio."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import App, ConflictError, InvalidError, NotFoundError, StoreError, Transaction
from mainspring.errors import NotRunningError
from mainspring.submit import CHUNK
from mainspring.testing import ManualNode


class Shop:
    """An application with a table of its own, which its job reads."""

    def __init__(self, store: str | None = None) -> None:
        self.app = App(store)
        self.confirmed: list[int] = []
        self.confirm = self.app.job()(self._confirm)

    async def _confirm(self, number: int) -> int:
        self.confirmed.append(number)
        return number

    async def create(self) -> None:
        async with self.app.transaction() as tx:
            await tx.execute("create table orders (number integer primary key)")

    async def order(self, tx: Transaction, number: int) -> None:
        await tx.execute("insert into orders values ($1)", number)

    async def orders(self) -> list[int]:
        async with self.app.transaction() as tx:
            return [number for (number,) in await tx.execute("select number from orders order by 1")]


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_an_order_and_its_job_come_together_and_the_job_runs(shop: Shop) -> None:
    async with ManualNode(shop.app) as node:
        await shop.create()
        async with shop.app.transaction() as tx:
            await shop.order(tx, 7)
            job = await shop.confirm.within(tx).submit(7)
            assert job.id
            with pytest.raises(NotFoundError):
                await job.status()
        assert (await job.status()).state == "pending"
        await node.tick()
        assert (await job.result(), await shop.orders(), shop.confirmed) == (7, [7], [7])


async def test_an_error_takes_both_back(shop: Shop) -> None:
    async with ManualNode(shop.app) as node:
        await shop.create()
        jobs: list[Any] = []

        async def fail() -> None:
            async with shop.app.transaction() as tx:
                await shop.order(tx, 7)
                jobs.append(await shop.confirm.within(tx).submit(7))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        await node.tick()
        assert (await shop.orders(), shop.confirmed) == ([], [])
        with pytest.raises(NotFoundError):
            await jobs[0].result()


async def test_options_may_come_before_or_after(shop: Shop) -> None:
    async with ManualNode(shop.app) as node:
        async with shop.app.transaction() as tx:
            before = await shop.confirm.options(delay="1m", priority=9).within(tx).submit(1)
            after = await shop.confirm.within(tx).options(priority=9).options(delay="1m").submit(2)
        assert [(await job.status()).priority for job in (before, after)] == [9, 9]
        await node.tick()
        assert shop.confirmed == []
        await node.advance("1m")
        assert sorted(shop.confirmed) == [1, 2]


async def test_i2_keys_work_as_ever(shop: Shop) -> None:
    async with ManualNode(shop.app):
        await shop.create()
        first = await shop.confirm.options(key="k").submit(1)
        async with shop.app.transaction() as tx:
            again = await shop.confirm.options(key="k").within(tx).submit(1)
            assert (again.id, again.existed) == (first.id, True)
            with pytest.raises(ConflictError, match="'k' belongs to"):
                await shop.confirm.options(key="k").within(tx).submit(2)
            await shop.order(tx, 3)
        assert await shop.orders() == [3]


async def test_many_jobs_are_one_transaction(shop: Shop) -> None:
    many = CHUNK + 10
    async with ManualNode(shop.app, slots=many) as node:
        async with shop.app.transaction() as tx:
            jobs = await shop.app.submit_many((shop.confirm.job(n) for n in range(many)), within=tx)
            assert len({job.id for job in jobs}) == many
            assert await shop.app.store.count_jobs() == {}
        await node.tick()
        assert sorted(shop.confirmed) == list(range(many))


async def test_bad_drafts_and_arguments_are_refused_before_anything_is_written(shop: Shop) -> None:
    async with ManualNode(shop.app):
        async with shop.app.transaction() as tx:
            with pytest.raises(InvalidError, match="drafts"):
                await shop.app.submit_many([shop.confirm.job(1), "no draft"], within=tx)  # type: ignore[list-item]
            with pytest.raises(InvalidError, match=r"arguments\.number"):
                await shop.confirm.within(tx).submit("x")  # type: ignore[arg-type]
        assert await shop.app.store.count_jobs() == {}


async def test_nothing_is_no_transaction(shop: Shop) -> None:
    for function in (shop.confirm, shop.confirm.sync):
        with pytest.raises(InvalidError, match="got None"):
            function.within(None)  # type: ignore[arg-type]


async def test_a_plain_submit_inside_is_refused_instead_of_waiting_for_ever(shop: Shop) -> None:
    async with ManualNode(shop.app), asyncio.timeout(20):
        async with shop.app.transaction():
            with pytest.raises(StoreError, match=r"submit with \.within\(tx\)"):
                await shop.confirm.submit(1)
        await shop.confirm.submit(1)


async def test_an_app_that_is_not_open_has_no_transactions(shop: Shop) -> None:
    with pytest.raises(NotRunningError):
        shop.app.transaction()


# --- without asyncio


@pytest.fixture
def office(folder: Path) -> Iterator[Shop]:
    made = Shop(f"sqlite:///{folder}/test.db")
    with made.app.sync, made.app.sync.transaction() as tx:
        tx.execute("create table orders (number integer primary key)")
    with made.app.sync:
        yield made


def order(shop: Shop, number: int, *, fail: bool = False) -> str:
    with shop.app.sync.transaction() as tx:
        tx.execute("insert into orders values ($1)", number)
        job = shop.confirm.sync.within(tx).options(priority=9).submit(number)
        shop.app.sync.submit_many([shop.confirm.job(number)], within=tx)
        with pytest.raises(NotFoundError):
            job.status()
        if fail:
            raise ZeroDivisionError
    return job.id


def numbers(shop: Shop) -> list[int]:
    with shop.app.sync.transaction() as tx:
        return [number for (number,) in tx.execute("select number from orders order by 1")]


def test_without_asyncio_an_order_and_its_jobs_come_together(office: Shop) -> None:
    job = order(office, 7)
    assert office.app.sync.get(job).status().priority == 9
    assert numbers(office) == [7]
    assert office.app.sync.call(office.app.store.count_jobs()) == {("default", "pending"): 2}


def test_without_asyncio_an_error_takes_all_back(office: Shop) -> None:
    with pytest.raises(ZeroDivisionError):
        order(office, 7, fail=True)
    assert numbers(office) == []
    assert office.app.sync.call(office.app.store.count_jobs()) == {}


def test_without_asyncio_many_threads_take_turns(office: Shop) -> None:
    threads = [threading.Thread(target=order, args=(office, number)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert numbers(office) == list(range(10))
    assert office.app.sync.call(office.app.store.count_jobs()) == {("default", "pending"): 20}


def test_without_asyncio_what_would_wait_for_itself_is_refused(office: Shop) -> None:
    with office.app.sync.transaction():
        with pytest.raises(StoreError, match=r"submit with \.within\(tx\)"):
            office.confirm.sync.submit(1)
        with pytest.raises(StoreError, match="another transaction"), office.app.sync.transaction():
            pass
        with pytest.raises(StoreError, match=r"submit with \.within\(tx\)"):
            office.app.sync.submit_many([office.confirm.job(1)])
    office.confirm.sync.submit(1)


def test_without_asyncio_an_app_that_is_not_open_says_so(shop: Shop) -> None:
    with pytest.raises(NotRunningError), shop.app.sync.transaction():
        pass
