"""A caller's own transaction: his rows and his jobs come together, or neither does (I1, I2)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from contract.scene import START, Heard, Scene, make_batch
from mainspring.core.timer import SECOND
from mainspring.errors import InvalidError, StoreError
from mainspring.store.contract import Inserted, Store, Transaction


class Abandoned(Exception):
    """What a test leaves a block with."""


@pytest.fixture
async def orders(store: Store) -> AsyncIterator[None]:
    """A table of the caller's own."""
    async with store.transaction() as tx:
        await tx.execute("create table orders (number integer primary key, note text)")
    yield
    async with store.transaction() as tx:
        await tx.execute("drop table orders")


pytestmark = pytest.mark.usefixtures("orders")


async def insert(scene: Scene, tx: Transaction, **job: object) -> Inserted:
    batch, lane = make_batch(scene.clock.now(), **job)  # type: ignore[arg-type]
    ((answer,),) = await scene.store.insert_within(tx, [batch], [lane])
    return answer


async def order(tx: Transaction, number: int, note: str = "") -> None:
    await tx.execute("insert into orders (number, note) values ($1, $2)", number, note)


async def test_i1_rows_and_jobs_of_a_transaction_are_seen_together_when_it_commits(scene: Scene) -> None:
    heard = Heard(scene.store)
    async with scene.store.transaction() as tx:
        await order(tx, 7)
        ready = await insert(scene, tx)
        later = await insert(scene, tx, delay=10)
        assert scene.count("orders") == scene.count("job") == 0
        assert await scene.store.read_jobs([ready.id]) == [None]
        assert heard.hints == []
    assert scene.count("orders") == 1
    assert {entry.job for entry in await scene.ready()} == {ready.id}
    assert await scene.state(later.id) == "pending"
    assert [hint.at for hint in heard.hints if hint.topic == "timer"] == [START + 10 * SECOND]
    assert len(heard.take("ready")) == 1


async def test_a_transaction_that_raises_leaves_nothing_and_tells_nobody(scene: Scene) -> None:
    heard = Heard(scene.store)
    with pytest.raises(Abandoned):
        async with scene.store.transaction() as tx:
            await order(tx, 7)
            await insert(scene, tx, key="k")
            raise Abandoned
    assert scene.count("orders") == scene.count("job") == scene.count("claim") == 0
    await scene.submit_one(delay=1)  # and the next one is served
    assert [hint.topic for hint in heard.hints] == ["timer"]


async def test_a_cancelled_transaction_leaves_nothing(scene: Scene) -> None:
    inside, never = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        async with scene.store.transaction() as tx:
            await order(tx, 7)
            await insert(scene, tx)
            inside.set()
            await never.wait()

    working = asyncio.create_task(work())
    await inside.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert scene.count("orders") == scene.count("job") == 0
    await scene.submit_one()


async def test_transactions_and_submits_of_many_tasks_all_get_their_turn(scene: Scene) -> None:
    async def together(number: int) -> None:
        async with scene.store.transaction() as tx:
            await order(tx, number)
            await asyncio.sleep(0)
            await insert(scene, tx, key=f"order {number}")

    async with asyncio.timeout(30):
        await asyncio.gather(*(together(n) for n in range(20)), *(scene.submit_one() for _ in range(20)))
    assert (scene.count("orders"), scene.count("claim"), scene.count("job")) == (20, 20, 40)


async def test_a_transaction_reads_what_it_wrote(scene: Scene) -> None:
    async with scene.store.transaction() as tx:
        assert await tx.execute("select number from orders") == []
        await order(tx, 2, "costs $1")
        await order(tx, 1)
        assert await tx.execute("select number, note from orders order by number") == [(1, ""), (2, "costs $1")]
        assert await tx.execute("select note from orders where number = $2 and $1 = 1", 1, 2) == [("costs $1",)]
        assert await tx.execute("select 'for $9' from orders where number = 1") == [("for $9",)]


async def test_i2_a_key_that_is_taken_is_answered_and_the_transaction_goes_on(scene: Scene) -> None:
    taken = await scene.submit_one(key="k", kind="a")
    async with scene.store.transaction() as tx:
        assert await insert(scene, tx, key="k", kind="a") == Inserted(taken, existed=True)
        assert (await insert(scene, tx, key="k", kind="b")).conflict
        own = await insert(scene, tx, key="own", kind="a")
        assert await insert(scene, tx, key="own", kind="a") == Inserted(own.id, existed=True)
        await order(tx, 1)
    assert (scene.count("job"), scene.count("orders")) == (2, 1)


async def test_i2_a_key_of_a_transaction_that_was_rolled_back_is_free(scene: Scene) -> None:
    with pytest.raises(Abandoned):
        async with scene.store.transaction() as tx:
            await insert(scene, tx, key="k", kind="a")
            raise Abandoned
    assert (await scene.insert(key="k", kind="b"))[0].existed is False


async def test_what_a_transaction_inserted_runs_as_any_other(scene: Scene) -> None:
    session = await scene.session()
    async with scene.store.transaction() as tx:
        job = (await insert(scene, tx)).id
    await scene.assign(session)
    assert await scene.settle(session, job, 1, "completed")
    assert await scene.state(job) == "completed"


async def test_an_ended_transaction_is_of_no_use(scene: Scene) -> None:
    async with scene.store.transaction() as tx:
        await order(tx, 1)
    with pytest.raises(StoreError, match="has ended"):
        await order(tx, 2)
    with pytest.raises(StoreError, match="has ended"):
        await insert(scene, tx)
    with pytest.raises(StoreError, match="has ended"):
        _ = tx.connection
    assert (scene.count("orders"), scene.count("job")) == (1, 0)


async def test_a_parameter_too_few_or_too_many_is_refused(scene: Scene) -> None:
    for parameters in ((), (1,), (1, "a", 2)):
        with pytest.raises(InvalidError, match="parameters"):
            async with scene.store.transaction() as tx:
                await tx.execute("insert into orders (number, note) values ($1, $2)", *parameters)
    assert scene.count("orders") == 0


@pytest.mark.parametrize("thing", [None, 3, "connection", object()])
async def test_what_is_no_connection_is_refused_and_named(scene: Scene, thing: object) -> None:
    batch, lane = make_batch(START)
    with pytest.raises(InvalidError, match=r"^within: expected .*, got \w+") as caught:
        await scene.store.insert_within(thing, [batch], [lane])
    assert caught.value.field == "within"


async def test_a_transaction_of_another_store_is_refused(scene: Scene) -> None:
    other = await scene.backend.open(scene.clock)
    async with other.transaction() as tx:
        with pytest.raises(InvalidError, match="of another app"):
            await insert(scene, tx)
    await other.close()
