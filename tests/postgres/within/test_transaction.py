"""A transaction on a connection that the store lends: made for its user's statements, and its end is never in doubt."""

import asyncio
import logging
import secrets
import uuid
from collections.abc import AsyncIterator, Iterator

import asyncpg
import psycopg
import pytest

from contract.scene import START, JumpingClock, make_batch
from mainspring.errors import StoreError, StoreUnavailableError
from mainspring.store.contract import Transaction
from mainspring.store.postgres import PostgresStore
from mainspring.store.postgres.transaction import MAX_CONNECTIONS
from postgres.proxy import Proxy, When
from postgres.server import Server
from postgres.within.site import Reader, Site


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    with Proxy(postgres.url) as made:
        yield made


@pytest.fixture
async def through(site: Site, reader: Reader, proxy: Proxy) -> AsyncIterator[PostgresStore]:
    """The same store, through the proxy."""
    ((schema,),) = reader.execute("select current_schema").fetchall()
    store = await PostgresStore.open(proxy.url, schema=schema, clock=JumpingClock(START))
    yield store
    await store.close()


async def order_and_job(site: Site, store: PostgresStore, tx: Transaction) -> None:
    await tx.execute(f"insert into {site.table} values ($1)", 1)
    batch, lane = make_batch(START)
    await store.insert_within(tx, [batch], [lane])


async def test_its_user_meets_his_own_types_and_plans(site: Site) -> None:
    number = uuid.uuid4()
    async with site.store.transaction() as tx:
        assert await tx.execute("select $1::uuid, $2::jsonb, $3::timestamptz", number, '{"a": 1}', None) == [
            (number, '{"a": 1}', None)
        ]
        assert await tx.execute("select current_setting('enable_seqscan'), current_setting('plan_cache_mode')") == [
            ("on", "auto")
        ]
        assert await tx.connection.fetchval("select 1") == 1


async def test_more_transactions_than_connections_wait_for_each_other(site: Site) -> None:
    async def one(number: int) -> None:
        async with site.store.transaction() as tx:
            await tx.execute(f"insert into {site.table} values ($1)", number)
            await site.insert(tx)

    async with asyncio.timeout(30):
        await asyncio.gather(*(one(number) for number in range(3 * MAX_CONNECTIONS)))
    assert site.count() == (3 * MAX_CONNECTIONS, 3 * MAX_CONNECTIONS)


async def test_his_transactions_do_not_keep_the_store_from_working(site: Site) -> None:
    blocks = [site.store.transaction() for _ in range(MAX_CONNECTIONS)]
    for block in blocks:
        await block.__aenter__()
    async with asyncio.timeout(10):
        await asyncio.gather(*(site.submit() for _ in range(20)))
    for block in blocks:
        await block.__aexit__(None, None, None)


async def test_an_error_that_was_caught_does_not_pass_for_a_commit(site: Site) -> None:
    block = site.store.transaction()
    tx = await block.__aenter__()
    await site.insert(tx)
    with pytest.raises(asyncpg.DivisionByZeroError):
        await tx.execute("select 1 / 0")
    with pytest.raises(StoreError, match="nothing of it was written"):
        await block.__aexit__(None, None, None)
    assert site.count() == (0, 0)
    async with site.store.transaction() as tx:
        await site.insert(tx)
    assert site.count() == (0, 1)


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_an_end_inside_the_block_is_told(site: Site, end: str) -> None:
    block = site.store.transaction()
    tx = await block.__aenter__()
    await tx.connection.execute(end)
    with pytest.raises(StoreError, match="ended inside its block"):
        await block.__aexit__(None, None, None)


async def test_a_constraint_that_fails_at_the_commit_is_his_own_error(site: Site) -> None:
    async with site.store.transaction() as tx:
        await tx.execute(
            f"create table {site.table}_line (number int references {site.table} deferrable initially deferred)"
        )
    block = site.store.transaction()
    tx = await block.__aenter__()
    await site.insert(tx)
    await tx.execute(f"insert into {site.table}_line values (1)")
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await block.__aexit__(None, None, None)
    assert site.count() == (0, 0)
    async with site.store.transaction() as tx:
        await tx.execute(f"drop table {site.table}_line")


@pytest.mark.parametrize("when", ["before", "late"])
async def test_a_commit_that_never_came_is_told_as_nothing_written(
    site: Site, through: PostgresStore, proxy: Proxy, when: When
) -> None:
    block = through.transaction()
    tx = await block.__aenter__()
    await order_and_job(site, through, tx)
    proxy.cut_at_commit(when)
    with pytest.raises(StoreUnavailableError, match="nothing was written"):
        await block.__aexit__(None, None, None)
    if when == "late":
        proxy.deliver()
    assert site.count() == (0, 0)


async def test_a_commit_whose_answer_was_lost_is_a_commit(site: Site, through: PostgresStore, proxy: Proxy) -> None:
    block = through.transaction()
    tx = await block.__aenter__()
    await order_and_job(site, through, tx)
    proxy.cut_at_commit("after")
    await block.__aexit__(None, None, None)
    assert site.count() == (1, 1)


async def test_a_connection_that_breaks_inside_the_block_is_told(
    site: Site, through: PostgresStore, proxy: Proxy
) -> None:
    for caught in (False, True):
        block = through.transaction()
        tx = await block.__aenter__()
        await order_and_job(site, through, tx)
        proxy.cut()
        with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)) as broken:
            await tx.execute("select 1")
        if caught:
            with pytest.raises(StoreUnavailableError, match="broke inside the transaction"):
                await block.__aexit__(None, None, None)
        else:
            assert not await block.__aexit__(broken.type, broken.value, None)
        assert site.count() == (0, 0)
    async with through.transaction() as tx:  # and the next one has another connection
        await order_and_job(site, through, tx)
    assert site.count() == (1, 1)


class Complaints(logging.Handler):
    """Sets an event when something is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "cannot be reached" in record.getMessage():
            self.heard.set()


async def test_an_outage_before_the_block_is_waited_out(site: Site, through: PostgresStore, proxy: Proxy) -> None:
    complaints = Complaints()
    logging.getLogger("mainspring.store").addHandler(complaints)
    proxy.refuse()
    proxy.cut()
    block = through.transaction()
    begun = asyncio.create_task(block.__aenter__())
    async with asyncio.timeout(20):
        await complaints.heard.wait()
        proxy.accept()
        await order_and_job(site, through, await begun)
        await block.__aexit__(None, None, None)
    logging.getLogger("mainspring.store").removeHandler(complaints)
    assert site.count() == (1, 1)


async def test_a_store_that_closes_rolls_back_what_is_open(postgres: Server, site: Site) -> None:
    schema = f"test_{secrets.token_hex(6)}"
    store = await PostgresStore.open(postgres.url, schema=schema, clock=JumpingClock(START))
    block = store.transaction()
    tx = await block.__aenter__()
    await tx.execute(f"insert into {site.table} values (1)")
    await store.close()
    with pytest.raises(StoreError, match="the app was closed"):
        await block.__aexit__(None, None, None)
    with pytest.raises(StoreError, match="the store is closed"):
        await store.transaction().__aenter__()
    assert site.count() == (0, 0)
    with psycopg.connect(postgres.url, autocommit=True) as owner:
        owner.execute(f"set client_min_messages = warning; drop schema {schema} cascade".encode())
