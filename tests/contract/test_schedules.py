"""Stored schedules and their firing: I2, I9, I17."""

import asyncio
from itertools import islice

from msgspec import structs

from contract.scene import START, Scene, make_schedule
from mainspring.core.job import Claim
from mainspring.core.partition import SLOTS, slot_for
from mainspring.core.timer import SECOND
from mainspring.store.contract import Firing, JobFilter, MissedRecord

MINUTE = 60 * SECOND


# --- definitions


async def test_a_schedule_reads_back_as_it_was_put(scene: Scene) -> None:
    wanted = make_schedule("s", definition=b'{"x":1}', origin="code", runs=3, next_at=None)
    assert await scene.store.put_schedules([wanted]) == [True]
    assert await scene.schedule("s") == structs.replace(wanted, version=1)
    assert await scene.store.read_schedules(["default/none", "default/s"]) == [None, await scene.schedule("s")]


async def test_i9_a_change_wins_only_with_the_version_it_was_read_with(scene: Scene) -> None:
    first = await scene.put_schedule("s")
    assert await scene.store.put_schedules([structs.replace(first, paused=True)]) == [True]
    changed = await scene.schedule("s")
    assert (changed.paused, changed.version) == (True, 2)
    for version in (0, 1, 3):
        assert await scene.store.put_schedules([structs.replace(first, version=version)]) == [False]
    assert await scene.schedule("s") == changed


async def test_one_stale_change_leaves_the_others_of_its_call_alone(scene: Scene) -> None:
    a = await scene.put_schedule("a")
    answers = await scene.store.put_schedules([structs.replace(a, version=9), make_schedule("b")])
    assert answers == [False, True]
    assert [record.name for record in await scene.store.list_schedules()] == ["a", "b"]


async def test_schedules_are_listed_by_tenant_and_deleted_by_id(scene: Scene) -> None:
    await scene.store.put_schedules([make_schedule("a"), make_schedule("b", tenant="acme", id="acme/b")])
    assert [record.id for record in await scene.store.list_schedules("acme")] == ["acme/b"]
    assert await scene.store.delete_schedules(["acme/b", "acme/none"]) == 1
    assert [record.id for record in await scene.store.list_schedules()] == ["default/a"]


async def test_i8_due_are_those_whose_time_has_come_and_that_are_not_paused(scene: Scene) -> None:
    for name, next_at, paused in (("late", 30, False), ("now", 60, False), ("soon", 61, False), ("paused", 10, True)):
        await scene.put_schedule(name, next_at=START + next_at * SECOND, paused=paused)
    await scene.put_schedule("over", next_at=None)
    assert await scene.store.due_schedules(10) == ([], START + 30 * SECOND)
    scene.clock.advance(60)
    due, following = await scene.store.due_schedules(10)
    assert ([record.name for record in due], following) == (["late", "now"], START + 61 * SECOND)
    assert [record.name for record in (await scene.store.due_schedules(1))[0]] == ["late"]


# --- firing


async def test_i9_a_firing_advances_the_schedule_and_makes_its_jobs_in_one_step(scene: Scene) -> None:
    record = await scene.put_schedule("s")
    scene.clock.advance(60)
    step = scene.firing(record, [START + MINUTE])
    assert await scene.store.fire_schedules([step]) == [True]
    after = await scene.schedule("s")
    assert (after.version, after.watermark_at, after.runs) == (2, START + MINUTE, 1)
    assert (after.next_at, after.queued, after.active) == (START + 2 * MINUTE, 1, 0)
    (job,) = await scene.store.list_jobs(JobFilter(schedule="default/s"), before=None, limit=10)
    assert (job.id, job.options.occurrence_at) == (step.jobs[0].ids[0], START + MINUTE)


async def test_i9_of_many_nodes_that_fire_at_once_one_makes_the_job(scene: Scene) -> None:
    record = await scene.put_schedule("s")
    other = await scene.backend.open(scene.clock)
    steps = [scene.firing(record, [START + MINUTE]) for _ in range(6)]
    stores = [scene.store, other] * 3
    answers = await asyncio.gather(*(s.fire_schedules([step]) for s, step in zip(stores, steps, strict=True)))
    await other.close()
    assert sorted(answer[0] for answer in answers) == [False] * 5 + [True]
    assert scene.count("job") == scene.count("occurrence") == scene.count("active") == 1
    assert (await scene.schedule("s")).runs == 1


async def test_i9_a_firing_with_an_old_version_writes_nothing_at_all(scene: Scene) -> None:
    record = await scene.put_schedule("s")
    running = await scene.fire("s", START)
    before = await scene.everything()
    missed = [MissedRecord("default/s", START, START, 1, "overlap")]
    step = scene.firing(record, [START + MINUTE], cancel_active=True, missed=missed)
    assert await scene.store.fire_schedules([step]) == [False]
    assert await scene.everything() == before
    assert await scene.state(running[0]) == "pending"


async def test_i9_an_occurrence_that_has_its_job_gets_no_second_one(scene: Scene) -> None:
    await scene.put_schedule("s")
    (job,) = await scene.fire("s", START + MINUTE)
    await scene.fire("s", START + MINUTE, START + 2 * MINUTE)
    assert scene.count("job") == 2
    occurrences = scene.rows("select occurrence_at, job from occurrence order by occurrence_at")
    assert occurrences[0] == (START + MINUTE, job)


async def test_one_stale_firing_leaves_the_others_of_its_call_alone(scene: Scene) -> None:
    a, b = await scene.put_schedule("a"), await scene.put_schedule("b")
    await scene.store.put_schedules([a])
    steps = [scene.firing(a, [START]), scene.firing(b, [START])]
    assert await scene.store.fire_schedules(steps) == [False, True]
    assert scene.rows("select schedule from occurrence") == [("default/b",)]


async def test_i8_a_job_fired_ahead_of_its_time_waits_in_the_timers(scene: Scene) -> None:
    record = await scene.put_schedule("s")
    step = scene.firing(record, [START])
    late = structs.replace(step.jobs[0].template, due_at=START + 7 * SECOND)
    step = structs.replace(step, jobs=[structs.replace(step.jobs[0], template=late)])
    await scene.store.fire_schedules([step])
    assert await scene.ready() == []
    scene.clock.advance(7)
    assert await scene.ripen() == 1


# --- claims


def claimed(firing: Firing, key: str) -> Firing:
    (batch,) = firing.jobs
    return structs.replace(firing, jobs=[structs.replace(batch, claim=Claim(key, b""))])


async def test_i2_a_firing_takes_the_claim_of_its_job(scene: Scene) -> None:
    record = await scene.put_schedule("s")
    step = claimed(scene.firing(record, [START]), "k")
    assert await scene.store.read_claims(record, ["k"]) == [None]
    assert await scene.store.fire_schedules([step]) == [True]
    assert await scene.store.read_claims(record, ["other", "k"]) == [None, step.jobs[0].ids[0]]
    assert await scene.store.read_claims(make_schedule("s", tenant="acme"), ["k"]) == [None]


async def test_i2_a_firing_whose_claim_another_job_has_writes_nothing_at_all(scene: Scene) -> None:
    record = await scene.put_schedule("s")
    first = claimed(scene.firing(record, [START]), "k")
    await scene.store.fire_schedules([first])
    before = await scene.everything()
    missed = [MissedRecord("default/s", START, START, 1, "overlap")]
    again = scene.firing(await scene.schedule("s"), [START + MINUTE], cancel_active=True, missed=missed)
    assert await scene.store.fire_schedules([claimed(again, "k")]) == [False]
    assert await scene.everything() == before
    assert await scene.state(first.jobs[0].ids[0]) == "pending"
    assert await scene.store.fire_schedules([claimed(again, "other")]) == [True]


async def test_one_firing_whose_claim_is_taken_leaves_the_others_of_its_call_alone(scene: Scene) -> None:
    a, b = await scene.put_schedule("a"), await scene.put_schedule("b")
    await scene.store.fire_schedules([claimed(scene.firing(a, [START]), "k")])
    again = claimed(scene.firing(await scene.schedule("a"), [START + MINUTE]), "k")
    assert await scene.store.fire_schedules([again, scene.firing(b, [START])]) == [False, True]
    assert sorted(scene.rows("select schedule from occurrence")) == [("default/a",), ("default/b",)]


async def test_i2_of_many_firings_with_one_claim_at_once_one_makes_the_job(scene: Scene) -> None:
    """Of schedules of their own, so that no version decides between them; their slots are one database's."""
    here = (name for name in map(str, range(100)) if slot_for("schedule", f"default/{name}") < SLOTS // 2)
    records = [await scene.put_schedule(name) for name in islice(here, 6)]
    other = await scene.backend.open(scene.clock)
    steps = [claimed(scene.firing(record, [START]), "k") for record in records]
    stores = [scene.store, other] * 3
    answers = await asyncio.gather(*(s.fire_schedules([step]) for s, step in zip(stores, steps, strict=True)))
    await other.close()
    assert sorted(answer[0] for answer in answers) == [False] * 5 + [True]
    assert scene.count("job") == scene.count("occurrence") == scene.count("active") == scene.count("claim") == 1
    assert sorted(record.version for record in await scene.store.list_schedules()) == [1] * 5 + [2]


# --- overlap


async def test_i17_active_and_queued_are_counted_from_first_start_to_end(scene: Scene) -> None:
    session = await scene.session()
    await scene.put_schedule("s")

    async def counts() -> tuple[int, int]:
        record = await scene.schedule("s")
        return record.active, record.queued

    first, second = await scene.fire("s", START + MINUTE, START + 2 * MINUTE)
    assert await counts() == (0, 2)
    await scene.assign(session, [first])
    assert await counts() == (1, 1)
    await scene.fail(session, first, 1, again_in_s=60)
    assert await counts() == (1, 1)  # a job that waits to retry counts as running
    await scene.store.cancel_jobs([second])
    assert await counts() == (1, 0)
    await scene.store.cancel_jobs([first])
    assert await counts() == (0, 0)
    await scene.replay(first)
    assert await counts() == (1, 0)
    await scene.assign(session, [first])
    await scene.settle(session, first, 2, "completed")
    assert await counts() == (0, 0)


async def test_i17_serial_jobs_run_one_after_the_other_in_their_order(scene: Scene) -> None:
    session = await scene.session()
    await scene.put_schedule("s")
    jobs = await scene.fire("s", START, START + MINUTE, serial=True)
    jobs += await scene.fire("s", START + 2 * MINUTE, serial=True)
    order = []
    for attempt in ("completed", "failed", "cancelled"):
        answer = await scene.assign(session)
        assert len(answer.won) == 1
        order.append(answer.won[0].job)
        await scene.settle(session, order[-1], 1, attempt)
    assert order == jobs
    assert scene.count("edge") == 0


async def test_i17_a_serial_job_waits_for_everything_that_its_schedule_has_going(scene: Scene) -> None:
    session = await scene.session()
    await scene.put_schedule("s")
    going = await scene.fire("s", START, START + MINUTE)  # side by side: the rule was another one then
    first, second = await scene.fire("s", START + 2 * MINUTE, START + 3 * MINUTE, serial=True)
    assert set(await scene.store.list_parents(first, 10)) == set(going)
    assert await scene.store.list_parents(second, 10) == [first]
    await scene.assign(session)
    await scene.settle(session, going[0], 1, "completed")
    assert await scene.ready() == []
    await scene.settle(session, going[1], 1, "completed")
    assert [ready.job for ready in await scene.ready()] == [first]


async def test_i17_cancel_active_ends_what_waits_and_asks_what_runs(scene: Scene) -> None:
    session = await scene.session()
    await scene.put_schedule("s")
    running, waiting = await scene.fire("s", START, START + MINUTE)
    await scene.assign(session, [running])
    (newest,) = await scene.fire("s", START + 2 * MINUTE, cancel_active=True)
    assert await scene.store.list_cancelling(session) == [running]
    await scene.store.cancel_jobs([running])  # who comes later does not change why
    await scene.settle(session, running, 1, "cancelled", reason="requested")
    for job in (running, waiting):
        record = await scene.record(job)
        assert (record.state, record.reason) == ("cancelled", "overlap")
    assert await scene.state(newest) == "pending"


async def test_i17_cancelling_a_chain_ends_all_of_it(scene: Scene) -> None:
    await scene.put_schedule("s")
    chain = await scene.fire("s", *(START + n * MINUTE for n in range(5)), serial=True)
    (newest,) = await scene.fire("s", START + 9 * MINUTE, cancel_active=True)
    assert {await scene.state(job) for job in chain} == {"cancelled"}
    assert [ready.job for ready in await scene.ready()] == [newest]


# --- missed


async def test_missed_occurrences_are_kept_with_their_reason_newest_first(scene: Scene) -> None:
    await scene.put_schedule("s")
    old = MissedRecord("default/s", START, START + MINUTE, 2, "overlap")
    new = MissedRecord("default/s", START + 2 * MINUTE, START + 9 * MINUTE, None, "catch_up")
    await scene.fire("s", missed=[old, new])
    assert await scene.store.list_missed("default/s", 10) == [new, old]
    assert await scene.store.list_missed("default/s", 1) == [new]
    assert await scene.store.list_missed("default/other", 10) == []
