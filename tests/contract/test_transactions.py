"""A caller's own transaction: his rows and his jobs come together, or neither does (I1, I2)."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from contract.backends import BACKENDS, Fresh
from contract.scene import START, Heard, Scene, make_batch
from mainspring.core.timer import SECOND
from mainspring.errors import InvalidError, StoreError
from mainspring.store.contract import Inserted, Store, Transaction


@pytest.fixture(scope="session", params=[name for name in BACKENDS if "shards" not in name])
def fresh(request: pytest.FixtureRequest) -> Fresh:
    return BACKENDS[request.param](request)


class Orders:
    """A table of the caller's own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.table = f"orders_{secrets.token_hex(6)}"

    async def add(self, tx: Transaction, number: int, note: str = "") -> None:
        await tx.execute(f"insert into {self.table} (number, note) values ($1, $2)", number, note)

    async def count(self) -> int:
        async with self._store.transaction() as tx:
            ((count,),) = await tx.execute(f"select count(*) from {self.table}")
        return int(count)


@pytest.fixture
async def orders(store: Store) -> AsyncIterator[Orders]:
    made = Orders(store)
    async with store.transaction() as tx:
        await tx.execute(f"create table {made.table} (number integer primary key, note text)")
    yield made
    async with store.transaction() as tx:
        await tx.execute(f"drop table {made.table}")


async def insert(scene: Scene, tx: Transaction, **job: Any) -> Inserted:
    batch, lane = make_batch(scene.clock.now(), **job)
    ((answer,),) = await scene.store.insert_within(tx, [batch], [lane])
    return answer


@asynccontextmanager
async def abandoned(scene: Scene) -> AsyncIterator[Transaction]:
    """A transaction whose block raises at its end."""
    block = scene.store.transaction()
    yield await block.__aenter__()
    assert not await block.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)


async def test_i1_rows_and_jobs_of_a_transaction_are_seen_together_when_it_commits(
    scene: Scene, orders: Orders
) -> None:
    heard = Heard(scene.store)
    async with scene.store.transaction() as tx:
        await orders.add(tx, 7)
        ready = await insert(scene, tx)
        later = await insert(scene, tx, delay=10)
        assert scene.count("job") == 0
        assert await scene.store.read_jobs([ready.id]) == [None]
        assert heard.hints == []
    assert await orders.count() == 1
    assert {entry.job for entry in await scene.ready()} == {ready.id}
    assert await scene.state(later.id) == "pending"
    assert [hint.at for hint in heard.hints if hint.topic == "timer"] == [START + 10 * SECOND]
    assert len(heard.take("ready")) == 1


async def test_a_transaction_that_raises_leaves_nothing_and_tells_nobody(scene: Scene, orders: Orders) -> None:
    heard = Heard(scene.store)
    async with abandoned(scene) as tx:
        await orders.add(tx, 7)
        await insert(scene, tx, key="k")
    assert await orders.count() == scene.count("job") == scene.count("claim") == 0
    await scene.submit_one(delay=1)  # and the next one is served
    assert [hint.topic for hint in heard.hints] == ["timer"]


async def test_a_cancelled_transaction_leaves_nothing(scene: Scene, orders: Orders) -> None:
    inside, never = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        async with scene.store.transaction() as tx:
            await orders.add(tx, 7)
            await insert(scene, tx)
            inside.set()
            await never.wait()

    working = asyncio.create_task(work())
    await inside.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await orders.count() == scene.count("job") == 0
    await scene.submit_one()


async def test_transactions_and_submits_of_many_tasks_all_get_their_turn(scene: Scene, orders: Orders) -> None:
    async def together(number: int) -> None:
        async with scene.store.transaction() as tx:
            await orders.add(tx, number)
            await asyncio.sleep(0)
            await insert(scene, tx, key=f"order {number}")

    async with asyncio.timeout(30):
        await asyncio.gather(*(together(n) for n in range(20)), *(scene.submit_one() for _ in range(20)))
    assert (await orders.count(), scene.count("claim"), scene.count("job")) == (20, 20, 40)


async def test_a_transaction_reads_what_it_wrote(scene: Scene, orders: Orders) -> None:
    async with scene.store.transaction() as tx:
        assert await tx.execute(f"select number from {orders.table}") == []
        await orders.add(tx, 2, "costs $1")
        await orders.add(tx, 1)
        assert await tx.execute(f"select number, note from {orders.table} order by number") == [
            (1, ""),
            (2, "costs $1"),
        ]
        found = await tx.execute(f"select note from {orders.table} where number = $2 and note <> $1", "x", 2)
        assert found == [("costs $1",)]
        assert await tx.execute(f"select 'for $9' from {orders.table} where number = 1") == [("for $9",)]


async def test_i2_a_key_that_is_taken_is_answered_and_the_transaction_goes_on(scene: Scene, orders: Orders) -> None:
    taken = await scene.submit_one(key="k", kind="a")
    async with scene.store.transaction() as tx:
        assert await insert(scene, tx, key="k", kind="a") == Inserted(taken, existed=True)
        assert (await insert(scene, tx, key="k", kind="b")).conflict
        own = await insert(scene, tx, key="own", kind="a")
        assert await insert(scene, tx, key="own", kind="a") == Inserted(own.id, existed=True)
        await orders.add(tx, 1)
    assert (scene.count("job"), await orders.count()) == (2, 1)


async def test_i2_a_key_of_a_transaction_that_was_rolled_back_is_free(scene: Scene) -> None:
    async with abandoned(scene) as tx:
        await insert(scene, tx, key="k", kind="a")
    assert (await scene.insert(key="k", kind="b"))[0].existed is False


async def test_what_a_transaction_inserted_runs_as_any_other(scene: Scene) -> None:
    session = await scene.session()
    async with scene.store.transaction() as tx:
        job = (await insert(scene, tx)).id
    await scene.assign(session)
    assert await scene.settle(session, job, 1, "completed")
    assert await scene.state(job) == "completed"


async def test_an_ended_transaction_is_of_no_use(scene: Scene, orders: Orders) -> None:
    async with scene.store.transaction() as tx:
        await orders.add(tx, 1)
    with pytest.raises(StoreError, match="has ended"):
        await orders.add(tx, 2)
    with pytest.raises(StoreError, match="has ended"):
        await insert(scene, tx)
    with pytest.raises(StoreError, match="has ended"):
        _ = tx.connection
    assert (await orders.count(), scene.count("job")) == (1, 0)


@pytest.mark.parametrize("thing", [None, 3, "connection", object()])
async def test_what_is_no_connection_is_refused_and_named(scene: Scene, thing: object) -> None:
    batch, lane = make_batch(START)
    with pytest.raises(InvalidError, match=r"^within: expected .* got \w+") as caught:
        await scene.store.insert_within(thing, [batch], [lane])
    assert caught.value.field == "within"


async def test_a_transaction_of_another_store_is_refused(scene: Scene) -> None:
    other = await scene.backend.open(scene.clock)
    async with other.transaction() as tx:
        with pytest.raises(InvalidError, match="of another app"):
            await insert(scene, tx)
    await other.close()
