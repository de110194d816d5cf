"""Assignments that fail, or of which nobody can tell: no job is left behind, and none is given away twice."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from contract.scene import FAILURE
from dispatch.floor import Floor, Hand, dispatch, open_floor
from mainspring.core.job import Limit
from mainspring.errors import StoreError, StoreUnavailableError, StoreUncertainError
from mainspring.wire import Assignment, Outcome, OutcomeType, Report


@pytest.fixture
async def floor(folder: Path) -> AsyncIterator[Floor]:
    async with open_floor(folder) as made:
        yield made


async def pull_through(
    floor: Floor, worker: Hand, broken: pytest.MonkeyPatch, error: type[StoreError]
) -> list[Assignment]:
    """What a worker gets that asked before a round failed, and is answered after it."""
    worker._number += 1
    pulling = asyncio.create_task(floor.node.desk.pull(worker.session, worker._number, 10))
    await asyncio.sleep(0)
    with pytest.raises(error):
        await dispatch(floor.node)
    broken.undo()
    await dispatch(floor.node)
    async with asyncio.timeout(10):
        return await pulling


async def test_jobs_that_were_assigned_although_the_answer_was_lost_are_given_away_again(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await floor.worker()
    jobs, assign = await floor.submit(3), floor.store.assign_jobs

    async def assign_and_fail(picks: Sequence[Any]) -> Any:
        await assign(picks)
        raise StoreUncertainError("the connection broke during the commit")

    monkeypatch.setattr(floor.store, "assign_jobs", assign_and_fail)
    got = await pull_through(floor, worker, monkeypatch, StoreUncertainError)
    assert [(each.job, each.attempt) for each in got] == [(job, 2) for job in jobs]
    records = [await floor.record(job) for job in jobs]
    assert {(record.state, record.failures, record.losses) for record in records} == {("assigned", 0, 0)}
    assert await worker.complete(*got) == []


async def test_jobs_that_were_not_assigned_are_assigned_when_the_store_is_back(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await floor.worker()
    jobs = await floor.submit(3)

    async def fail(picks: Sequence[Any]) -> Any:
        raise StoreUnavailableError("no connection")

    monkeypatch.setattr(floor.store, "assign_jobs", fail)
    got = await pull_through(floor, worker, monkeypatch, StoreUnavailableError)
    assert [(each.job, each.attempt) for each in got] == [(job, 1) for job in jobs]


async def test_jobs_that_could_not_be_handed_over_are_given_away_again(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await floor.worker()
    await floor.limit("queue/default/q", concurrency=1)
    first, second = await floor.submit(2, queue="q")

    async def fail(ids: Sequence[bytes]) -> Any:
        raise StoreUnavailableError("no connection")

    monkeypatch.setattr(floor.store, "read_specs", fail)
    (got,) = await pull_through(floor, worker, monkeypatch, StoreUnavailableError)
    assert (got.job, got.attempt) == (first, 2)
    await worker.complete(got)
    assert await worker.jobs() == [second]


async def test_what_a_worker_has_is_not_taken_back(floor: Floor) -> None:
    """A job that seemed to fail and was then assigned after all."""
    worker = await floor.worker()
    job = await floor.submit_one()
    (assignment,) = await worker.pull()
    await floor.node.desk.return_unseen(worker.session, [(job, 1)])
    assert await floor.state(job) == "assigned"
    assert await worker.complete(assignment) == []


async def test_what_could_not_be_taken_back_is_taken_back_later(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await floor.worker()
    job, assign = await floor.submit_one(), floor.store.assign_jobs

    async def assign_and_fail(picks: Sequence[Any]) -> Any:
        await assign(picks)
        raise StoreUncertainError("the connection broke during the commit")

    async def fail(*_: Any) -> Any:
        raise StoreUnavailableError("no connection")

    pulling = asyncio.create_task(floor.node.desk.pull(worker.session, 1, 10))
    await asyncio.sleep(0)
    with monkeypatch.context() as broken:
        broken.setattr(floor.store, "assign_jobs", assign_and_fail)
        broken.setattr(floor.store, "settle_attempts", fail)
        with pytest.raises(StoreUncertainError):
            await dispatch(floor.node)
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                await dispatch(floor.node)
    await dispatch(floor.node)
    assert [each.job for each in await pulling] == [job]


async def test_what_was_read_in_part_is_read_anew(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queues could not be read when the first worker came: a paused one stays paused."""
    await floor.store.put_queue(floor.queue("q", paused=True, limit=Limit()))
    held, free = await floor.submit_one(queue="q"), await floor.submit_one()
    worker = await floor.worker()

    async def fail() -> Any:
        raise StoreUnavailableError("no connection")

    monkeypatch.setattr(floor.store, "list_queues", fail)
    got = await pull_through(floor, worker, monkeypatch, StoreUnavailableError)
    assert [each.job for each in got] == [free]
    assert await floor.state(held) == "pending"


async def test_a_report_that_comes_again_does_not_end_the_next_attempt(floor: Floor) -> None:
    """Its answer was lost, and meanwhile the same worker got the job again."""
    worker = await floor.worker()
    job = await floor.submit_one(retries=1)
    await worker.pull()
    failed = Report([Outcome(job, 1, OutcomeType.FAILED, failure=FAILURE, retry=True, retry_after_s=0.0)])
    assert (await floor.node.desk.report(worker.session, failed)).rejected == []
    (again,) = await worker.pull()
    assert again.attempt == 2
    assert (await floor.node.desk.report(worker.session, failed)).rejected == []
    assert list(floor.node.desk._places[worker.session].live.values()) == [again]
    await floor.node.desk.return_unseen(worker.session, [(job, 2)])
    assert await floor.state(job) == "assigned"
    assert await worker.complete(again) == []


async def test_an_attempt_in_doubt_is_taken_back_although_the_one_before_is_still_at_the_desk(floor: Floor) -> None:
    worker = await floor.worker()
    job = await floor.submit_one(retries=1)
    (first,) = await worker.pull()
    await floor.fail(worker.session, job, 1, again_in_s=0)  # settled, but the answer has not come
    (ready,) = await floor.ready()
    await floor.assign_stale(worker.session, [ready])
    await floor.node.desk.return_unseen(worker.session, [(job, 2)])
    assert await floor.state(job) == "pending"
    assert floor.node.desk._places[worker.session].live == {job: first}


async def test_a_cancel_that_could_not_be_settled_is_settled_later_and_the_job_does_not_start(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await floor.worker()
    pulling = asyncio.create_task(floor.node.desk.pull(worker.session, 1, 10))
    await asyncio.sleep(0)
    pulling.cancel()  # what is assigned now waits for the next pull
    job = await floor.submit_one()
    await dispatch(floor.node)
    assert await floor.store.cancel_jobs([job]) == ["requested"]

    async def fail(*_: Any) -> Any:
        raise StoreUnavailableError("no connection")

    with monkeypatch.context() as broken:
        broken.setattr(floor.store, "settle_attempts", fail)
        with pytest.raises(StoreUnavailableError):
            await floor.node.desk.tell_cancels()
    worker._number = 1
    assert await worker.pull() == []
    await floor.node.desk.tell_cancels()
    assert await floor.state(job) == "cancelled"
    assert floor.node.desk._places[worker.session].live == {}
