"""The janitor: what nobody needs any more goes, and nothing else, under a clock that stands still."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dispatch.floor import Floor, open_floor

from mainspring.core import objects
from mainspring.core.partition import make_id
from mainspring.core.timer import SECOND
from mainspring.errors import StoreUnavailableError
from mainspring.objects.place import ObjectPlace
from mainspring.runtime.gauges import Gauges
from mainspring.sweep.janitor import AGAIN_S, BATCH, LOOK_S, ROUND_S, Janitor

DAY_MS = 86_400_000


class Shed:
    """A janitor in charge, its place and its floor."""

    def __init__(self, floor: Floor, place: ObjectPlace) -> None:
        self.floor = floor
        self.place = place
        self.gauges = Gauges()
        self.janitor = Janitor(floor.store, place, floor.clock, self.gauges)
        self.janitor.own([0, 3])

    async def fill(self, job: bytes) -> None:
        for name in (objects.logs(1, 1), objects.output(1, "plan"), objects.output(2, "plan")):
            await self.place.put(job, name, b"x")

    async def has(self, job: bytes) -> list[str]:
        return [found.name for found in await self.place.find(job)]

    async def round(self) -> int:
        """Until it rests; how many steps."""
        steps = 1
        while await self.janitor.run_once() == 0:
            steps += 1
        return steps


@pytest.fixture
async def shed(folder: Path) -> AsyncIterator[Shed]:
    async with open_floor(folder) as floor:
        yield Shed(floor, ObjectPlace(str(folder / "objects"), floor.store.agree))


def unknown(number: int, day: int = 20_000) -> bytes:
    return make_id(day * DAY_MS, 7, number)


async def test_objects_of_jobs_that_are_gone_go_and_those_of_others_stay(shed: Shed) -> None:
    waiting, done = await shed.floor.submit_one(delay=1e6), await shed.floor.submit_one()
    gone = [unknown(1), unknown(2), unknown(1, 20_001)]
    for job in (waiting, done, *gone):
        await shed.fill(job)
    assert await shed.round() == 3  # days
    assert [len(await shed.has(job)) for job in (waiting, done, *gone)] == [3, 3, 0, 0, 0]
    assert shed.gauges.removed == 9
    assert len(await shed.place.days()) == 1


async def test_a_round_is_bounded_steps_and_the_next_one_comes_hours_later(shed: Shed) -> None:
    for number in range(2 * BATCH + 1):
        await shed.place.put(unknown(number), objects.logs(1, 1), b"")
    assert await shed.janitor.run_once() == 0
    assert shed.gauges.removed == BATCH
    assert await shed.round() == 2
    assert shed.gauges.removed == 2 * BATCH + 1
    await shed.fill(unknown(1))
    shed.floor.clock.advance(ROUND_S - 5)
    assert await shed.janitor.run_once() == 5.0
    shed.floor.clock.advance(5)
    await shed.round()
    assert await shed.has(unknown(1)) == []
    await shed.fill(unknown(1))
    shed.floor.clock.jump(-30 * 86_400)
    await shed.round()
    assert await shed.has(unknown(1)) == []


async def test_results_whose_time_is_over_go_with_their_files(shed: Shed) -> None:
    store, clock = shed.floor.store, shed.floor.clock
    session = await shed.floor.session()
    soon, later = [await shed.floor.started(session) for _ in range(2)]
    for job, after_s in ((soon, 10), (later, 1000)):
        await shed.fill(job)
        assert await shed.floor.settle(
            session, job, 1, "completed", result=b"1", outputs=b"[]", expires_at=clock.now() + after_s * SECOND
        )
    await shed.round()
    clock.advance(10)
    assert await shed.janitor.run_once() == LOOK_S
    assert [len(await shed.has(job)) for job in (soon, later)] == [1, 3]
    assert await shed.has(soon) == [objects.logs(1, 1)]
    assert [ended and ended.result for ended in await store.read_ended([soon, later])] == [b"", b"1"]
    assert await shed.janitor.run_once() == LOOK_S


async def test_one_node_does_it(shed: Shed) -> None:
    await shed.fill(unknown(1))
    shed.janitor.own([1, 2])
    assert await shed.janitor.run_once() == LOOK_S
    assert len(await shed.has(unknown(1))) == 3


async def test_where_nobody_stores_objects_nothing_is_made(shed: Shed, folder: Path) -> None:
    assert await shed.janitor.run_once() == LOOK_S
    assert not (folder / "objects").exists()


async def test_a_place_that_cannot_be_used_is_waited_for(shed: Shed, monkeypatch: pytest.MonkeyPatch) -> None:
    await shed.fill(unknown(1))
    with monkeypatch.context() as patch:

        async def refuse(_: str) -> list[bytes]:
            raise StoreUnavailableError("no")

        patch.setattr(shed.place, "jobs_of", refuse)
        assert await shed.janitor.run_once() == AGAIN_S
    await shed.round()
    assert await shed.has(unknown(1)) == []


async def test_a_place_of_another_installation_is_left_alone(shed: Shed) -> None:
    theirs = ObjectPlace(shed.place.url)
    await theirs._make_mark("somebody else")
    await theirs.put(unknown(1), objects.logs(1, 1), b"theirs")
    assert await shed.janitor.run_once() == AGAIN_S
    assert len(await theirs.find(unknown(1))) == 1
