"""How far an attempt says it is: kept while the attempt is live, and gone with it."""

import pytest

from contract.scene import START, Scene
from mainspring.core.timer import SECOND
from mainspring.wire import Progress


async def said(scene: Scene, job: bytes) -> tuple[float, str] | None:
    (progress,) = await scene.store.read_progress([job])
    return None if progress is None else (progress.percent, progress.message)


async def test_the_last_that_an_attempt_said_is_kept_with_its_time(scene: Scene) -> None:
    session = await scene.session()
    job, silent = await scene.started(session), await scene.started(session)
    await scene.store.mark_running([], [Progress(job, 1, 10.0, "first"), Progress(job, 1, 20.5, "second")])
    scene.clock.advance(5)
    assert await scene.store.read_progress([silent, job, b"\0" * 16]) == [
        None,
        Progress(job, 1, 20.5, "second", START),
        None,
    ]
    await scene.store.mark_running([(job, 1)], [Progress(job, 1, 90.0)])
    assert await scene.store.read_progress([job]) == [Progress(job, 1, 90.0, "", START + 5 * SECOND)]
    assert await scene.state(job) == "running"


async def test_i4_only_a_live_attempt_is_listened_to(scene: Scene) -> None:
    session = await scene.session()
    again, done, waiting = await scene.started(session), await scene.started(session), await scene.submit_one()
    await scene.fail(session, again, 1, again_in_s=0)
    await scene.assign(session, [again])
    await scene.settle(session, done, 1, "completed")
    late = [Progress(job, attempt, 50.0) for job, attempt in ((again, 1), (done, 1), (waiting, 0), (b"\0" * 16, 1))]
    await scene.store.mark_running([], late)
    assert await scene.store.read_progress([again, done, waiting]) == [None, None, None]
    await scene.store.mark_running([], [Progress(again, 2, 60.0), *late])
    assert await said(scene, again) == (60.0, "")


@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled", "pending"])
async def test_it_goes_with_every_end_of_the_attempt(scene: Scene, outcome: str) -> None:
    session = await scene.session()
    job, other = await scene.started(session), await scene.started(session)
    await scene.store.mark_running([], [Progress(job, 1, 50.0), Progress(other, 1, 30.0)])
    await scene.settle(session, job, 1, outcome, due_at=START if outcome == "pending" else None)
    assert (await said(scene, job), await said(scene, other)) == (None, (30.0, ""))
    assert scene.count("progress") == 1


async def test_it_goes_when_the_attempt_is_lost(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    await scene.store.mark_running([], [Progress(job, 1, 50.0)])
    await scene.store.end_sessions([session])
    await scene.store.rescue_attempts(10)
    assert (await said(scene, job), scene.count("progress")) == (None, 0)


async def test_a_late_outcome_does_not_take_the_next_attempts_progress(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    await scene.fail(session, job, 1, again_in_s=0)
    await scene.assign(session)
    await scene.store.mark_running([], [Progress(job, 2, 50.0)])
    assert not await scene.settle(session, job, 1, "completed")
    assert await said(scene, job) == (50.0, "")
