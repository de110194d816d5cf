"""Dispatcher, lanes and desk over a real store."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from msgspec import json, structs

from contract.scene import FAILURE
from dispatch.floor import Floor, dispatch, open_floor
from mainspring.core.job import Limit, Resources
from mainspring.core.lane import Lane
from mainspring.dispatch.dispatcher import STEAL_S
from mainspring.dispatch.matcher import RESERVE_AFTER_S
from mainspring.errors import SessionEndedError, StoreUnavailableError
from mainspring.node import Node
from mainspring.store.contract import Assigned, Change, Hint, Pick, Settlement
from mainspring.wire import Outcome, OutcomeType, Report


@pytest.fixture
async def floor(folder: Path) -> AsyncIterator[Floor]:
    async with open_floor(folder) as made:
        yield made


# --- what is read


async def test_a_worker_gets_jobs_in_their_order_and_no_more_than_it_can_take(floor: Floor) -> None:
    worker = await floor.worker()
    low = await floor.submit_one(priority=1)
    first, second = await floor.submit(2)
    urgent = await floor.submit_one(priority=10)
    assert await worker.jobs(3) == [urgent, first, second]
    assert await worker.jobs(0) == []
    assert await worker.jobs(5) == [low]


async def test_an_assignment_says_all_a_worker_must_know(floor: Floor) -> None:
    worker = await floor.worker(labels="gpu")
    (made,) = await floor.insert(arguments=[b'{"x":1}'], queue="q", tenant="acme", timeout=9, labels=["gpu"])
    (assignment,) = await worker.pull()
    assert (assignment.job, assignment.attempt, assignment.kind) == (made.id, 1, "work")
    assert (assignment.tenant, assignment.queue, assignment.arguments) == ("acme", "q", b'{"x":1}')
    assert (assignment.options.timeout_s, assignment.failures) == (9, 0)
    assert await worker.complete(assignment) == []
    assert await floor.state(made.id) == "completed"


async def test_the_same_pull_again_is_answered_with_the_same_jobs(floor: Floor) -> None:
    worker = await floor.worker()
    await floor.submit(2)
    first = await worker.pull()
    assert await floor.node.desk.pull(worker.session, worker._number, 10) == first


async def test_a_paused_queue_waits_and_costs_the_others_nothing(floor: Floor) -> None:
    worker = await floor.worker()
    await floor.store.put_queue(floor.queue("q", paused=True, limit=Limit()))
    held, free = await floor.submit_one(queue="q", priority=10), await floor.submit_one()
    assert await worker.jobs() == [free]
    assert await worker.jobs() == []
    await floor.store.put_queue(floor.queue("q", paused=False, limit=Limit()))
    assert await worker.jobs() == [held]


async def test_a_queue_paused_after_its_jobs_were_read_gives_no_more(floor: Floor) -> None:
    worker = await floor.worker()
    await floor.submit(5, queue="q")
    assert len(await worker.jobs(2)) == 2
    await floor.store.put_queue(floor.queue("q", paused=True, limit=Limit()))
    assert await worker.jobs() == []
    await floor.store.put_queue(floor.queue("q", paused=False, limit=Limit()))
    assert len(await worker.jobs()) == 3


async def test_a_kind_and_a_label_nobody_serves_wait_for_the_worker_that_does(floor: Floor) -> None:
    worker = await floor.worker()
    strange, labelled, plain = (
        await floor.submit_one(kind="strange", priority=10),
        await floor.submit_one(labels=["gpu"], priority=10),
        await floor.submit_one(),
    )
    assert await worker.jobs() == [plain]
    able = await floor.worker(kinds="strange work", labels="gpu")
    assert set(await able.jobs()) == {strange, labelled}


async def test_jobs_of_a_worker_that_left_go_to_the_others(floor: Floor) -> None:
    leaving, staying = await floor.worker(), await floor.worker()
    job = await floor.submit_one()
    assert await leaving.jobs(1) == [job]
    await floor.node.desk.end(leaving.session)
    await floor.node.rescuer.run_once()
    assert await staying.jobs() == [job]
    with pytest.raises(SessionEndedError):
        await floor.node.desk.pull(leaving.session, 99, 1)
    with pytest.raises(SessionEndedError):
        await floor.node.desk.report(leaving.session, Report([]))


async def test_resources_of_a_worker_are_shared_by_its_jobs(floor: Floor) -> None:
    worker = await floor.worker(cpu=2.0)
    await floor.submit(3, cpu=1)
    first = await worker.pull()
    assert len(first) == 2
    assert await worker.pull() == []
    await worker.complete(first[0])
    assert len(await worker.pull()) == 1


async def test_a_reservation_does_not_outlive_the_job_it_was_made_for(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("mainspring.dispatch.dispatcher.time.monotonic", lambda: now[0])
    worker = await floor.worker(cpu=4.0)
    small = await floor.submit_one(cpu=1)
    assert await worker.jobs() == [small]
    large = await floor.submit_one(cpu=4, priority=6)
    assert await worker.jobs() == []
    now[0] += RESERVE_AFTER_S
    await floor.submit_one(cpu=1)
    assert await worker.jobs() == []  # kept free for the large one
    await floor.store.cancel_jobs([large])
    await worker.complete_all()
    assert len(await worker.jobs()) == 1


# --- losing


async def test_i3_a_job_that_somebody_else_took_is_not_handed_out(floor: Floor) -> None:
    worker = await floor.worker()
    jobs = await floor.submit(4)
    await dispatch(floor.node)
    assert len(await worker.jobs(1)) == 1  # the rest is in the window now
    other = await floor.session()
    await floor.assign(other, jobs[1:3])
    assert await worker.jobs() == [jobs[3]]
    assert floor.node.gauges.lost == 2


async def test_i3_a_job_that_moved_while_it_was_in_the_window_is_handed_out_once(floor: Floor) -> None:
    worker = await floor.worker()
    first, moved = await floor.submit(2)
    assert await worker.jobs(1) == [first]
    await floor.store.change_jobs([Change(moved, priority=10)])
    assert await worker.jobs() == [moved]
    floor.check()
    assert await floor.store.find_session(moved) == worker.session


async def test_a_job_whose_tenant_is_erased_while_it_is_assigned_is_not_handed_out(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await floor.limit("kind/work", concurrency=1)
    worker = await floor.worker(slots=1)
    gone = await floor.submit_one(tenant="acme")
    assert await worker.jobs(1) == [gone]
    outcome = Outcome(gone, 1, OutcomeType.FAILED, failure=FAILURE, retry_after_s=0)
    await floor.node.desk.report(worker.session, Report([outcome]))
    assign = floor.store.assign_jobs

    async def assign_and_erase(picks: Sequence[Pick]) -> list[Assigned]:
        answers = await assign(picks)
        await floor.store.erase_tenant("acme", 10)
        return answers

    monkeypatch.setattr(floor.store, "assign_jobs", assign_and_erase)
    assert await worker.jobs(1) == []
    assert await floor.store.read_jobs([gone]) == [None]
    stays = await floor.submit_one()
    assert await worker.jobs(1) == [stays], "the worker's room was lost with the job"


async def test_a_worker_that_leaves_while_its_jobs_are_being_assigned_keeps_nothing(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving, staying = await floor.worker(), await floor.worker(kinds="other")
    await floor.limit("queue/default/q", concurrency=1)
    job = await floor.submit_one(queue="q")
    assign = floor.store.assign_jobs

    async def assign_and_leave(picks: Sequence[Pick]) -> list[Assigned]:
        answers = await assign(picks)
        await floor.node.desk.end(leaving.session)
        return answers

    monkeypatch.setattr(floor.store, "assign_jobs", assign_and_leave)
    await leaving.pull()
    monkeypatch.undo()
    await floor.settle_down()
    assert await floor.state(job) == "pending"
    assert await floor.held("queue/default/q") == 0
    fresh = await floor.worker()
    assert await fresh.jobs() == [job], "the limit's place was lost with the worker"
    assert staying.session


# --- limits


async def test_i13_a_limit_holds_jobs_back_and_each_end_lets_one_in(floor: Floor) -> None:
    worker = await floor.worker()
    await floor.limit("queue/default/q", concurrency=2)
    jobs = await floor.submit(4, queue="q")
    other = await floor.submit_one()
    first = await worker.pull()
    assert {a.job for a in first} == {*jobs[:2], other}
    assert await worker.jobs() == []
    await worker.complete(next(a for a in first if a.job == other))
    assert await worker.jobs() == []
    await worker.complete(next(a for a in first if a.job == jobs[1]))
    assert await worker.jobs() == [jobs[2]]


async def test_i13_a_limit_taken_by_another_node_is_heard_of_when_it_is_free(floor: Floor) -> None:
    worker, elsewhere = await floor.worker(), await floor.session()
    await floor.limit("queue/default/q", concurrency=1)
    taken, waiting = await floor.submit(2, queue="q")
    await floor.assign(elsewhere, [taken], (("queue/default/q", ""),))
    assert await worker.jobs() == []
    assert floor.node.gauges.held == 1
    await floor.settle(elsewhere, taken, 1, "completed")
    assert await worker.jobs() == [waiting]


async def test_i13_a_crash_elsewhere_does_not_leave_a_lane_closed(floor: Floor) -> None:
    worker, elsewhere = await floor.worker(), await floor.session()
    await floor.limit("queue/default/q", concurrency=1)
    taken, waiting = await floor.submit(2, queue="q")
    await floor.assign(elsewhere, [taken], (("queue/default/q", ""),))
    assert await worker.jobs() == []
    await floor.store.end_sessions([elsewhere])
    await floor.store.rescue_attempts(10)
    assert await worker.jobs() == [taken]
    assert await floor.state(waiting) == "pending"


async def test_i13_a_lost_hint_costs_a_lane_ten_seconds_and_not_its_life(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, elsewhere = await floor.worker(), await floor.session()
    await floor.limit("queue/default/q", concurrency=1)
    taken, waiting = await floor.submit(2, queue="q")
    await floor.assign(elsewhere, [taken], (("queue/default/q", ""),))
    assert await worker.jobs() == []
    with monkeypatch.context() as deaf:
        deaf.setattr(floor.node.dispatcher, "hear", lambda hint: None)
        await floor.settle(elsewhere, taken, 1, "completed")
    assert await worker.jobs() == []
    floor.node.dispatcher._relist_at_s = 0.0  # ten seconds have passed
    assert await worker.jobs() == [waiting]


async def test_i14_a_rate_lets_jobs_in_as_time_passes(floor: Floor) -> None:
    worker = await floor.worker()
    await floor.limit("queue/default/q", rate=1.0, burst=2)
    jobs = await floor.submit(4, queue="q")
    assert await worker.jobs() == jobs[:2]
    rest_s = await floor.node.dispatcher.run_once()
    assert rest_s is not None
    assert 0 < rest_s <= 1.001
    floor.clock.advance(1.00001)
    assert await worker.jobs() == jobs[2:3]
    assert await worker.jobs() == []
    floor.clock.advance(1.00001)
    assert await worker.jobs() == jobs[3:]


async def test_a_limit_that_is_lifted_opens_its_lanes(floor: Floor) -> None:
    worker = await floor.worker()
    await floor.limit("kind/work", concurrency=1)
    await floor.submit(3)
    assert len(await worker.jobs()) == 1
    await floor.limit("kind/work")
    assert len(await worker.jobs()) == 2


async def test_i13_a_tenants_quota_counts_over_all_its_lanes_and_a_new_one_is_heard_of(floor: Floor) -> None:
    worker = await floor.worker(kinds="work other")
    await floor.limit("tenant/acme", concurrency=2)
    for queue, kind in (("a", "work"), ("b", "work"), ("b", "other")):
        await floor.submit(2, tenant="acme", queue=queue, kind=kind)
    free = await floor.submit_one()
    first = await worker.pull()
    assert (len(first), free in {assignment.job for assignment in first}) == (3, True)
    assert await worker.jobs() == []
    await floor.limit("tenant/acme", concurrency=3)
    assert len(await worker.jobs()) == 1
    await floor.limit("tenant/acme")
    assert len(await worker.jobs()) == 3


async def test_a_job_that_changed_its_lane_in_the_window_starts_by_what_it_needs_now(floor: Floor) -> None:
    small, large = await floor.worker(cpu=1), await floor.worker(cpu=8, slots=1)
    await large.pull(0)
    first, moved = await floor.submit(2, cpu=1)
    assert await small.jobs(1) == [first]
    await small.complete_all()
    options = structs.replace((await floor.record(moved)).options, resources=Resources(cpu=4.0))
    lane = Lane("default", "default", "work", Resources(cpu=4.0))
    await floor.store.change_jobs([Change(moved, options=json.encode(options), lane=lane)])
    assert await small.jobs() == []
    assert await large.jobs(1) == [moved]


async def test_i13_limit_keys_count_apart(floor: Floor) -> None:
    worker = await floor.worker()
    await floor.limit("kind/work", concurrency=1)
    a, b = await floor.submit(2, limit_key="a"), await floor.submit(2, limit_key="b")
    assert set(await worker.jobs()) == {a[0], b[0]}


# --- other nodes


async def two_nodes(floor: Floor) -> Node:
    """Another node that owns half of the partitions."""
    other = await floor.join("second")
    await floor.node.ownership.look()
    await other.ownership.look()
    assert len(other.ownership.partitions) == len(floor.everywhere) // 2
    return other


async def test_an_idle_node_takes_what_another_node_leaves_lying(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("mainspring.dispatch.dispatcher.time.monotonic", lambda: now[0])
    other = await two_nodes(floor)
    worker = await floor.worker(floor.node)
    assert await worker.jobs() == []
    job = await floor.submit_in(other.ownership.partitions[0])
    now[0] += STEAL_S / 2
    assert await worker.jobs() == []  # its owner has a moment
    now[0] += STEAL_S / 2
    assert await worker.jobs() == [job]


async def test_what_moves_in_the_partitions_of_others_is_left_to_them(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("mainspring.dispatch.dispatcher.time.monotonic", lambda: now[0])
    other = await two_nodes(floor)
    worker, elsewhere = await floor.worker(floor.node), await floor.session(other.id)
    jobs = []
    for _ in range(4):
        jobs.append(await floor.submit_in(other.ownership.partitions[0]))
        floor.clock.advance(1)
    for job in jobs[:3]:
        now[0] += STEAL_S / 2
        assert await worker.jobs() == []
        await floor.assign(elsewhere, [job])
    for _ in range(2):
        now[0] += STEAL_S
        taken = await worker.jobs()
    assert taken == jobs[3:]


async def test_a_worker_that_comes_finds_what_has_long_been_lying_elsewhere(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("mainspring.dispatch.dispatcher.time.monotonic", lambda: now[0])
    other = await two_nodes(floor)
    job = await floor.submit_in(other.ownership.partitions[0])
    now[0] += 100 * STEAL_S
    worker = await floor.worker(floor.node)
    assert await worker.jobs() == []
    now[0] += STEAL_S
    assert await worker.jobs() == [job]


async def test_a_node_that_is_about_to_leave_assigns_nothing(floor: Floor) -> None:
    worker = await floor.worker()
    await floor.submit_one()
    floor.node.drain()
    assert await worker.jobs() == []


async def test_a_hint_for_a_partition_of_another_node_is_not_followed(floor: Floor) -> None:
    worker = await floor.worker()
    floor.node.dispatcher.own([0])
    job = await floor.submit_in(1)
    floor.node.dispatcher._steal_at_s = 1e12
    assert await worker.jobs() == []
    floor.node.dispatcher.own([0, 1])
    assert await worker.jobs() == [job]


async def test_the_jobs_of_a_partition_that_was_given_away_are_left_to_its_new_owner(floor: Floor) -> None:
    worker = await floor.worker()
    jobs = {await floor.submit_in(1) for _ in range(3)}
    jobs.difference_update(await worker.jobs(1))  # the others have been read as well
    floor.node.dispatcher.own([0])
    floor.node.dispatcher._steal_at_s = 1e12
    assert await worker.jobs() == []
    floor.node.dispatcher.own([0, 1])
    assert set(await worker.jobs()) == jobs


async def test_a_closed_lane_does_not_remember_a_partition_that_was_given_away(floor: Floor) -> None:
    idle = await floor.worker(kinds="other")
    job = await floor.submit_in(1)
    assert await idle.jobs() == []
    floor.node.dispatcher.own([0])
    worker = await floor.worker()
    floor.node.dispatcher._steal_at_s = 1e12
    assert await worker.jobs() == []
    floor.node.dispatcher.own([0, 1])
    assert await worker.jobs() == [job]


async def test_a_hint_without_streams_means_look_at_all(floor: Floor) -> None:
    worker = await floor.worker()
    await worker.pull()
    floor.node._unsubscribe()
    job = await floor.submit_one()
    assert await worker.jobs() == []
    floor.node.dispatcher.hear(Hint("ready"))
    assert await worker.jobs() == [job]


# --- the desk


async def test_i12_a_running_job_is_told_to_stop_and_one_not_yet_pulled_ends_at_once(floor: Floor) -> None:
    worker = await floor.worker()
    running = await floor.submit_one()
    await worker.pull()
    await floor.store.cancel_jobs([running])
    await floor.node.canceller.run_once()
    assert worker.cancelled == [running]
    outcome = Outcome(running, 1, OutcomeType.CANCELLED, reason="requested")
    await floor.node.desk.report(worker.session, Report([outcome]))
    assert await floor.state(running) == "cancelled"


async def test_i6_a_late_outcome_is_answered_as_rejected(floor: Floor) -> None:
    worker, other = await floor.worker(), await floor.worker()
    await floor.submit_one()
    (assignment,) = await worker.pull()
    await floor.node.desk.return_unseen(other.session, [(assignment.job, 1)])
    assert await other.complete(assignment) == [assignment.job]
    assert await worker.complete(assignment) == []
    assert floor.node.gauges.rejected == 2


async def test_attempts_that_outlive_a_report_are_marked_running(floor: Floor) -> None:
    worker = await floor.worker()
    job = await floor.submit_one()
    await worker.pull()
    await floor.node.desk.report(worker.session, Report([], [(job, 1)]))
    assert await floor.state(job) == "running"


async def test_a_silent_worker_is_ended_and_its_jobs_rescued(floor: Floor) -> None:
    worker, other = await floor.worker(), await floor.worker()
    job = await floor.submit_one()
    assert await worker.jobs(1) == [job]
    assert await floor.node.desk.end_silent(10.0) == []
    assert set(await floor.node.desk.end_silent(-1.0)) == {worker.session, other.session}
    await floor.node.rescuer.run_once()
    record = await floor.record(job)
    assert (record.state, record.losses) == ("pending", 1)


async def test_a_session_that_could_not_be_ended_is_ended_later(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await floor.worker()
    job = await floor.submit_one()
    assert await worker.jobs(1) == [job]

    async def refuse(sessions: Sequence[bytes], node: bytes) -> None:
        raise StoreUnavailableError("no connection")

    with monkeypatch.context() as broken:
        broken.setattr(floor.store, "end_sessions", refuse)
        with pytest.raises(StoreUnavailableError):
            await floor.node.desk.end_silent(-1.0)
    await floor.node.rescuer.run_once()
    assert (await floor.record(job)).losses == 1


async def test_a_worker_whose_report_waits_for_the_store_is_not_silent(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await floor.worker()
    await floor.submit_one()
    (assignment,) = await worker.pull()
    down, back, settle = asyncio.Event(), asyncio.Event(), floor.store.settle_attempts

    async def settle_later(session: bytes, settlements: Sequence[Settlement]) -> list[bool]:
        down.set()
        await back.wait()
        return await settle(session, settlements)

    monkeypatch.setattr(floor.store, "settle_attempts", settle_later)
    reporting = asyncio.create_task(worker.complete(assignment))
    await down.wait()
    assert await floor.node.desk.end_silent(-1.0) == []
    back.set()
    assert await reporting == []
    assert await floor.state(assignment.job) == "completed"


async def test_a_limit_that_was_released_while_it_refused_is_asked_again(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, other = await floor.worker(), await floor.session()
    await floor.store.put_queue(floor.queue("q", paused=False, limit=Limit(concurrency=1)))
    first = await floor.submit_one(queue="q", priority=10)
    await floor.assign(other, [first], limits=(("queue/default/q", ""),))
    second = await floor.submit_one(queue="q")
    assign = floor.store.assign_jobs

    async def assign_and_release(picks: Sequence[Pick]) -> list[Assigned]:
        answers = await assign(picks)
        await floor.store.settle_attempts(
            other, [Settlement(first, 1, "completed")]
        )  # its hint comes before our answer
        return answers

    monkeypatch.setattr(floor.store, "assign_jobs", assign_and_release)
    assert await worker.jobs() == [second]


async def test_what_is_being_assigned_counts_as_taken(floor: Floor) -> None:
    """While one assignment commits, the next is chosen: neither a worker nor a limit is given more than it has."""
    worker = await floor.worker(slots=3)
    await floor.store.put_queue(floor.queue("q", paused=False, limit=Limit(concurrency=2)))
    await floor.submit(10, queue="q", priority=10)
    await floor.submit(10)
    assert len(await worker.pull(3)) == 3
    assert floor.node.gauges.held == 0
    assert floor.node.gauges.lost == 0
