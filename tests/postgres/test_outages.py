"""The store when the database is away for a while, and when nobody tells it of changes.

What happens to a commit that is cut off is in `tests/faults/test_commits.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

import mainspring.store.postgres.database as database
from contract.backends import PostgresBackend, fresh_schema
from contract.scene import START, JumpingClock, Scene, make_batch
from mainspring.errors import StoreUnavailableError
from mainspring.store.contract import Hint
from mainspring.store.postgres import PostgresStore
from postgres.pooler import Pooler
from postgres.proxy import Proxy
from postgres.server import Server


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    with Proxy(postgres.url) as made:
        yield made


@pytest.fixture
def backend(postgres: Server) -> Iterator[PostgresBackend]:
    """Its own stores connect directly."""
    with fresh_schema(postgres.url, postgres.url) as made:
        yield made


@pytest.fixture
async def scene(backend: PostgresBackend, proxy: Proxy) -> AsyncIterator[Scene]:
    """The store under test connects through the proxy; the tables are read around it."""
    clock = JumpingClock(START)
    store = await PostgresStore.open(proxy.url, schema=backend.schema, clock=clock)
    made = Scene(backend, store, clock)
    yield made
    made.check()
    await store.close()


# --- nobody there


async def test_an_outage_that_ends_is_waited_out(scene: Scene, proxy: Proxy) -> None:
    job = await scene.submit_one()
    proxy.refuse()
    proxy.cut()
    waiting = [asyncio.create_task(scene.submit_one()), asyncio.create_task(scene.state(job))]
    done, _ = await asyncio.wait(waiting, timeout=0.2)
    assert not done
    proxy.accept()
    async with asyncio.timeout(10):
        await asyncio.gather(*waiting)
    assert scene.count("job") == 2


async def test_an_outage_that_lasts_is_an_error_that_says_that_nothing_was_written(
    scene: Scene, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE_S", 0.1)
    proxy.refuse()
    proxy.cut()
    with pytest.raises(StoreUnavailableError, match=r"cannot be reached.*nothing was written"):
        await scene.submit_one()
    proxy.accept()
    assert scene.count("job") == 0
    await scene.submit_one()


async def test_a_store_that_could_not_listen_for_a_while_looks_at_everything(scene: Scene, proxy: Proxy) -> None:
    heard: set[str] = set()
    everything = asyncio.Event()

    def listen(hint: Hint) -> None:
        heard.add(hint.topic)
        if {"ready", "timer", "settled", "cancel", "schedule", "queue"} <= heard:
            everything.set()

    scene.store.subscribe(listen)
    proxy.cut()
    async with asyncio.timeout(10):
        await everything.wait()


async def test_i1_a_server_that_crashes_and_comes_back_has_what_was_acknowledged(fresh_postgres: Server) -> None:
    store = await PostgresStore.open(fresh_postgres.url, clock=JumpingClock(START))
    made = [make_batch(START) for _ in range(10)]
    for batch, lane in made[:5]:
        await store.insert_jobs([batch], [lane])
    fresh_postgres.stop("immediate")
    submitting = [asyncio.create_task(store.insert_jobs([batch], [lane])) for batch, lane in made[5:]]
    await asyncio.wait(submitting, timeout=0.1)
    fresh_postgres.resume()
    async with asyncio.timeout(15):
        await asyncio.gather(*submitting)
    assert None not in await store.read_jobs([batch.ids[0] for batch, _ in made])
    await store.close()


# --- a pooler, and no way around it


async def test_behind_a_pooler_others_are_heard_by_looking_now_and_then(
    backend: PostgresBackend, pooler: Pooler
) -> None:
    clock = JumpingClock(START)
    pooled = await PostgresStore.open(pooler.url, schema=backend.schema, clock=clock)
    told = asyncio.Event()
    pooled.subscribe(lambda hint: told.set())
    direct = await backend.open(clock)
    batch, lane = make_batch(START)
    await direct.insert_jobs([batch], [lane])
    async with asyncio.timeout(10):
        await told.wait()
    assert (await pooled.read_jobs(batch.ids))[0] is not None
    await direct.close()
    await pooled.close()
