"""The end of attempts: I4, I5, I6, I7, I12."""

from typing import Any

import pytest

from contract.scene import FAILURE, START, Scene
from mainspring.core.lifecycle import MAX_LOSSES
from mainspring.core.timer import SECOND
from mainspring.store.contract import AttemptFailure, Ended, Settlement
from mainspring.wire import Failure

# --- each outcome


async def test_i6_a_success_completes_its_job_and_keeps_its_result(scene: Scene) -> None:
    session = await scene.session()
    with_result, without = await scene.started(session), await scene.started(session)
    scene.clock.advance(3)
    answers = await scene.store.settle_attempts(
        session, [Settlement(with_result, 1, "completed", result=b"[1]"), Settlement(without, 1, "completed")]
    )
    assert answers == [True, True]
    record = await scene.record(with_result)
    assert (record.state, record.finished_at, record.reason) == ("completed", START + 3 * SECOND, None)
    assert await scene.store.read_ended([without, with_result]) == [
        Ended("completed", None, None, None, "default", "work"),
        Ended("completed", None, b"[1]", None, "default", "work"),
    ]


async def test_i6_a_final_failure_is_kept_with_its_traceback(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    assert await scene.fail(session, job, 1)
    record = await scene.record(job)
    assert (record.state, record.reason, record.failures) == ("failed", "error", 1)
    assert await scene.store.read_ended([job]) == [Ended("failed", "error", None, FAILURE, "default", "work")]
    assert await scene.store.read_failures(job) == [AttemptFailure(1, START, FAILURE)]


async def test_i7_a_failure_with_a_retry_waits_for_its_time_and_counts(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    assert await scene.fail(session, job, 1, again_in_s=30)
    record = await scene.record(job)
    assert (record.state, record.failures, record.losses, record.attempt) == ("pending", 1, 0, 1)
    assert record.due_at == START + 30 * SECOND
    scene.clock.advance(29.999999)
    assert await scene.ripen() == 0
    scene.clock.advance(0.000001)
    assert await scene.ripen() == 1
    assert [(ready.job, ready.attempt) for ready in await scene.ready()] == [(job, 1)]


async def test_a_job_that_snoozes_or_is_handed_back_counts_as_nothing(scene: Scene) -> None:
    session = await scene.session()
    snoozed, returned = await scene.started(session), await scene.started(session)
    assert await scene.settle(session, snoozed, 1, "pending", due_at=START + SECOND)
    assert await scene.settle(session, returned, 1, "pending")
    for job in (snoozed, returned):
        record = await scene.record(job)
        assert (record.state, record.failures, record.losses, record.attempt) == ("pending", 0, 0, 1)
    assert [ready.job for ready in await scene.ready()] == [returned]


async def test_a_job_may_cancel_itself(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    assert await scene.settle(session, job, 1, "cancelled", reason="raised")
    assert await scene.store.read_ended([job]) == [Ended("cancelled", "raised", None, None, "default", "work")]


async def test_every_failed_attempt_is_kept_oldest_first(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    for attempt in (1, 2, 3):
        failure = Failure("error", "E", f"no {attempt}", "")
        final = attempt == 3
        await scene.settle(
            session,
            job,
            attempt,
            "failed" if final else "pending",
            failure=failure,
            reason="error" if final else None,
            counts="failure",
        )
        scene.clock.advance(1)
        await scene.assign(session)
    history = await scene.store.read_failures(job)
    assert [(entry.attempt, entry.at - START, entry.failure.message) for entry in history] == [
        (1, 0, "no 1"),
        (2, SECOND, "no 2"),
        (3, 2 * SECOND, "no 3"),
    ]
    (ended,) = await scene.store.read_ended([job])
    assert ended is not None
    assert ended.failure is not None
    assert ended.failure.message == "no 3"


async def test_a_job_that_waits_for_another_starts_when_that_has_ended_however_it_ended(scene: Scene) -> None:
    session = await scene.session()
    for ended in ("completed", "failed", "cancelled"):
        parent, child = await scene.chain(2)
        await scene.assign(session, [parent])
        assert await scene.state(child) == "blocked"
        await scene.settle(session, parent, 1, ended)
        assert await scene.state(child) == "pending"


# --- what is not current changes nothing

OUTCOMES: dict[str, dict[str, Any]] = {
    "completed": {"result": b"9"},
    "failed": {"failure": FAILURE, "reason": "error", "counts": "failure"},
    "cancelled": {"reason": "raised"},
    "pending": {"failure": FAILURE, "due_at": START, "counts": "failure"},
}


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("ended", OUTCOMES)
async def test_i6_a_second_outcome_of_an_attempt_changes_nothing(scene: Scene, ended: str, outcome: str) -> None:
    session = await scene.session()
    job = await scene.started(session)
    assert await scene.settle(session, job, 1, ended, **OUTCOMES[ended])
    before = await scene.everything()
    scene.clock.advance(5)
    assert not await scene.settle(session, job, 1, outcome, **OUTCOMES[outcome])
    assert await scene.everything() == before


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_i4_an_outcome_of_an_old_attempt_changes_nothing(scene: Scene, outcome: str) -> None:
    session = await scene.session()
    job = await scene.started(session)
    await scene.settle(session, job, 1, "pending", due_at=START)
    await scene.assign(session)
    before = await scene.everything()
    for attempt in (0, 1, 3):
        assert not await scene.settle(session, job, attempt, outcome, **OUTCOMES[outcome])
    assert await scene.everything() == before
    assert await scene.settle(session, job, 2, "completed")


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_i6_an_outcome_from_a_session_that_does_not_have_the_job_changes_nothing(
    scene: Scene, outcome: str
) -> None:
    session, other = await scene.session(), await scene.session()
    job = await scene.started(session)
    before = await scene.everything()
    assert not await scene.settle(other, job, 1, outcome, **OUTCOMES[outcome])
    assert not await scene.settle(session, b"\0" * 16, 1, outcome, **OUTCOMES[outcome])
    assert await scene.everything() == before


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_i6_a_frozen_worker_that_wakes_up_after_its_rescue_is_fenced(scene: Scene, outcome: str) -> None:
    frozen, alive = await scene.session(), await scene.session()
    job = await scene.started(frozen)
    await scene.store.end_sessions([frozen])
    await scene.store.rescue_attempts(10)
    await scene.assign(alive)
    before = await scene.everything()
    for attempt in (1, 2):
        assert not await scene.settle(frozen, job, attempt, outcome, **OUTCOMES[outcome])
    assert await scene.everything() == before
    assert await scene.settle(alive, job, 2, "completed")


async def test_i6_of_two_outcomes_in_one_report_one_is_accepted(scene: Scene) -> None:
    session = await scene.session()
    twice, mixed, single = [await scene.started(session) for _ in range(3)]
    answers = await scene.store.settle_attempts(
        session,
        [
            Settlement(twice, 1, "completed", result=b"1"),
            Settlement(mixed, 1, "failed", failure=FAILURE, counts="failure"),
            Settlement(twice, 1, "completed", result=b"2"),
            Settlement(mixed, 1, "completed"),
            Settlement(single, 1, "completed"),
        ],
    )
    assert [answers[0] + answers[2], answers[1] + answers[3], answers[4]] == [1, 1, True]
    assert await scene.state(mixed) == ("completed" if answers[3] else "failed")
    (ended,) = await scene.store.read_ended([twice])
    assert ended is not None
    assert ended.result == (b"1" if answers[0] else b"2")


async def test_i6_one_late_outcome_does_not_hold_up_the_others_of_its_report(scene: Scene) -> None:
    session = await scene.session()
    jobs = [await scene.started(session) for _ in range(5)]
    await scene.settle(session, jobs[2], 1, "completed")
    answers = await scene.store.settle_attempts(
        session, [Settlement(job, 1, "completed", result=b"1") for job in (*jobs, b"\0" * 16)]
    )
    assert answers == [True, True, False, True, True, False]
    assert {await scene.state(job) for job in jobs} == {"completed"}


async def test_an_empty_report_settles_nothing(scene: Scene) -> None:
    assert await scene.store.settle_attempts(await scene.session(), []) == []


# --- running


async def test_i4_only_the_current_attempt_is_marked_running(scene: Scene) -> None:
    session = await scene.session()
    current, old, done = [await scene.started(session) for _ in range(3)]
    await scene.settle(session, old, 1, "pending", due_at=START)
    await scene.settle(session, done, 1, "completed")
    await scene.store.mark_running([(current, 1), (old, 1), (done, 1), (b"\0" * 16, 1)])
    assert [await scene.state(job) for job in (current, old, done)] == ["running", "pending", "completed"]
    await scene.store.mark_running([])
    assert await scene.settle(session, current, 1, "completed")


# --- rescue


async def test_i7_an_attempt_lost_with_its_worker_is_pending_again_and_counts_as_a_loss(scene: Scene) -> None:
    dead, alive = await scene.session(), await scene.session()
    job, running, others = (
        await scene.started(dead),
        await scene.started(dead, retries=0),
        await scene.started(alive),
    )
    await scene.store.mark_running([(running, 1)])
    assert await scene.store.rescue_attempts(10) == 0
    await scene.store.end_sessions([dead])
    assert await scene.store.rescue_attempts(10) == 2
    for rescued in (job, running):
        record = await scene.record(rescued)
        assert (record.state, record.failures, record.losses, record.attempt) == ("pending", 0, 1, 1)
    assert await scene.state(others) == "assigned"
    assert await scene.store.rescue_attempts(10) == 0


async def test_i7_a_job_lost_too_often_fails_as_lost(scene: Scene) -> None:
    job = await scene.submit_one()
    for lost in range(1, MAX_LOSSES + 1):
        assert await scene.state(job) == "pending"
        session = await scene.session()
        await scene.assign(session)
        await scene.store.end_sessions([session])
        await scene.store.rescue_attempts(10)
        assert (await scene.record(job)).losses == lost
    record = await scene.record(job)
    assert (record.state, record.reason, record.attempt) == ("failed", "lost", MAX_LOSSES)
    assert await scene.replay(job) == ["pending"]
    assert (await scene.record(job)).losses == 0


async def test_rescue_takes_a_small_batch_at_a_time(scene: Scene) -> None:
    session = await scene.session()
    await scene.submit(5)
    await scene.assign(session)
    await scene.store.end_sessions([session])
    assert [await scene.store.rescue_attempts(2) for _ in range(4)] == [2, 2, 1, 0]


# --- cancel requested


async def test_i12_after_a_cancel_request_a_retry_ends_as_cancelled(scene: Scene) -> None:
    session = await scene.session()
    failed, snoozed, returned = [await scene.started(session) for _ in range(3)]
    await scene.store.cancel_jobs([failed, snoozed, returned])
    await scene.fail(session, failed, 1, again_in_s=5)
    await scene.settle(session, snoozed, 1, "pending", due_at=START + SECOND)
    await scene.settle(session, returned, 1, "pending")
    for job in (failed, snoozed, returned):
        record = await scene.record(job)
        assert (record.state, record.reason) == ("cancelled", "requested")
    assert len(await scene.store.read_failures(failed)) == 1
    assert await scene.store.list_cancelling(session) == []


async def test_i12_after_a_cancel_request_a_rescue_ends_as_cancelled(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    await scene.store.cancel_jobs([job])
    await scene.store.end_sessions([session])
    await scene.store.rescue_attempts(10)
    record = await scene.record(job)
    assert (record.state, record.reason, record.losses) == ("cancelled", "requested", 1)


async def test_a_job_that_ends_by_itself_after_a_cancel_request_keeps_how_it_ended(scene: Scene) -> None:
    session = await scene.session()
    completed, failed = await scene.started(session), await scene.started(session)
    await scene.store.cancel_jobs([completed, failed])
    await scene.settle(session, completed, 1, "completed", result=b"1")
    await scene.fail(session, failed, 1)
    assert [await scene.state(job) for job in (completed, failed)] == ["completed", "failed"]
    assert scene.count("cancel") == 0
