"""Waiting jobs are changed, ended ones are replayed: by compare-and-set, and in the right place of the order."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import json, structs

from contract.scene import FAILURE, START, Heard, Scene
from mainspring.core.job import Options, Resources
from mainspring.core.lane import Lane
from mainspring.core.rank import Band, rank_of
from mainspring.core.timer import HOUR, SECOND
from mainspring.store.contract import UNCHANGED, Change, Pick

Wait = Callable[[Scene], Awaitable[bytes]]

STATES: dict[str, Wait] = {}


def reaches(wait: Wait) -> Wait:
    STATES[wait.__name__] = wait
    return wait


@reaches
async def pending(scene: Scene) -> bytes:
    return await scene.submit_one()


@reaches
async def blocked(scene: Scene) -> bytes:
    return (await scene.chain(2))[1]


@reaches
async def assigned(scene: Scene) -> bytes:
    return await scene.started(await scene.session())


@reaches
async def running(scene: Scene) -> bytes:
    job = await assigned(scene)
    await scene.store.mark_running([(job, 1)])
    return job


@reaches
async def completed(scene: Scene) -> bytes:
    session = await scene.session()
    job = await scene.started(session)
    await scene.settle(session, job, 1, "completed")
    return job


@reaches
async def failed(scene: Scene) -> bytes:
    session = await scene.session()
    job = await scene.started(session)
    await scene.fail(session, job, 1)
    return job


@reaches
async def cancelled(scene: Scene) -> bytes:
    job = await scene.submit_one()
    await scene.store.cancel_jobs([job])
    return job


async def change(scene: Scene, job: bytes, **what: Any) -> str | None:
    (answer,) = await scene.store.change_jobs([Change(job, **what)])
    return answer


async def order(scene: Scene) -> list[bytes]:
    return [ready.job for ready in await scene.ready()]


# --- who is changed


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("replay", [False, True])
async def test_i5_a_change_is_for_pending_jobs_and_a_replay_for_failed_and_cancelled_ones(
    scene: Scene, state: str, replay: bool
) -> None:
    job = await STATES[state](scene)
    before = await scene.everything()
    answer = await change(scene, job, replay=replay, priority=9, arguments=b'{"x":2}', due_at=START + SECOND)
    if state in (("failed", "cancelled") if replay else ("pending",)):
        record = await scene.record(job)
        assert answer == record.state == "pending"
        assert (record.priority, record.arguments, record.due_at) == (9, b'{"x":2}', START + SECOND)
    else:
        assert answer == (UNCHANGED if state == "pending" else state)
        assert await scene.everything() == before


async def test_i4_a_change_names_the_attempt_it_was_made_for(scene: Scene) -> None:
    session = await scene.session()
    tried, dead = await scene.started(session), await scene.started(session)
    await scene.fail(session, tried, 1, again_in_s=30)
    await scene.fail(session, dead, 1)
    before = await scene.everything()
    assert await change(scene, tried, attempt=0, priority=9) == UNCHANGED
    assert await change(scene, dead, attempt=2, replay=True) == "failed"
    assert await scene.everything() == before
    assert await change(scene, tried, attempt=1, priority=9) == "pending"
    assert await change(scene, dead, attempt=1, replay=True) == "pending"


async def test_each_change_has_its_answer_in_the_order_asked(scene: Scene) -> None:
    session = await scene.session()
    live, waiting = await scene.started(session), await scene.submit_one()
    changes = [Change(job, priority=7) for job in (b"\0" * 16, live, waiting)]
    assert await scene.store.change_jobs(changes) == [None, "assigned", "pending"]
    assert await scene.store.change_jobs([]) == []


async def test_i5_of_two_replays_at_once_one_is_made(scene: Scene) -> None:
    job = await failed(scene)
    answers = await asyncio.gather(*(change(scene, job, replay=True, arguments=b"%d" % n) for n in range(4)))
    assert sorted(str(answer) for answer in answers) == ["pending", *[UNCHANGED] * 3]
    assert (await scene.record(job)).arguments == b"%d" % answers.index("pending")


# --- what is changed


async def test_what_is_not_named_stays(scene: Scene) -> None:
    job = await scene.submit_one(priority=7, delay=60, tags=["x"], queue="q", timeout=5, key="k")
    before = await scene.record(job)
    assert await change(scene, job) == "pending"
    assert await scene.record(job) == before
    assert await change(scene, job, arguments=b'{"y":1}') == "pending"
    assert await scene.record(job) == structs.replace(before, arguments=b'{"y":1}')


async def test_a_worker_gets_the_arguments_and_options_that_were_changed(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.submit_one(retries=1)
    await scene.assign(session)  # nobody asks what it must know: it comes back unseen
    await scene.settle(session, job, 1, "pending")
    options = structs.replace((await scene.record(job)).options, timeout_s=7.0)
    assert await change(scene, job, arguments=b'{"new":true}', options=json.encode(options)) == "pending"
    await scene.assign(session)
    (spec,) = await scene.store.read_specs([job])
    assert (spec.arguments, json.decode(spec.options, type=Options)) == (b'{"new":true}', options)


async def test_a_replay_takes_everything_that_a_change_takes(scene: Scene) -> None:
    job = await failed(scene)
    record = await scene.record(job)
    lane = Lane("default", "other", "work", Resources(cpu=2.0))
    options = structs.replace(record.options, resources=Resources(cpu=2.0), retries=9)
    due_at = START + 40 * SECOND
    what = {"arguments": b"[3]", "lane": lane, "options": json.encode(options), "priority": 10, "due_at": due_at}
    assert await change(scene, job, replay=True, attempt=1, **what) == "pending"
    changed = await scene.record(job)
    assert (changed.queue, changed.lane, changed.options, changed.arguments) == (
        "other",
        lane.number(),
        options,
        b"[3]",
    )
    assert (changed.priority, changed.due_at, changed.rank) == (10, due_at, rank_of(due_at, 10))
    assert (changed.failures, changed.attempt, changed.finished_at, changed.reason) == (0, 1, None, None)
    assert await scene.ready() == []
    scene.clock.advance(40)
    await scene.ripen()
    assert [(ready.job, ready.lane) for ready in await scene.ready()] == [(job, lane.number())]


async def test_a_band_that_is_not_named_is_what_priority_and_complexity_make_it(scene: Scene) -> None:
    job = await scene.submit_one(priority=5, complexity=5)
    assert (await scene.record(job)).band == Band.MEDIUM
    await change(scene, job, priority=10)
    assert (await scene.record(job)).band == Band.HIGH
    heavy = structs.replace((await scene.record(job)).options, complexity=10)
    await change(scene, job, priority=1, options=json.encode(heavy))
    assert (await scene.record(job)).band == Band.LOW
    await change(scene, job, band=int(Band.HIGH))
    assert (await scene.record(job)).band == Band.HIGH
    session = await scene.session()
    await scene.assign(session)
    await scene.fail(session, job, 1, again_in_s=0)
    assert (await scene.record(job)).band == Band.HIGH


# --- its place


async def test_i8_a_job_moves_between_later_and_now_with_the_rank_it_would_have_had(scene: Scene) -> None:
    first, job, last = await scene.submit(3)
    heard = Heard(scene.store)
    assert await change(scene, job, due_at=START + HOUR) == "pending"
    assert {hint.at for hint in heard.take("timer")} == {START + HOUR}
    assert await order(scene) == [first, last]
    assert (await scene.record(job)).rank == rank_of(START + HOUR, 5)
    assert await scene.ripen() == 0
    assert await change(scene, job, due_at=START - SECOND) == "pending"
    assert heard.take("ready") != []
    assert await order(scene) == [job, first, last]
    assert (await scene.record(job)).rank == rank_of(START - SECOND, 5)
    assert scene.count("timer") == 0


async def test_i8_a_job_that_was_moved_to_later_does_not_start_by_what_was_read_before(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.submit_one()
    seen = await scene.ready()
    await change(scene, job, due_at=START + HOUR)
    assert (await scene.assign_stale(session, seen)).lost == seen
    assert await scene.state(job) == "pending"


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("queues", [["default"], ["default", "other"]])
async def test_i13_a_job_that_changed_its_lane_does_not_start_by_what_was_read_in_the_old_one(
    scene: Scene, queues: list[str], limited: bool
) -> None:
    """It has other needs now and falls under other limits, which those who read it before have not looked at."""
    session = await scene.session()
    if limited:
        await scene.limit("queue/default/default", concurrency=5)
    limits = (("queue/default/default", ""),) if limited else ()
    moved, *others = [job for queue in queues for job in await scene.submit(2, queue=queue)]
    seen = await scene.ready()
    lane = Lane("default", "narrow", "work")
    assert await change(scene, moved, lane=lane) == "pending"
    again = Lane("default", "narrower", "work")
    assert await change(scene, moved, lane=again) == "pending"
    (answer,) = await scene.store.assign_jobs([Pick(session, seen, limits)])
    assert ({won.job for won in answer.won}, [lost.job for lost in answer.lost]) == ({*others}, [moved])
    (ready,) = await scene.ready()
    assert (ready.job, ready.lane) == (moved, again.number())
    assert (await scene.store.read_lanes([again.number()])) == {again.number(): again}
    assert [won.job for won in (await scene.assign(session)).won] == [moved]


async def test_a_job_that_must_have_started_by_another_time_expires_then(scene: Scene) -> None:
    job, other = await scene.submit(2, start_by=10)
    sooner = structs.replace((await scene.record(job)).options, start_by=START + 5 * SECOND)
    heard = Heard(scene.store)
    await change(scene, job, options=json.encode(sooner))
    assert START + 5 * SECOND in {hint.at for hint in heard.take("timer")}
    never = structs.replace((await scene.record(other)).options, start_by=None)
    await change(scene, other, options=json.encode(never))
    scene.clock.advance(5)
    await scene.ripen()
    assert await scene.state(job) == "cancelled"
    scene.clock.advance(3600)
    await scene.ripen()
    assert (await scene.state(other), scene.count("expiry")) == ("pending", 0)
    assert await scene.prune(1) == 1


async def test_i9_a_replayed_job_of_a_schedule_counts_as_active_again(scene: Scene) -> None:
    job = await scene.fire_once("s")
    await scene.store.cancel_jobs([job])
    assert (await scene.schedule("s")).queued == 0
    await change(scene, job, replay=True, due_at=START + HOUR)
    assert (await scene.schedule("s")).queued == 1


# --- replays


@pytest.mark.parametrize("ended", ["failed", "cancelled"])
async def test_i5_failed_and_cancelled_jobs_are_replayed_as_new_attempts(scene: Scene, ended: str) -> None:
    session = await scene.session()
    job = await scene.started(session)
    await scene.settle(session, job, 1, ended, failure=FAILURE, reason="mine", counts="failure")
    scene.clock.advance(30)
    assert await scene.replay(job) == ["pending"]
    record = await scene.record(job)
    assert (record.state, record.failures, record.losses, record.attempt) == ("pending", 0, 0, 1)
    assert (record.due_at, record.finished_at, record.reason) == (START + 30 * SECOND, None, None)
    (won,) = (await scene.assign(session)).won
    assert won.attempt == 1
    assert await scene.settle(session, job, 2, "completed", result=b"7")
    assert [failure.attempt for failure in await scene.store.read_failures(job)] == [1]


async def test_i5_nothing_else_is_replayed(scene: Scene) -> None:
    session = await scene.session()
    done = await scene.started(session)
    await scene.settle(session, done, 1, "completed")
    waiting, live = await scene.submit_one(), await scene.started(session)
    answers = await scene.store.change_jobs([Change(job, replay=True) for job in (done, waiting, live, b"\0" * 16)])
    assert answers == ["completed", UNCHANGED, "assigned", None]
    assert scene.count("ready") == 1


async def test_i12_a_replay_forgets_the_old_cancel_request(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    await scene.store.cancel_jobs([job])
    await scene.settle(session, job, 1, "cancelled", reason="requested")
    await scene.replay(job)
    assert not (await scene.record(job)).cancelling
    await scene.assign(session, [job])
    assert await scene.store.list_cancelling(session) == []
    await scene.fail(session, job, 2, again_in_s=0)
    assert await scene.state(job) == "pending"


# --- priorities


async def test_another_priority_moves_a_waiting_job_in_the_order(scene: Scene) -> None:
    first, second = await scene.submit(2)
    later = await scene.submit_one(delay=60)
    moved = [Change(job, priority=9) for job in (second, later)]
    assert await scene.store.change_jobs(moved) == ["pending", "pending"]
    assert [ready.job for ready in await scene.ready()] == [second, first]
    assert [(await scene.record(job)).priority for job in (first, second, later)] == [5, 9, 9]
    assert (await scene.record(later)).due_at == START + 60 * SECOND
    scene.clock.advance(60)
    await scene.ripen()
    assert [ready.job for ready in await scene.ready()] == [second, later, first]


async def test_i5_jobs_that_do_not_wait_keep_their_priority(scene: Scene) -> None:
    session = await scene.session()
    live, done = await scene.started(session), await scene.started(session)
    await scene.settle(session, done, 1, "completed")
    answers = await scene.store.change_jobs([Change(job, priority=9) for job in (live, done, b"\0" * 16)])
    assert answers == ["assigned", "completed", None]
    assert [(await scene.record(job)).priority for job in (live, done)] == [5, 5]


async def test_i3_a_job_moved_since_it_was_read_leaves_nothing_behind_when_it_starts(scene: Scene) -> None:
    session = await scene.session()
    moved, replayed = await scene.submit(2)
    stale = await scene.ready()
    scene.clock.advance(1)
    await scene.store.change_jobs([Change(moved, priority=10)])
    await scene.store.cancel_jobs([replayed])
    await scene.replay(replayed)
    await scene.assign_stale(session, stale)
    scene.check()
    await scene.assign(session)
    assert await scene.ready() == []
    assert [await scene.state(job) for job in (moved, replayed)] == ["assigned", "assigned"]
