"""Calls that come twice, late or never, and what a worker elsewhere is told."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from dispatch.floor import Floor, Hand, dispatch, open_floor
from mainspring.core.job import Options
from mainspring.dispatch import place
from mainspring.errors import SessionEndedError, StoreUnavailableError
from mainspring.node import Node
from mainspring.store.contract import Settlement
from mainspring.wire import Assignment, Outcome, OutcomeType, Progress, PullReply, Report


@pytest.fixture
async def floor(folder: Path) -> AsyncIterator[Floor]:
    async with open_floor(folder) as made:
        yield made


async def asked(floor: Floor, worker: Hand, number: int, free: int = 10) -> "asyncio.Task[list[Assignment]]":
    """A pull that waits."""
    pulling = asyncio.create_task(floor.node.desk.pull(worker.session, number, free))
    await asyncio.sleep(0)
    return pulling


async def polled(floor: Floor, worker: Hand, number: int) -> "asyncio.Task[PullReply]":
    polling = asyncio.create_task(floor.node.desk.poll(worker.session, number, 10))
    await asyncio.sleep(0)
    return polling


async def answers(*pulls: "asyncio.Task[list[Assignment]]") -> list[list[bytes]]:
    async with asyncio.timeout(10):
        return [[assignment.job for assignment in await pull] for pull in pulls]


# --- pulls


async def test_two_pulls_with_the_same_number_at_once_get_the_same_answer(floor: Floor) -> None:
    worker = await floor.worker()
    first, second = await asked(floor, worker, 1), await asked(floor, worker, 1)
    jobs = await floor.submit(2)
    await dispatch(floor.node)
    assert await answers(first, second) == [jobs, jobs]


async def test_a_newer_number_ends_the_wait_of_an_older_one_with_nothing(floor: Floor) -> None:
    worker = await floor.worker()
    older = await asked(floor, worker, 1)
    newer = await asked(floor, worker, 2)
    assert await answers(older) == [[]]
    job = await floor.submit_one()
    await dispatch(floor.node)
    assert await answers(newer) == [[job]]
    assert await floor.node.desk.pull(worker.session, 1, 10) == []


async def test_nothing_is_lost_between_an_older_and_a_newer_number(floor: Floor) -> None:
    """What came for the older one in the moment in which it was left goes to the newer one."""
    worker = await floor.worker()
    older = await asked(floor, worker, 1)
    job = Assignment(b"1" * 16, 1, "default", "default", "work", b"{}", Options())
    floor.node.desk.deliver(worker.session, [job])  # wakes the older one, which has not run yet
    newer = floor.node.desk.pull(worker.session, 2, 10)
    async with asyncio.timeout(10):
        assert (await newer, await older) == ([job], [])


async def test_a_pull_without_work_is_answered_after_its_time_for_all_who_asked_it(floor: Floor) -> None:
    worker = await floor.worker()
    waiting = await asked(floor, worker, 1)
    assert await floor.node.desk.pull(worker.session, 1, 10, wait_s=0.0) == []
    async with asyncio.timeout(10):
        assert await floor.node.desk.pull(worker.session, 1, 10) == []
    job = await floor.submit_one()
    newer = await asked(floor, worker, 2)
    await dispatch(floor.node)
    assert await answers(waiting, newer) == [[], [job]]


async def test_who_waits_is_told_that_the_session_has_ended(floor: Floor) -> None:
    worker = await floor.worker()
    first, second = await asked(floor, worker, 1), await asked(floor, worker, 1)
    assert await floor.node.desk.remove(worker.session)
    for waiting in (first, second):
        with pytest.raises(SessionEndedError):
            await waiting
    assert not await floor.node.desk.remove(worker.session)


async def test_a_repeated_answer_leaves_out_what_was_taken_back_or_has_ended(floor: Floor) -> None:
    worker = await floor.worker()
    first, second = await floor.submit(2)
    done, _ = await worker.pull()
    await worker.complete(done)
    again = await floor.node.desk.pull(worker.session, worker._number, 10)
    assert ([a.job for a in again], done.job) == ([second], first)


# --- reports


class Watch:
    """The time as the desk sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr("mainspring.dispatch.place.time.monotonic", lambda: self.now_s)


async def beats(floor: Floor, worker: Hand, watch: Watch, count: int, running: list[tuple[bytes, int]] | None) -> None:
    for _ in range(count):
        watch.now_s += place.HEARTBEAT_S
        await floor.node.desk.report(worker.session, Report([], running))


async def test_what_is_missing_from_two_reports_returns_and_counts_as_nothing(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, watch = await floor.worker(), Watch(monkeypatch)
    lost, kept = await floor.submit(2)
    await worker.pull()
    await beats(floor, worker, watch, 3, [(kept, 1)])  # the first ones may have been sent before it was there
    assert await floor.state(lost) == "assigned"
    await beats(floor, worker, watch, 1, [(kept, 1)])
    record = await floor.record(lost)
    assert (record.state, record.failures, record.losses) == ("pending", 0, 0)
    assert await floor.state(kept) == "running"
    (again,) = await worker.pull()
    assert (again.job, again.attempt) == (lost, 2)


async def test_signs_of_life_say_nothing_about_what_runs(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, watch = await floor.worker(), Watch(monkeypatch)
    job = await floor.submit_one()
    await worker.pull()
    await beats(floor, worker, watch, 9, None)
    assert await floor.state(job) == "assigned"


async def test_what_is_mentioned_again_was_not_forgotten(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, watch = await floor.worker(), Watch(monkeypatch)
    job = await floor.submit_one()
    await worker.pull()
    for _ in range(3):
        await beats(floor, worker, watch, 3, [])
        await beats(floor, worker, watch, 1, [(job, 1)])
    assert await floor.state(job) == "running"


async def test_what_no_pull_was_answered_with_cannot_be_mentioned(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, watch = await floor.worker(), Watch(monkeypatch)
    (await asked(floor, worker, 1)).cancel()
    job = await floor.submit_one()
    await dispatch(floor.node)
    await beats(floor, worker, watch, 9, [])
    assert await answers(await asked(floor, worker, 2)) == [[job]]


async def test_a_repeated_pull_gives_its_jobs_their_time_anew(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, watch = await floor.worker(), Watch(monkeypatch)
    job = await floor.submit_one()
    await worker.pull()
    for _ in range(4):
        await beats(floor, worker, watch, 3, [])
        assert [a.job for a in await floor.node.desk.pull(worker.session, worker._number, 10)] == [job]
    assert await floor.state(job) == "assigned"


async def test_a_report_repeated_while_the_first_is_under_way_is_accepted_too(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await floor.worker()
    await floor.submit_one()
    (assignment,) = await worker.pull()
    begun, go_on, settle = asyncio.Event(), asyncio.Event(), floor.store.settle_attempts

    async def settle_later(session: bytes, settlements: Sequence[Settlement]) -> list[bool]:
        begun.set()
        await go_on.wait()
        return await settle(session, settlements)

    monkeypatch.setattr(floor.store, "settle_attempts", settle_later)
    reports = [asyncio.create_task(worker.complete(assignment)) for _ in range(2)]
    await begun.wait()
    await asyncio.sleep(0)
    go_on.set()
    assert [await report for report in reports] == [[], []]
    assert (floor.node.gauges.settled, floor.node.gauges.rejected) == (1, 0)


async def test_an_outcome_that_the_store_could_not_take_is_not_remembered_as_accepted(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await floor.worker()
    await floor.submit_one()
    (assignment,) = await worker.pull()

    async def fail(*_: object) -> list[bool]:
        raise StoreUnavailableError("no connection")

    with monkeypatch.context() as broken:
        broken.setattr(floor.store, "settle_attempts", fail)
        with pytest.raises(StoreUnavailableError):
            await worker.complete(assignment)
    assert await worker.complete(assignment) == []
    assert await floor.state(assignment.job) == "completed"


async def test_the_memory_of_accepted_outcomes_is_bounded(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_REMEMBERED", 2)
    worker = await floor.worker()
    jobs = []
    for _ in range(8):
        await floor.submit_one()
        (assignment,) = await worker.pull()
        jobs.append(assignment)
        await worker.complete(assignment)
    assert await worker.complete(jobs[-1]) == []
    assert await worker.complete(jobs[0]) == [jobs[0].job]
    remembered = floor.node.desk._places[worker.session]
    assert len(remembered._accepted) + len(remembered._accepted_before) <= 6


async def test_progress_is_stored(floor: Floor) -> None:
    worker = await floor.worker()
    job = await floor.submit_one()
    await worker.pull()
    report = Report([], None, [Progress(job, 1, 40.0, "half way, nearly")])
    await floor.node.desk.report(worker.session, report)
    (progress,) = await floor.store.read_progress([job])
    assert progress is not None
    assert (progress.percent, progress.message) == (40.0, "half way, nearly")


# --- workers elsewhere


async def test_a_cancel_wakes_the_pull_of_a_worker_elsewhere_once_and_its_reports_repeat_it(floor: Floor) -> None:
    worker = await floor.worker(remote=True)
    job = await floor.submit_one()
    await worker.pull()
    polling = await polled(floor, worker, 2)
    await floor.store.cancel_jobs([job])
    await floor.node.canceller.run_once()
    async with asyncio.timeout(10):
        assert await polling == PullReply([], [job], False)
    polling = await polled(floor, worker, 3)
    await floor.node.canceller.run_once()
    await asyncio.sleep(0)
    assert not polling.done()
    assert (await floor.node.desk.report(worker.session, Report([], [(job, 1)]))).cancel == [job]
    polling.cancel()


async def test_a_cancel_goes_with_whatever_answer_comes_first(floor: Floor) -> None:
    worker = await floor.worker(remote=True)
    job = await floor.submit_one()
    await worker.pull()
    await floor.store.cancel_jobs([job])
    await floor.node.canceller.run_once()
    assert (await floor.node.desk.report(worker.session, Report([]))).cancel == [job]
    assert (await floor.node.desk.report(worker.session, Report([]))).cancel == []


@pytest.mark.parametrize("remote", [True, False])
async def test_a_worker_that_shall_leave_gets_nothing_more_and_is_told(floor: Floor, remote: bool) -> None:
    worker = await floor.worker(remote=remote)
    running = await floor.submit_one()
    (assignment,) = await worker.pull()
    assert await floor.node.desk.drain(worker.session)
    await floor.submit(3)
    assert await worker.pull() == []
    assert (await floor.node.desk.report(worker.session, Report([]))).drain
    assert await worker.complete(assignment) == []
    assert await floor.state(running) == "completed"


async def test_a_worker_elsewhere_hears_at_once_that_it_shall_leave_and_only_once(floor: Floor) -> None:
    worker = await floor.worker(remote=True)
    polling = await polled(floor, worker, 1)
    await floor.node.desk.drain(worker.session)
    async with asyncio.timeout(10):
        assert await polling == PullReply([], [], True)
    polling = await polled(floor, worker, 2)
    assert not polling.done()  # or a worker that asks on would ask for ever
    polling.cancel()


async def test_a_worker_that_is_not_here_cannot_be_told(floor: Floor) -> None:
    assert not await floor.node.desk.drain(b"0" * 16)
    assert b"0" * 16 not in floor.node.desk


# --- tenants


async def test_i16_a_worker_of_one_tenant_gets_no_jobs_of_another(floor: Floor) -> None:
    worker = await floor.worker(tenant="acme")
    theirs, ours = await floor.submit_one(tenant="other"), await floor.submit_one(tenant="acme")
    assert await worker.jobs() == [ours]
    assert await worker.jobs() == []
    (record,) = await floor.store.list_sessions()
    assert record.tenant == "acme"
    everybodys = await floor.worker()
    assert await everybodys.jobs() == [theirs]


async def test_i16_an_outcome_for_a_job_of_another_session_is_rejected(floor: Floor) -> None:
    worker, other = await floor.worker(), await floor.worker()
    job = await floor.submit_one()
    await worker.pull()
    forged = Report([Outcome(job, 1, OutcomeType.COMPLETED)], [(job, 1)])
    assert (await floor.node.desk.report(other.session, forged)).rejected == [job]
    assert await floor.state(job) != "completed"


# --- a worker that outlives its node


async def gone(floor: Floor, other: Node | None = None) -> None:
    """Others have ended the first node, and taken its partitions; it does not know."""
    await floor.store.end_nodes({floor.node.id: None})
    if other is not None:
        await other.ownership.look()


async def test_a_worker_elsewhere_comes_back_to_another_node_with_what_it_runs(floor: Floor) -> None:
    worker = await floor.worker(remote=True, cpu=4.0)
    await floor.limit("queue/default/q", concurrency=2)
    first, second = await floor.submit(2, queue="q", cpu=1.5)
    running = await worker.pull()
    assert len(running) == 2
    other = await floor.join("second")
    assert not await other.desk.adopt(worker.session), "its node lives"
    await gone(floor, other)
    assert await other.desk.adopt(worker.session)
    assert await other.desk.adopt(worker.session), "it is there"
    seat = other.dispatcher.matcher.seats[worker.session]
    assert (seat.cpu, seat.info.slots) == (1.0, 10)
    back = Hand(other, worker.session)
    third = await floor.submit_one(queue="q", cpu=0.5)
    assert await back.pull() == [], "the limit counts what it brought along"
    assert await back.complete(*running) == []
    assert [await floor.state(job) for job in (first, second)] == ["completed"] * 2
    assert await back.jobs() == [third]
    assert seat.cpu == 3.5


async def test_what_the_old_node_could_not_hand_over_returns_by_the_reports(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, watch = await floor.worker(remote=True), Watch(monkeypatch)
    job = await floor.submit_one()
    await worker.pull()  # its answer never arrived
    other = await floor.join("second")
    await gone(floor, other)
    assert await other.desk.adopt(worker.session)
    for _ in range(4):
        watch.now_s += place.HEARTBEAT_S
        await other.desk.report(worker.session, Report([], []))
    record = await floor.record(job)
    assert (record.state, record.losses, record.failures) == ("pending", 0, 0)


async def test_a_node_that_does_not_know_that_it_has_ended_harms_no_session_that_has_left(floor: Floor) -> None:
    worker = await floor.worker(remote=True)
    other = await floor.join("second")
    await gone(floor, other)
    assert await other.desk.adopt(worker.session)
    job = await floor.submit_one()
    assert await worker.jobs() == [], "assigned by the old one"
    assert await floor.node.desk.end_silent(-1.0) == [worker.session]
    assert (await floor.store.read_sessions([worker.session]))[0] is not None
    assert await Hand(other, worker.session).jobs() == [job]


async def test_a_local_workers_session_is_over_with_its_node(floor: Floor) -> None:
    worker = await floor.worker()
    other = await floor.join("second")
    await gone(floor, other)
    assert not await other.desk.adopt(worker.session)


async def test_what_ends_here_is_not_taken_over_again(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await floor.worker(remote=True)

    async def fail(*_: object) -> None:
        raise StoreUnavailableError("no connection")

    with monkeypatch.context() as broken:
        broken.setattr(floor.store, "end_sessions", fail)
        with pytest.raises(StoreUnavailableError):
            await floor.node.desk.end_silent(-1.0)
    assert not await floor.node.desk.adopt(worker.session)


async def test_a_node_that_starts_again_takes_its_workers_back(floor: Floor) -> None:
    worker, local = await floor.worker(remote=True), await floor.worker()
    waiting, ended = await asked(floor, worker, 1), await asked(floor, local, 1)
    await gone(floor)
    floor.node.desk.abandon()
    with pytest.raises(StoreUnavailableError):
        await waiting
    with pytest.raises(SessionEndedError):
        await ended
    await floor.node.join()
    assert await floor.node.desk.adopt(worker.session)
    assert not await floor.node.desk.adopt(local.session)
