"""From later to due, from waiting to expired, from ended to gone: I8, retention."""

from contract.scene import JOB_TABLES, START, Scene
from mainspring.core.timer import HOUR, SECOND
from mainspring.store.contract import Change, Inserted

DAY_S = 86_400.0


async def test_i8_nothing_ripens_a_microsecond_early(scene: Scene) -> None:
    job = await scene.submit_one(delay=10)
    scene.clock.advance(9.999999)
    assert await scene.store.ripen_timers(scene.everywhere, 100) == (0, START + 10 * SECOND)
    assert await scene.ready() == []
    scene.clock.advance(0.000001)
    assert await scene.store.ripen_timers(scene.everywhere, 100) == (1, None)
    assert [ready.job for ready in await scene.ready()] == [job]


async def test_i8_a_job_that_was_moved_to_a_later_time_is_not_started_by_who_read_it_before(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.submit_one()
    seen = await scene.ready()
    scene.clock.jump(-3600)  # the machine's clock was wrong, and has been put right
    await scene.store.change_jobs([Change(job, priority=9)])
    assert await scene.ready() == []
    answer = await scene.assign_stale(session, seen)
    assert (answer.won, answer.lost) == ([], seen)
    assert await scene.state(job) == "pending"


async def test_timers_ripen_earliest_first_and_no_more_than_asked_for(scene: Scene) -> None:
    jobs = [await scene.submit_in(0, delay=delay) for delay in (4, 2, 3, 5)]
    scene.clock.advance(10)
    order = []
    for left in (3, 2, 1, 0):
        before = {ready.job for ready in await scene.ready()}
        moved, next_at = await scene.store.ripen_timers(scene.everywhere, 1)
        assert (moved, next_at is None) == (1, left == 0)
        order += [ready.job for ready in await scene.ready() if ready.job not in before]
    assert order == [jobs[1], jobs[2], jobs[0], jobs[3]]


async def test_only_the_named_partitions_are_swept(scene: Scene) -> None:
    for partition in (0, 1):
        await scene.submit_many_in(partition, 10, delay=1)
    scene.clock.advance(1)
    assert await scene.store.ripen_timers([0], 1000) == (10, None)
    assert {row[0] for row in scene.rows("select partition from ready")} == {0}
    assert {row[0] for row in scene.rows("select partition from timer")} == {1}


async def test_the_next_due_time_is_the_earliest_of_timers_and_expiries(scene: Scene) -> None:
    await scene.submit_one(delay=50)
    await scene.submit_one(start_by=30)
    assert await scene.store.ripen_timers(scene.everywhere, 10) == (0, START + 30 * SECOND)
    assert await scene.store.ripen_timers([], 10) == (0, None)


# --- start_by


async def test_a_job_that_has_not_started_by_its_time_is_cancelled_as_expired(scene: Scene) -> None:
    ready, timed = await scene.submit_one(start_by=30), await scene.submit_one(delay=60, start_by=30)
    parent, blocked = await scene.chain(2, start_by=30)
    scene.clock.advance(29.999999)
    await scene.ripen()
    assert await scene.state(ready) == "pending"
    scene.clock.advance(0.000001)
    await scene.ripen()
    for job in (ready, timed, parent, blocked):
        record = await scene.record(job)
        assert (record.state, record.reason, record.finished_at) == ("cancelled", "expired", START + 30 * SECOND)
    assert scene.count("expiry") == 0


async def test_a_job_that_started_in_time_does_not_expire_not_even_while_it_waits_to_retry(scene: Scene) -> None:
    session = await scene.session()
    running, retrying = await scene.started(session, start_by=30), await scene.started(session, start_by=30)
    await scene.fail(session, retrying, 1, again_in_s=300)
    scene.clock.advance(31)
    await scene.ripen()
    assert [await scene.state(job) for job in (running, retrying)] == ["assigned", "pending"]


# --- prune


async def test_a_pruned_job_leaves_nothing_behind_in_any_table(scene: Scene) -> None:
    session = await scene.session()
    await scene.limit("queue/default/q", concurrency=9)
    limits = (("queue/default/q", ""),)
    completed = await scene.submit_one(queue="q", key="k", start_by=DAY_S * 300, tags=["x"])
    await scene.assign(session, [completed], limits)
    await scene.settle(session, completed, 1, "completed", result=b"1")
    failed = await scene.submit_one(queue="q", unique=60)
    await scene.assign(session, [failed], limits)
    await scene.fail(session, failed, 1)
    cancelled = await scene.submit_one(queue="q", delay=DAY_S * 400)
    await scene.store.cancel_jobs([cancelled])
    parent, child = await scene.chain(2)
    await scene.store.cancel_jobs([parent, child])
    await scene.fire_once("s")
    await scene.store.cancel_jobs([row[0] for row in scene.rows("select job from active")])
    scene.clock.advance(DAY_S * 2)
    assert scene.ended == 6
    assert await scene.prune(DAY_S) == 6
    assert {table: scene.count(table) for table in JOB_TABLES} == dict.fromkeys(JOB_TABLES, 0)


async def test_each_state_is_kept_for_its_own_time(scene: Scene) -> None:
    session = await scene.session()
    done, failed = await scene.started(session), await scene.started(session)
    await scene.settle(session, done, 1, "completed")
    await scene.fail(session, failed, 1)
    gone = await scene.submit_one()
    await scene.store.cancel_jobs([gone])
    waiting, live = await scene.submit_one(), await scene.started(session)
    scene.clock.advance(DAY_S * 10)
    now = scene.clock.now()
    assert await scene.store.prune_jobs({"completed": START, "cancelled": now, "failed": START + 1}, 100) == 2
    kept = {row[0] for row in scene.rows("select id from job")}
    assert kept == {done, waiting, live}


async def test_prune_takes_a_small_batch_at_a_time_oldest_first_from_every_tenant(scene: Scene) -> None:
    jobs = []
    for tenant in ("a", "b", "c"):
        for _ in range(3):
            jobs.append(await scene.submit_in(0, tenant=tenant))  # which ones are oldest is known in one database
            await scene.store.cancel_jobs(jobs[-1:])
            scene.clock.advance(1)
    scene.clock.advance(100)
    assert await scene.prune(10, limit=2) == 2
    assert [job for job in jobs if (await scene.store.read_jobs([job]))[0] is None] == jobs[:2]
    assert await scene.prune(10, limit=100) == 7


async def test_i2_a_key_lives_for_24_hours_after_it_was_made_even_if_its_job_is_old_enough_to_go(scene: Scene) -> None:
    job = await scene.submit_one(key="k")
    plain = await scene.submit_one()
    await scene.store.cancel_jobs([job, plain])
    scene.clock.advance(DAY_S)
    assert await scene.prune(60) == 1
    assert (await scene.insert(key="k"))[0] == Inserted(job, existed=True)
    scene.clock.advance(0.000001)
    assert await scene.prune(60) == 1
    assert not (await scene.insert(key="k"))[0].existed


async def test_ended_sessions_and_nodes_go_with_the_pruning_once_nothing_of_them_lives(scene: Scene) -> None:
    busy, idle, current = await scene.session(), await scene.session(), await scene.session()
    job = await scene.started(busy)
    await scene.store.end_nodes({b"of " + busy: None})
    await scene.store.end_nodes({b"of " + idle: None})
    scene.clock.advance(3601)
    await scene.prune(60)
    assert {row[0] for row in scene.rows("select id from session")} == {busy, current}
    assert await scene.store.rescue_attempts(10) == 1
    await scene.prune(60)
    assert {row[0] for row in scene.rows("select id from session")} == {current}
    assert {row[0] for row in scene.rows("select id from node")} == {b"of " + current}
    assert await scene.state(job) == "pending"


async def test_old_records_of_missed_occurrences_go_with_the_longest_retention(scene: Scene) -> None:
    await scene.fire_once("s", missed_at=START - HOUR)
    scene.clock.advance(DAY_S)
    await scene.prune(DAY_S * 2)
    assert scene.count("missed") == 1
    await scene.prune(DAY_S / 2)
    assert scene.count("missed") == 0
