"""Opening and closing: what was acknowledged is there again, what was on its way is not lost, a closed store says so."""

import asyncio

import pytest

from contract.backends import Backend
from contract.scene import START, JumpingClock, Scene, make_batch
from mainspring.errors import StoreError


async def test_i1_what_was_acknowledged_is_there_when_it_is_opened_again(backend: Backend, clock: JumpingClock) -> None:
    batch, lane = make_batch(START, key="k")
    for _ in range(2):
        store = await backend.open(clock)
        await store.insert_jobs([batch], [lane])
        await store.close()
    store = await backend.open(clock)
    assert [record and record.id for record in await store.read_jobs(batch.ids)] == batch.ids
    await store.close()


async def test_many_openers_of_a_new_database_at_once_all_get_it(backend: Backend, clock: JumpingClock) -> None:
    stores = await asyncio.gather(*(backend.open(clock) for _ in range(4)))
    batch, lane = make_batch(START)
    await stores[0].insert_jobs([batch], [lane])
    for store in stores:
        assert (await store.read_jobs(batch.ids))[0] is not None
        await store.close()


async def test_close_commits_what_was_queued(scene: Scene) -> None:
    store = await scene.backend.open(scene.clock)
    made = [make_batch(START) for _ in range(20)]
    inserting = [asyncio.create_task(store.insert_jobs([batch], [lane])) for batch, lane in made]
    for _ in range(5):
        await asyncio.sleep(0)  # they have been asked for, and no more
    await store.close()
    async with asyncio.timeout(5):
        await asyncio.gather(*inserting)
    assert None not in await scene.store.read_jobs([batch.ids[0] for batch, _ in made])


async def test_a_closed_store_refuses_work_at_once(scene: Scene) -> None:
    store = await scene.backend.open(scene.clock)
    await store.close()
    batch, lane = make_batch(START)
    async with asyncio.timeout(5):
        with pytest.raises(StoreError, match="the store is closed"):
            await store.insert_jobs([batch], [lane])
        with pytest.raises(StoreError, match="the store is closed"):
            await store.cancel_jobs(batch.ids)
