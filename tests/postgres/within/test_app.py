"""An application on PostgreSQL: what its callers commit runs, whichever driver they use."""

import asyncio
import secrets
from collections.abc import Iterator

import psycopg
import pytest

from mainspring import App, ConflictError, NotFoundError
from mainspring.errors import InvalidError, NotRunningError
from postgres.server import Server
from postgres.within.drivers import BLOCKING_CALLERS, CALLERS


class Shop:
    """An application, and a table of its callers'."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.schema = f"test_{secrets.token_hex(6)}"
        self.table = f"orders_{secrets.token_hex(6)}"
        self.app = App(url, schema=self.schema)
        self.confirm = self.app.job()(self._confirm)
        self.ran: list[int] = []

    async def _confirm(self, number: int) -> int:
        self.ran.append(number)
        return number

    def order(self, number: int) -> str:
        return f"insert into {self.table} values ({number})"

    def orders(self) -> list[int]:
        with psycopg.connect(self.url) as connection:
            return [row[0] for row in connection.execute(f"select number from {self.table} order by 1".encode())]


@pytest.fixture
def shop(postgres: Server) -> Iterator[Shop]:
    made = Shop(postgres.url)
    with psycopg.connect(postgres.url, autocommit=True) as owner:
        owner.execute(f"create table {made.table} (number integer primary key)".encode())
        yield made
        owner.execute("set client_min_messages = warning")
        owner.execute(f"drop table {made.table}; drop schema if exists {made.schema} cascade".encode())


@pytest.mark.parametrize("driver", CALLERS)
async def test_what_a_caller_commits_runs_and_what_he_rolls_back_does_not(shop: Shop, driver: str) -> None:
    async with asyncio.timeout(60), shop.app:
        running = asyncio.create_task(shop.app.run(signals=False))
        async with CALLERS[driver](shop.url) as caller:
            await caller.execute(shop.order(1))
            gone = await shop.confirm.within(caller.given).submit(1)
            await caller.rollback()
        async with CALLERS[driver](shop.url) as caller:
            await caller.execute(shop.order(2))
            job = await shop.confirm.within(caller.given).options(priority=9).submit(2)
            (third,) = await shop.app.submit_many([shop.confirm.job(3)], within=caller.given)
            with pytest.raises(NotFoundError):
                await job.status()
            await caller.commit()
        assert (await job.result(), await third.result()) == (2, 3)
        assert (await job.status()).priority == 9
        with pytest.raises(NotFoundError):
            await gone.result()
        shop.app.stop()
        await running
    assert (shop.orders(), sorted(shop.ran)) == ([2], [2, 3])


@pytest.mark.parametrize("driver", BLOCKING_CALLERS)
def test_without_asyncio_what_a_caller_commits_is_there(shop: Shop, driver: str) -> None:
    with shop.app.sync, BLOCKING_CALLERS[driver](shop.url) as caller:
        caller.execute(shop.order(1))
        gone = shop.confirm.sync.within(caller.given).submit(1)
        caller.rollback()
        caller.execute(shop.order(2))
        job = shop.confirm.sync.within(caller.given).options(priority=9).submit(2)
        shop.app.sync.submit_many([shop.confirm.options(key="k").job(3)], within=caller.given)
        with pytest.raises(ConflictError):
            shop.confirm.sync.options(key="k").within(caller.given).submit(4)
        with pytest.raises(NotFoundError):
            job.status()
        caller.commit()
        assert job.status().priority == 9
        with pytest.raises(NotFoundError):
            gone.status()
        assert shop.app.sync.call(shop.app.store.count_jobs()) == {("default", "pending"): 2}
    assert shop.orders() == [2]


def test_without_asyncio_our_own_transaction_works_as_on_sqlite(shop: Shop) -> None:
    with shop.app.sync:
        with shop.app.sync.transaction() as tx:
            tx.execute(f"insert into {shop.table} values ($1)", 1)
            job = shop.confirm.sync.within(tx).submit(1)
            assert tx.execute(f"select number from {shop.table}") == [(1,)]
            shop.confirm.sync.submit(2)  # not part of it, and here that is allowed
        assert job.status().state == "pending"
    assert shop.orders() == [1]


def test_without_asyncio_a_connection_does_not_open_the_app(shop: Shop) -> None:
    with psycopg.connect(shop.url) as connection, pytest.raises(NotRunningError):
        shop.confirm.sync.within(connection).submit(1)


async def test_a_connection_that_would_block_is_refused(shop: Shop) -> None:
    async with shop.app:
        with psycopg.connect(shop.url) as connection, pytest.raises(InvalidError, match="would block the event loop"):
            await shop.confirm.within(connection).submit(1)  # type: ignore[arg-type]
