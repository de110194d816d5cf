"""Whoever puts a job where others must look says so, when it has committed."""

import asyncio

import pytest

from contract.scene import START, Heard, Scene
from mainspring.core.timer import SECOND
from mainspring.store.contract import Change, Hint, Stream


def covers(hints: list[Hint], scene: Scene) -> bool:
    """Every ready job lies in a stream that a hint named, at or after the rank it named."""
    named: dict[Stream, int] = {}
    for partition, band, lane, rank in (stream for hint in hints for stream in hint.streams):
        named[partition, band, lane] = min(rank, named.get((partition, band, lane), rank))
    rows = scene.rows("select partition, band, lane, rank from ready")
    return bool(rows) and all(named.get((p, band, lane), rank + 1) <= rank for p, band, lane, rank in rows)


async def test_a_submit_of_any_size_names_the_streams_of_its_jobs(scene: Scene) -> None:
    session = await scene.session()
    for count in (1, 3, 64, 65, 300):
        heard = Heard(scene.store)
        await scene.submit(count)
        assert covers(heard.take("ready"), scene)
        await scene.assign(session)


async def test_a_timer_names_the_earliest_due_time(scene: Scene) -> None:
    heard = Heard(scene.store)
    await scene.submit(2, delay=30)
    assert {hint.at for hint in heard.take("timer")} == {START + 30 * SECOND}
    await scene.submit_one(delay=30, start_by=10)
    assert {hint.at for hint in heard.take("timer")} == {START + 10 * SECOND}
    await scene.submit_one()
    assert heard.take("timer") == []


async def test_every_way_into_ready_sends_a_hint(scene: Scene) -> None:
    session = await scene.session()
    heard = Heard(scene.store)

    async def expect_ready(*jobs: bytes) -> None:
        assert {ready.job for ready in await scene.ready()} == set(jobs)
        assert covers(heard.take("ready"), scene)
        await scene.assign(session)
        heard.hints.clear()

    timed = await scene.submit_one(delay=1)
    scene.clock.advance(1)
    await scene.ripen()
    await expect_ready(timed)
    await scene.settle(session, timed, 1, "pending", due_at=START)
    await expect_ready(timed)
    await scene.fail(session, timed, 2)
    await scene.replay(timed)
    await expect_ready(timed)
    await scene.store.end_sessions([session])
    session = await scene.session()
    heard.hints.clear()
    await scene.store.rescue_attempts(10)
    await expect_ready(timed)
    await scene.settle(session, timed, 4, "completed")
    moved = await scene.submit_one()
    heard.hints.clear()
    await scene.store.change_jobs([Change(moved, priority=9)])
    await expect_ready(moved)
    parent, child = await scene.chain(2)
    await scene.assign(session)
    heard.hints.clear()
    await scene.settle(session, parent, 1, "completed")
    await expect_ready(child)
    await scene.put_schedule("s")
    fired = await scene.fire("s", START)
    await expect_ready(*fired)


async def test_every_way_into_the_timers_sends_a_hint(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    heard = Heard(scene.store)
    await scene.fail(session, job, 1, again_in_s=20)
    assert [hint.at for hint in heard.take("timer")] == [START + 20 * SECOND]
    await scene.store.change_jobs([Change(job, priority=9)])
    assert [hint.at for hint in heard.take("timer")] == [START + 20 * SECOND]


async def test_ends_cancels_and_definitions_are_told(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    heard = Heard(scene.store)
    await scene.store.cancel_jobs([job])
    assert len(heard.take("cancel")) == 1
    await scene.settle(session, job, 1, "cancelled")
    assert len(heard.take("settled")) == 1
    waiting = await scene.submit_one()
    heard.hints.clear()
    await scene.store.cancel_jobs([waiting])
    assert len(heard.take("settled")) == 1
    await scene.limit("queue/default/q", concurrency=1)
    assert len(heard.take("queue")) == 1
    await scene.limit("kind/k", concurrency=1)
    assert len(heard.take("queue")) == 1
    await scene.limit("tenant/acme", concurrency=1)
    assert len(heard.take("tenant")) == 1
    await scene.put_schedule("s")
    assert len(heard.take("schedule")) == 1
    await scene.fire("s", START)
    assert len(heard.take("schedule")) == 1


async def test_i13_a_rescue_tells_those_who_wait_for_a_limit(scene: Scene) -> None:
    session = await scene.session()
    await scene.started(session)
    await scene.store.end_sessions([session])
    heard = Heard(scene.store)
    await scene.store.rescue_attempts(10)
    assert len(heard.take("settled")) == 1


async def test_who_unsubscribes_hears_nothing_more(scene: Scene) -> None:
    hints: list[Hint] = []
    unsubscribe = scene.store.subscribe(hints.append)
    await scene.submit_one()
    heard = len(hints)
    unsubscribe()
    await scene.submit_one()
    assert len(hints) == heard > 0


async def test_a_commit_in_one_store_is_heard_by_another_on_the_same_database(scene: Scene) -> None:
    other = await scene.backend.open(scene.clock)
    told = asyncio.Event()
    hints: list[Hint] = []

    def listen(hint: Hint) -> None:
        hints.append(hint)
        told.set()

    other.subscribe(listen)
    for count in (1, 300):
        told.clear()
        hints.clear()
        job = (await scene.submit(count))[0]
        async with asyncio.timeout(10):
            while not covers(hints, scene):  # one hint from each database that got some of them
                await told.wait()
                told.clear()
        assert hints[0].topic == "ready"
        assert (await other.read_jobs([job]))[0] is not None
    await other.close()


async def test_a_store_that_joins_while_others_work_is_heard_of_too(scene: Scene) -> None:
    first = await scene.backend.open(scene.clock)
    await scene.submit_one()  # the peers are known now
    second = await scene.backend.open(scene.clock)
    heard = [asyncio.Event(), asyncio.Event()]
    first.subscribe(lambda hint: heard[0].set())
    second.subscribe(lambda hint: heard[1].set())
    await scene.submit_one()
    async with asyncio.timeout(10):
        await heard[0].wait()
        await heard[1].wait()
    await second.close()
    await scene.submit_one()  # and one that left is no trouble
    await first.close()


@pytest.mark.parametrize("turns", range(4))
async def test_a_store_that_is_closed_right_after_a_write_is_heard(scene: Scene, turns: int) -> None:
    """As by a program that submits one job and ends. `turns` of the event loop: what it has begun to say, it says."""
    told = asyncio.Event()
    other = await scene.backend.open(scene.clock)
    scene.store.subscribe(lambda hint: told.set())
    await Scene(scene.backend, other, scene.clock).submit_one()
    for _ in range(turns):
        await asyncio.sleep(0)
    await other.close()
    async with asyncio.timeout(10):
        await told.wait()
