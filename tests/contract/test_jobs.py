"""Submitting, reading and steering jobs: I1, I2, I5, I12."""

import asyncio

import pytest

from contract.invariants import check_counters
from contract.scene import START, Scene, make_batch, with_priority
from mainspring.core.job import Resources
from mainspring.core.timer import HOUR, from_micros
from mainspring.store.contract import Inserted, JobFilter

# --- insert


async def test_i1_an_acknowledged_job_reads_back_as_it_was_submitted(scene: Scene) -> None:
    (answer,) = await scene.insert(
        kind="mail",
        arguments=[b'{"to":"a"}'],
        queue="post",
        tenant="acme",
        priority=8,
        complexity=2,
        retries=7,
        timeout=30,
        deadline=3600,
        tags=["x", "y"],
        labels=["gpu"],
        cpu=0.3,
    )
    job = await scene.record(answer.id)
    assert (job.kind, job.queue, job.tenant, job.priority, job.state) == ("mail", "post", "acme", 8, "pending")
    assert (job.arguments, job.attempt, job.failures, job.losses) == (b'{"to":"a"}', 0, 0, 0)
    assert (job.created_at, job.due_at, job.started_at, job.finished_at) == (START, START, None, None)
    options = job.options
    assert (options.retries, options.timeout_s, options.deadline_at) == (7, 30, START + HOUR)
    assert (options.tags, options.labels, options.resources) == (("x", "y"), frozenset({"gpu"}), Resources(cpu=0.3))
    assert (await scene.store.read_lanes([job.lane]))[job.lane].tenant == "acme"


async def test_i1_every_job_of_a_large_batch_is_there_in_the_order_of_submit(scene: Scene) -> None:
    ids = await scene.submit(500)
    assert len(set(ids)) == 500
    assert [ready.job for ready in await scene.ready()] == ids
    assert scene.count("job") == scene.count("spec") == 500


async def test_a_job_with_a_later_time_waits_in_the_timers_and_one_without_is_ready(scene: Scene) -> None:
    later, now, past = (
        await scene.submit_one(delay=1),
        await scene.submit_one(),
        await scene.submit_one(at=from_micros(START - HOUR)),
    )
    assert {row[0] for row in scene.rows("select job from timer")} == {later}
    assert {row[0] for row in scene.rows("select job from ready")} == {now, past}


async def test_i1_the_same_insert_again_changes_nothing_and_is_answered_as_inserted(scene: Scene) -> None:
    batch, lane = make_batch(START, arguments=[b"1", b"2", b"3"])
    first = await scene.store.insert_jobs([batch], [lane])
    session = await scene.session()
    await scene.assign(session, batch.ids[:1])
    await scene.settle(session, batch.ids[0], 1, "completed")
    scene.clock.advance(5)
    again = await scene.store.insert_jobs([batch], [lane])
    assert again == first == [[Inserted(id_) for id_ in batch.ids]]
    assert [(await scene.record(id_)).state for id_ in batch.ids] == ["completed", "pending", "pending"]
    assert scene.count("job") == 3


async def test_i1_a_repeated_insert_adds_only_what_was_missing(scene: Scene) -> None:
    whole, lane = make_batch(START, arguments=[b"1", b"2", b"3"])
    part, _ = make_batch(START, arguments=[b"2"], ids=[whole.ids[1]])
    await scene.store.insert_jobs([part], [lane])
    assert await scene.store.insert_jobs([whole], [lane]) == [[Inserted(id_) for id_ in whole.ids]]
    assert [(await scene.record(id_)).arguments for id_ in whole.ids] == [b"1", b"2", b"3"]
    assert len(await scene.ready()) == 3


async def test_i1_a_repeated_insert_of_a_job_with_a_key_is_answered_as_inserted(scene: Scene) -> None:
    batch, lane = make_batch(START, key="k")
    for _ in range(3):
        assert await scene.store.insert_jobs([batch], [lane]) == [[Inserted(batch.ids[0])]]
    assert scene.count("job") == scene.count("claim") == 1


async def test_i1_a_job_that_the_database_refuses_harms_nobody_who_submits_at_the_same_time(scene: Scene) -> None:
    batch, lane = make_batch(START)
    calls = [scene.submit(3), scene.store.insert_jobs([with_priority(batch, 11)], [lane]), scene.submit(2)]
    before, refused, after = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(refused, Exception)
    assert await scene.store.read_jobs(batch.ids) == [None]
    assert {ready.job for ready in await scene.ready()} == {*before, *after}  # type: ignore[misc]


async def test_i1_the_same_insert_many_times_at_once_is_one_insert(scene: Scene) -> None:
    other = await scene.backend.open(scene.clock)
    batch, lane = make_batch(START, arguments=[b"1", b"2"])
    calls = [store.insert_jobs([batch], [lane]) for store in (scene.store, other) for _ in range(3)]
    assert await asyncio.gather(*calls) == [[[Inserted(id_) for id_ in batch.ids]]] * 6
    assert await scene.store.insert_jobs([batch, batch], [lane]) == [[Inserted(id_) for id_ in batch.ids]] * 2
    assert scene.count("job") == 2
    await other.close()


# --- keys


async def test_i2_a_second_job_with_the_key_is_answered_with_the_first(scene: Scene) -> None:
    (first,) = await scene.insert(key="order 7", arguments=[b"1"])
    scene.clock.advance(1)
    (second,) = await scene.insert(key="order 7", arguments=[b"1"])
    assert first == Inserted(first.id)
    assert second == Inserted(first.id, existed=True)
    assert scene.count("job") == 1


async def test_i2_the_same_key_with_other_content_is_a_conflict_and_writes_nothing(scene: Scene) -> None:
    (first,) = await scene.insert(key="k", arguments=[b"1"])
    (arguments,) = await scene.insert(key="k", arguments=[b"2"])
    (kind,) = await scene.insert(key="k", arguments=[b"1"], kind="other")
    assert arguments == kind == Inserted(first.id, existed=True, conflict=True)
    assert scene.count("job") == 1
    assert (await scene.record(first.id)).arguments == b"1"


async def test_i2_in_one_call_the_first_of_two_equal_keys_wins_and_the_rest_is_inserted(scene: Scene) -> None:
    made = [make_batch(START, key="k"), make_batch(START, key="k"), make_batch(START), make_batch(START, key="l")]
    answers = await scene.store.insert_jobs([batch for batch, _ in made], [lane for _, lane in made])
    assert [answer[0].existed for answer in answers] == [False, True, False, False]
    assert answers[1][0].id == answers[0][0].id
    assert scene.count("job") == 3


async def test_i2_a_key_belongs_to_its_tenant(scene: Scene) -> None:
    (one,) = await scene.insert(key="k", tenant="a")
    (other,) = await scene.insert(key="k", tenant="b", arguments=[b"9"])
    assert not other.existed
    assert one.id != other.id


async def test_i2_a_key_outlives_its_job_as_long_as_the_row_is_there(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session, key="k")
    await scene.settle(session, job, 1, "completed")
    scene.clock.advance(3600 * 48)
    assert (await scene.insert(key="k"))[0] == Inserted(job, existed=True)
    await scene.prune(60)
    (fresh,) = await scene.insert(key="k")
    assert not fresh.existed
    assert fresh.id != job


async def test_i2_unique_ends_with_its_period_to_the_microsecond(scene: Scene) -> None:
    (first,) = await scene.insert(unique=60, arguments=[b"1"])
    assert not (await scene.insert(unique=60, arguments=[b"2"]))[0].existed
    scene.clock.advance(59.999999)
    assert (await scene.insert(unique=60, arguments=[b"1"]))[0] == Inserted(first.id, existed=True)
    scene.clock.advance(0.000001)
    (later,) = await scene.insert(unique=60, arguments=[b"1"])
    assert not later.existed
    scene.clock.advance(1)
    assert (await scene.insert(unique=60, arguments=[b"1"]))[0] == Inserted(later.id, existed=True)


# --- reading


async def test_reading_answers_in_the_order_asked_and_none_for_strangers(scene: Scene) -> None:
    ids = await scene.submit(3)
    found = await scene.store.read_jobs([ids[2], b"\0" * 16, ids[0]])
    assert [record and record.id for record in found] == [ids[2], None, ids[0]]
    assert await scene.store.read_jobs([]) == []
    assert await scene.store.read_ended([ids[0], b"\0" * 16]) == [None, None]
    assert await scene.store.read_failures(ids[0]) == []


async def test_listing_is_newest_first_and_pages_meet_without_gap_or_repeat(scene: Scene) -> None:
    ids = []
    for _ in range(7):
        ids += await scene.submit(3)
        scene.clock.advance(1)
    everything = JobFilter()
    seen: list[bytes] = []
    page = await scene.store.list_jobs(everything, before=None, limit=4)
    while page:
        assert len(page) <= 4
        seen += [job.id for job in page]
        page = await scene.store.list_jobs(everything, before=seen[-1], limit=4)
    assert seen == sorted(ids, reverse=True)


async def test_a_listing_goes_on_behind_a_job_that_has_left_its_place(scene: Scene) -> None:
    jobs = await scene.submit(4)
    for job in jobs:
        await scene.store.cancel_jobs([job])
        scene.clock.advance(1)
    which = JobFilter(state="cancelled")
    *_, last = await scene.store.list_jobs(which, before=None, limit=2)
    await scene.replay(last.id)
    await scene.store.cancel_jobs([last.id])  # it is the latest now
    rest = await scene.store.list_jobs(which, before=last.id, limit=9, ended_at=last.finished_at)
    assert [job.id for job in rest] == jobs[1::-1]


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (JobFilter(), ["a", "b", "c", "d"]),
        (JobFilter(tenant="acme"), ["a"]),
        (JobFilter(queue="post"), ["b"]),
        (JobFilter(kind="special"), ["c"]),
        (JobFilter(tag="x"), ["a", "d"]),
        (JobFilter(tag="nobody's"), []),
        (JobFilter(state="cancelled"), ["d"]),
        (JobFilter(state="pending", tag="x"), ["a"]),
        (JobFilter(schedule="s"), []),
    ],
)
async def test_each_filter_lets_through_what_it_names(scene: Scene, which: JobFilter, expected: list[str]) -> None:
    made = {
        "a": await scene.submit_one(tenant="acme", tags=["x"]),
        "b": await scene.submit_one(queue="post"),
        "c": await scene.submit_one(kind="special"),
        "d": await scene.submit_one(tags=["y", "x"]),
    }
    await scene.store.cancel_jobs([made["d"]])
    names = {id_: name for name, id_ in made.items()}
    listed = await scene.store.list_jobs(which, before=None, limit=10)
    assert sorted(names[job.id] for job in listed) == expected


async def test_i15_counts_equal_a_recount(scene: Scene) -> None:
    session = await scene.session()
    done = await scene.started(session, queue="q")
    await scene.settle(session, done, 1, "completed")
    await scene.submit(3, queue="q", delay=5)
    await scene.started(session)
    counted = await scene.store.count_jobs()
    assert counted == {("q", "completed"): 1, ("q", "pending"): 3, ("default", "assigned"): 1}
    check_counters(counted, scene.backend, scene.store)


# --- cancel


async def test_i12_a_waiting_job_ends_at_once_wherever_it_waits(scene: Scene) -> None:
    jobs = [await scene.submit_one(), await scene.submit_one(delay=60)]
    assert await scene.store.cancel_jobs(jobs) == ["cancelled", "cancelled"]
    for job in jobs:
        record = await scene.record(job)
        assert (record.state, record.reason, record.finished_at) == ("cancelled", "requested", START)
    scene.clock.advance(120)
    assert await scene.ripen() == 0
    assert await scene.ready() == []


async def test_i12_a_job_read_before_its_cancel_is_not_started_after_it(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.submit_one()
    stale = await scene.ready()
    await scene.store.cancel_jobs([job])
    answer = await scene.assign_stale(session, stale)
    assert (answer.won, answer.lost) == ([], stale)
    assert await scene.state(job) == "cancelled"


async def test_i12_a_running_job_is_asked_once_and_its_session_is_told(scene: Scene) -> None:
    session, other = await scene.session(), await scene.session()
    job = await scene.started(session)
    assert await scene.store.cancel_jobs([job]) == ["requested"]
    assert await scene.store.cancel_jobs([job]) == ["requested"]
    assert await scene.store.list_cancelling(session) == [job]
    assert await scene.store.list_cancelling(other) == []
    assert (await scene.record(job)).cancelling
    assert await scene.state(job) == "assigned"


@pytest.mark.parametrize("ended", ["completed", "failed", "cancelled"])
async def test_i5_cancel_leaves_an_ended_job_as_it_is(scene: Scene, ended: str) -> None:
    session = await scene.session()
    job = await scene.started(session)
    await scene.settle(session, job, 1, ended, reason="mine")
    before = await scene.record(job)
    scene.clock.advance(9)
    assert await scene.store.cancel_jobs([job, b"\0" * 16]) == ["ended", None]
    assert await scene.record(job) == before


async def test_i12_a_job_that_others_wait_for_frees_them_when_it_is_cancelled(scene: Scene) -> None:
    parent, child = await scene.chain(2)
    assert await scene.state(child) == "blocked"
    await scene.store.cancel_jobs([parent])
    assert await scene.state(child) == "pending"
    assert [ready.job for ready in await scene.ready()] == [child]


async def test_a_blocked_job_is_cancelled_at_once_and_stays_so(scene: Scene) -> None:
    parent, child = await scene.chain(2)
    assert await scene.store.list_parents(child, 10) == [parent]
    assert await scene.store.cancel_jobs([child]) == ["cancelled"]
    session = await scene.session()
    await scene.assign(session, [parent])
    await scene.settle(session, parent, 1, "completed")
    assert await scene.state(child) == "cancelled"
