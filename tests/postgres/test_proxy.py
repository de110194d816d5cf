"""The proxy does to a connection what it is told, and to a COMMIT exactly that."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TypeAlias

import asyncpg
import pytest

from postgres.proxy import Proxy, When
from postgres.server import Server

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
LOST = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, ConnectionError)


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    with Proxy(postgres.url) as made:
        yield made


@pytest.fixture
async def direct(postgres: Server) -> AsyncIterator[Connection]:
    """A connection around the proxy, and a table."""
    connection = await asyncpg.connect(postgres.url)
    await connection.execute("create table proxied (x int)")
    yield connection
    await connection.execute("drop table proxied")
    await connection.close()


@pytest.fixture
async def through(proxy: Proxy, direct: Connection) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(proxy.url)
    yield connection
    connection.terminate()


async def count(direct: Connection) -> int:
    found: int = await direct.fetchval("select count(*) from proxied")
    return found


async def gone(direct: Connection, pid: int) -> None:
    """The server has noticed that a client has gone, and its transaction is over."""
    async with asyncio.timeout(10):
        while await direct.fetchval("select 1 from pg_stat_activity where pid = $1", pid):
            await direct.execute("select pg_sleep(0.005)")


async def test_it_passes_on_what_it_gets_in_any_size(through: Connection) -> None:
    large = "x" * 1_000_000
    assert await through.fetchval("select $1::text || '!'", large) == large + "!"
    assert await through.fetchval("select count(*) from generate_series(1, 100000)") == 100_000


async def test_a_cut_resets_every_connection_and_new_ones_work(proxy: Proxy, through: Connection) -> None:
    other = await asyncpg.connect(proxy.url)
    waiting = asyncio.create_task(through.execute("select pg_sleep(60)"))
    await other.fetchval("select 1")
    assert proxy.cut() == 2
    with pytest.raises(LOST):
        await waiting
    with pytest.raises(LOST):
        await other.fetchval("select 1")
    again = await asyncpg.connect(proxy.url)
    assert await again.fetchval("select 1") == 1
    await again.close()


async def test_refused_is_who_comes_not_who_is_there(proxy: Proxy, through: Connection) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await asyncpg.connect(proxy.url)
    assert await through.fetchval("select 1") == 1
    proxy.accept()
    again = await asyncpg.connect(proxy.url)
    await again.close()


async def test_what_is_held_goes_on_when_it_is_released(proxy: Proxy, through: Connection, direct: Connection) -> None:
    proxy.hold()
    writing = asyncio.create_task(through.execute("insert into proxied values (1)"))
    joining = asyncio.create_task(asyncpg.connect(proxy.url))
    await asyncio.wait([writing, joining], timeout=0.1)
    assert not writing.done()
    assert not joining.done()
    assert await count(direct) == 0
    proxy.release()
    await writing
    await (await joining).close()
    assert await count(direct) == 1


async def test_a_delay_is_added_to_each_direction(proxy: Proxy, through: Connection) -> None:
    proxy.delay(0.05)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await through.execute("select 1")
    assert loop.time() - begun >= 0.1


@pytest.mark.parametrize(("when", "committed"), [("before", 0), ("after", 1)])
@pytest.mark.parametrize("word", ["COMMIT", "commit;", "insert into proxied values (2); commit"])
async def test_a_commit_is_cut_before_or_after_it_takes_place(
    proxy: Proxy, through: Connection, direct: Connection, when: When, committed: int, word: str
) -> None:
    pid = through.get_server_pid()
    await through.execute("begin")
    await through.execute("insert into proxied values (1)")
    proxy.cut_at_commit(when)
    with pytest.raises(LOST):
        await through.execute(word)
    proxy.wait_for_cut()
    await gone(direct, pid)
    assert await count(direct) == committed * (2 if "insert" in word else 1)


@pytest.mark.parametrize(("when", "committed"), [("before", 0), ("after", 1)])
@pytest.mark.parametrize(
    "last", [b"x", b"S"]
)  # of the Bind's bytes; a Sync, which ends the whole, has an S at the same place
async def test_a_statement_that_leaves_its_mark_is_cut_as_a_commit_is(
    proxy: Proxy, through: Connection, direct: Connection, when: When, committed: int, last: bytes
) -> None:
    pid = through.get_server_pid()
    statement = await through.prepare('insert into proxied select length($1::bytea) /* "mark" (at, id) */')
    proxy.cut_at_commit(when)
    with pytest.raises(LOST):
        await statement.fetch(last)
    proxy.wait_for_cut()
    await gone(direct, pid)
    assert await count(direct) == committed


async def test_an_order_is_for_one_commit_of_the_client_library_too(
    proxy: Proxy, through: Connection, direct: Connection
) -> None:
    proxy.cut_at_commit("after")
    with pytest.raises(LOST):
        async with through.transaction():
            await through.execute("insert into proxied values (1)")
    again = await asyncpg.connect(proxy.url)
    async with again.transaction():
        await again.execute("insert into proxied values (2)")
    await again.close()
    assert await count(direct) == 2
    assert proxy.commits == 2


async def test_a_late_commit_leaves_the_transaction_open_until_it_is_delivered(
    proxy: Proxy, through: Connection, direct: Connection
) -> None:
    await through.execute("begin")
    await through.execute("insert into proxied values (1)")
    xid = await through.fetchval("select pg_current_xact_id()::text")
    proxy.cut_at_commit("late")
    with pytest.raises(LOST):
        await through.execute("commit")
    assert await direct.fetchval("select pg_xact_status($1::text::xid8)", xid) == "in progress"
    proxy.deliver()
    assert await direct.fetchval("select pg_xact_status($1::text::xid8)", xid) == "committed"
    assert await count(direct) == 1


async def test_a_server_that_is_away_is_a_connection_that_is_reset(fresh_postgres: Server) -> None:
    with Proxy(fresh_postgres.url) as proxy:
        fresh_postgres.stop("immediate")
        with pytest.raises(LOST):
            await asyncpg.connect(proxy.url)
        fresh_postgres.resume()
        connection = await asyncpg.connect(proxy.url)
        await connection.close()
