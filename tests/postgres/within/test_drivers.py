"""Submitting inside a caller's own transaction on PostgreSQL: what he commits is there, what he does not commit never was."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import psycopg
import psycopg2  # type: ignore[import-untyped]
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session

from contract.scene import START, JumpingClock, make_batch
from mainspring.core.timer import SECOND
from mainspring.errors import InvalidError
from mainspring.store.contract import Inserted
from mainspring.store.postgres import PostgresStore
from postgres.server import Server
from postgres.within.drivers import BLOCKING_CALLERS, CALLERS, BlockingCaller, Caller
from postgres.within.site import Site


@pytest.fixture(params=CALLERS)
async def caller(request: pytest.FixtureRequest, site: Site) -> AsyncIterator[Caller]:
    async with CALLERS[request.param](site.url) as made:
        yield made


@pytest.fixture(params=BLOCKING_CALLERS)
def blocking(
    request: pytest.FixtureRequest, site: Site
) -> Callable[[Callable[[BlockingCaller], None]], Awaitable[None]]:
    """Runs code without asyncio on a thread of its own, with a connection that belongs there."""

    def run(work: Callable[[BlockingCaller], None]) -> None:
        with BLOCKING_CALLERS[request.param](site.url) as made:
            work(made)

    return lambda work: asyncio.to_thread(run, work)


Blocking = Callable[[Callable[[BlockingCaller], None]], Awaitable[None]]


# --- with an event loop


async def test_i1_a_job_is_there_when_its_caller_commits_and_not_before(site: Site, caller: Caller) -> None:
    first = await site.insert(caller.given)  # before any other statement: nothing may have begun yet
    await caller.execute(site.order(1))
    second = await site.insert(caller.given, delay=10)
    assert site.count() == (0, 0)
    assert await site.store.read_jobs([first.id, second.id]) == [None, None]
    await asyncio.sleep(0)
    assert site.hints == []
    await caller.commit()
    assert site.count() == (1, 2)
    assert await site.ready() == [first.id]


async def test_the_wake_up_comes_with_the_commit(site: Site, caller: Caller) -> None:
    await site.insert(caller.given)
    await site.insert(caller.given, delay=10)
    await caller.commit()
    async with asyncio.timeout(10):
        while {hint.topic for hint in site.hints} != {"ready", "timer"}:
            site.told.clear()
            await site.told.wait()
    ((partition, band, lane, rank),) = site.rows("select partition, band, lane, rank from ready")
    (ready,) = (hint for hint in site.hints if hint.topic == "ready")
    assert ready.streams == [(partition, band, lane, rank)]
    assert [hint.at for hint in site.hints if hint.topic == "timer"] == [START + 10 * SECOND]


@pytest.mark.parametrize("end", ["rollback", "vanish"])
async def test_a_rollback_and_a_death_leave_nothing(site: Site, caller: Caller, end: str) -> None:
    await caller.execute(site.order(1))
    gone = await site.insert(caller.given, key="k")
    await getattr(caller, end)()
    async with asyncio.timeout(10):
        assert await site.submit(key="k") != gone.id  # who holds a key that is not committed is waited for
    assert site.count() == (0, 1)
    assert await site.store.read_jobs([gone.id]) == [None]


async def test_i2_a_key_that_is_taken_is_answered_and_the_transaction_goes_on(site: Site, caller: Caller) -> None:
    taken = await site.submit(key="k", kind="a")
    assert await site.insert(caller.given, key="k", kind="a") == Inserted(taken, existed=True)
    assert (await site.insert(caller.given, key="k", kind="b")).conflict
    own = await site.insert(caller.given, key="own", kind="a")
    assert await site.insert(caller.given, key="own", kind="a") == Inserted(own.id, existed=True)
    await caller.execute(site.order(1))
    await caller.commit()
    assert site.count() == (1, 2)


async def test_every_part_of_a_job_gets_through(site: Site, caller: Caller) -> None:
    batches, lanes = [], []
    for options in (
        {"tags": ["a", "b"], "labels": ["gpu"], "cpu": 0.5, "timeout": 30},
        {"delay": 60, "start_by": 90, "priority": 9},
        {"key": "k", "deadline": 3600},
        {"unique": 60},
        {"arguments": [b'{"n":%d}' % n for n in range(300)], "queue": "q'uote"},
    ):
        batch, lane = make_batch(START, **options)
        batches.append(batch)
        lanes.append(lane)
    await site.store.insert_within(caller.given, batches, lanes)
    await caller.commit()
    ids = [id_ for batch in batches for id_ in batch.ids]
    records = await site.store.read_jobs(ids)
    assert [record and record.id for record in records] == ids
    for batch in batches:
        (first, *_) = await site.store.read_jobs(batch.ids)
        assert first is not None
        assert (first.options, first.arguments) == (batch.template.options, batch.arguments[0])
    assert set(await site.store.read_lanes([lane.number() for lane in lanes])) == {lane.number() for lane in lanes}
    assert site.rows("select count(*) from expiry") == [(1,)]


# --- without one


async def test_i1_without_asyncio_a_job_is_there_when_its_caller_commits(site: Site, blocking: Blocking) -> None:
    jobs: list[bytes] = []

    def work(caller: BlockingCaller) -> None:
        jobs.append(site.insert_blocking(caller.given).id)
        caller.execute(site.order(1))
        site.insert_blocking(caller.given, delay=10)
        assert site.count() == (0, 0)
        caller.commit()
        assert site.count() == (1, 2)

    await blocking(work)
    assert await site.ready() == jobs
    async with asyncio.timeout(10):
        await site.told.wait()


async def test_without_asyncio_a_rollback_and_a_death_leave_nothing(site: Site, blocking: Blocking) -> None:
    def work(caller: BlockingCaller) -> None:
        for end in (caller.rollback, caller.vanish):
            caller.execute(site.order(1))
            site.insert_blocking(caller.given, key="k")
            end()
        assert site.count() == (0, 0)

    await blocking(work)


async def test_i2_without_asyncio_a_key_that_is_taken_is_answered(site: Site, blocking: Blocking) -> None:
    taken = await site.submit(key="k", kind="a")

    def work(caller: BlockingCaller) -> None:
        assert site.insert_blocking(caller.given, key="k", kind="a") == Inserted(taken, existed=True)
        assert site.insert_blocking(caller.given, key="k", kind="b").conflict
        caller.execute(site.order(1))
        caller.commit()

    await blocking(work)
    assert site.count() == (1, 1)


# --- what is refused


async def refused(site: Site, given: object, *, blocking: bool = False) -> str:
    await site.submit()  # its lane is known from here on, so that nothing has to be asked of the store's event loop
    with pytest.raises(InvalidError) as caught:
        site.insert_blocking(given) if blocking else await site.insert(given)
    assert caught.value.field == "within"
    assert site.count() == (0, site.submitted)
    return caught.value.problem


async def test_an_asyncpg_connection_without_a_transaction_is_refused(site: Site) -> None:
    connection = await asyncpg.connect(site.url)
    assert "no open transaction" in await refused(site, connection)
    assert "async with connection.transaction()" in await refused(site, connection)
    async with connection.transaction():
        await site.insert(connection)
    await connection.close()
    assert site.count() == (0, site.submitted + 1)


async def test_a_psycopg_connection_with_autocommit_is_refused(site: Site) -> None:
    async with await psycopg.AsyncConnection.connect(site.url, autocommit=True) as connection:
        assert "no open transaction" in await refused(site, connection)
    with psycopg.connect(site.url, autocommit=True) as blocking:
        assert "no open transaction" in await refused(site, blocking, blocking=True)


async def test_a_transaction_that_has_failed_is_refused(site: Site) -> None:
    async with await psycopg.AsyncConnection.connect(site.url) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.execute("select 1 / 0")
        assert "roll it back" in await refused(site, connection)
        await connection.rollback()
        await site.insert(connection)
        await connection.commit()
    assert site.count() == (0, site.submitted + 1)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_sqlalchemy_with_autocommit_is_refused(site: Site, driver: str) -> None:
    url = site.url.replace("postgresql", f"postgresql+{driver}", 1)
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        assert "no open transaction" in await refused(site, connection)
        assert "AUTOCOMMIT" in await refused(site, connection)
    await engine.dispose()


async def test_what_sqlalchemy_connections_come_from_is_refused(site: Site) -> None:
    engine = create_async_engine(site.url.replace("postgresql", "postgresql+asyncpg", 1))
    for given in (engine, async_sessionmaker(engine), engine.sync_engine):
        assert "expected what app.transaction() gives" in await refused(site, given)
    pool = await asyncpg.create_pool(site.url, min_size=0)
    assert "got asyncpg.pool.Pool" in await refused(site, pool)
    await pool.close()
    await engine.dispose()


async def test_psycopg2_is_refused_also_beneath_sqlalchemy(site: Site) -> None:
    connection = psycopg2.connect(site.url)
    assert "use psycopg 3" in await refused(site, connection)
    assert "use psycopg 3" in await refused(site, connection, blocking=True)
    connection.close()
    engine = sqlalchemy.create_engine(site.url.replace("postgresql", "postgresql+psycopg2", 1))
    with engine.connect() as beneath:
        assert "postgresql+psycopg://" in await refused(site, beneath, blocking=True)
    engine.dispose()


async def test_a_connection_of_the_other_colour_is_refused(site: Site) -> None:
    with psycopg.connect(site.url) as connection:
        assert "would block the event loop" in await refused(site, connection)
    engine = sqlalchemy.create_engine(site.url.replace("postgresql", "postgresql+psycopg", 1))
    with Session(engine) as session:
        assert "would block the event loop" in await refused(site, session)
    engine.dispose()
    async with await psycopg.AsyncConnection.connect(site.url) as waiting:
        assert "belongs to an event loop" in await refused(site, waiting, blocking=True)
    lent = await asyncpg.connect(site.url)
    async with lent.transaction():
        assert "belongs to an event loop" in await refused(site, lent, blocking=True)
    await lent.close()


async def test_other_databases_are_refused(site: Site) -> None:
    sqlite = sqlalchemy.create_engine("sqlite://")
    with Session(sqlite) as session:
        assert "no transaction spans that and sqlite" in await refused(site, session, blocking=True)
    sqlite.dispose()
    asynchronous = create_async_engine("sqlite+aiosqlite://")
    async with AsyncSession(asynchronous) as waiting:
        assert "no transaction spans that and sqlite" in await refused(site, waiting)
    await asynchronous.dispose()


@pytest.mark.parametrize("name", ["asyncpg", "psycopg", "SQLAlchemy on asyncpg"])
async def test_a_database_without_our_schema_is_named(site: Site, name: str) -> None:
    other = await PostgresStore.open(site.url, schema=f"test_{secrets.token_hex(6)}", clock=JumpingClock(START))
    schema = other._database.q.schema
    async with site.store.transaction() as tx:
        await tx.execute(f"drop schema {schema} cascade")
    other._lanes.add(make_batch(START)[1].number())  # known from before
    async with CALLERS[name](site.url) as caller:
        batch, lane = make_batch(START)
        with pytest.raises(InvalidError, match=f"has no schema '{schema}'"):
            await other.insert_within(caller.given, [batch], [lane])
    await other.close()


async def test_a_user_without_rights_is_told_which(site: Site, postgres: Server) -> None:
    role = f"guest_{secrets.token_hex(4)}"
    with psycopg.connect(postgres.superuser_url, autocommit=True) as owner:
        owner.execute(f"create role {role} login password 'guest'".encode())
    guest = await asyncpg.connect(site.url, user=role, password="guest")
    async with CALLERS["asyncpg"](site.url):
        transaction = guest.transaction()
        await transaction.start()
        assert "grant it usage on the schema" in await refused(site, guest)
        await transaction.rollback()
    await guest.close()
    with psycopg.connect(postgres.superuser_url, autocommit=True) as owner:
        owner.execute(f"drop role {role}".encode())


async def test_errors_of_his_connection_are_his_drivers_own(site: Site) -> None:
    connection = await asyncpg.connect(site.url)
    transaction = connection.transaction(isolation="repeatable_read")
    await transaction.start()
    await connection.fetch("select 1")
    await site.submit(key="k")
    with pytest.raises(asyncpg.SerializationError):
        await site.insert(connection, key="k")
    await transaction.rollback()
    await connection.close()


async def test_a_new_lane_in_an_open_transaction_makes_nobody_wait(site: Site, caller: Caller) -> None:
    await site.insert(caller.given, kind="new")
    async with asyncio.timeout(10):
        await site.submit(kind="new")
        other = await PostgresStore.open(site.url, schema=site.store._database.q.schema, clock=JumpingClock(START))
        batch, lane = make_batch(START, kind="new")
        await other.insert_jobs([batch], [lane])
        await other.close()
    await caller.rollback()
    assert site.count() == (0, 2)
