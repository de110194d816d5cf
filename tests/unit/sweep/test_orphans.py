"""Sessions whose node is gone: how long they are left alone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dispatch.floor import Floor, Hand, open_floor

from mainspring.errors import StoreUnavailableError
from mainspring.node import Node
from mainspring.sweep.orphans import LONG_PATIENCE_S, PATIENCE_S


class Watch:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr("mainspring.sweep.orphans.time.monotonic", lambda: self.now_s)


@pytest.fixture
async def floor(folder: Path) -> AsyncIterator[Floor]:
    async with open_floor(folder) as made:
        yield made


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


async def orphaned(floor: Floor) -> tuple[Node, Hand, bytes]:
    """A node with an API, and a worker of another node that is gone, with the job that it runs."""
    worker = await floor.worker(remote=True)
    job = await floor.submit_one()
    await worker.pull()
    other = await floor.join("second")
    other.serves_workers()
    await floor.store.end_nodes({floor.node.id: None})
    other.rescuer._looked_s = 1000.0
    other.rescuer.look()
    return other, worker, job


async def seconds(node: Node, watch: Watch, count: float) -> None:
    for _ in range(int(count)):
        watch.now_s += 1.0
        await node.rescuer.run_once()


async def test_an_orphan_has_a_lease_to_come_back(watch: Watch, floor: Floor) -> None:
    other, worker, job = await orphaned(floor)
    await seconds(other, watch, PATIENCE_S)
    assert await floor.state(job) == "assigned"
    assert await other.desk.adopt(worker.session)
    other.desk._places[worker.session].reports = 1  # it goes on talking
    await seconds(other, watch, 3 * PATIENCE_S)
    assert await floor.state(job) == "assigned"


async def test_an_orphan_that_does_not_come_back_is_ended_and_its_jobs_run_elsewhere(
    watch: Watch, floor: Floor
) -> None:
    other, worker, job = await orphaned(floor)
    await seconds(other, watch, PATIENCE_S + 2)
    record = await floor.record(job)
    assert (record.state, record.losses) == ("pending", 1)
    assert not await other.desk.adopt(worker.session)


async def test_a_node_without_an_api_gives_them_longer(watch: Watch, floor: Floor) -> None:
    other, _, job = await orphaned(floor)
    other.rescuer.orphans.patience_s = LONG_PATIENCE_S
    await seconds(other, watch, LONG_PATIENCE_S)
    assert await floor.state(job) == "assigned"
    await seconds(other, watch, 2)
    assert await floor.state(job) == "pending"


async def test_time_without_the_store_does_not_count(
    watch: Watch, floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, _, job = await orphaned(floor)
    await seconds(other, watch, PATIENCE_S - 1)

    async def fail() -> dict[bytes, bytes]:
        raise StoreUnavailableError("no connection")

    with monkeypatch.context() as broken:
        broken.setattr(floor.store, "list_orphans", fail)
        with pytest.raises(StoreUnavailableError):
            await seconds(other, watch, 1)
    await seconds(other, watch, PATIENCE_S)
    assert await floor.state(job) == "assigned"
    await seconds(other, watch, 2)
    assert await floor.state(job) == "pending"


async def test_time_in_which_the_node_stood_still_does_not_count(watch: Watch, floor: Floor) -> None:
    other, _, job = await orphaned(floor)
    await seconds(other, watch, 1)
    watch.now_s += 60.0
    await seconds(other, watch, PATIENCE_S - 3)
    assert await floor.state(job) == "assigned"
    await seconds(other, watch, 5)
    assert await floor.state(job) == "pending"


async def test_without_orphans_the_store_is_not_asked(watch: Watch, floor: Floor) -> None:
    await floor.node.rescuer.run_once()
    asked = 0
    list_orphans = floor.store.list_orphans

    async def count() -> dict[bytes, bytes]:
        nonlocal asked
        asked += 1
        return await list_orphans()

    floor.store.list_orphans = count  # type: ignore[method-assign]
    await seconds(floor.node, watch, 120)
    assert asked == 0
