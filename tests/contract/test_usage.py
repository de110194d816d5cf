"""What attempts used, and what lies beside results: written with the end of an attempt, read with the job."""

from contract.scene import FAILURE, START, Scene
from mainspring.core.timer import SECOND
from mainspring.store.contract import Settlement

SMALL, LARGE = b'{"cpu_s":0.5}', b'{"cpu_s":9.0,"peak_mb":100.0}'
FILES = b'[{"name":"report.csv","size":3,"sha256":"00"}]'


async def test_a_job_has_the_usage_of_its_last_attempt_and_each_failure_its_own(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    again = {"failure": FAILURE, "counts": "failure"}
    assert await scene.settle(session, job, 1, "pending", due_at=START, usage=LARGE, **again)
    assert (await scene.record(job)).usage == LARGE
    await scene.assign(session)
    assert await scene.settle(session, job, 2, "completed", usage=SMALL)
    assert (await scene.record(job)).usage == SMALL
    assert [failed.usage for failed in await scene.store.read_failures(job)] == [LARGE]


async def test_an_attempt_whose_usage_is_not_known_leaves_none(scene: Scene) -> None:
    session = await scene.session()
    lost, completed = [await scene.started(session) for _ in range(2)]
    for job in (lost, completed):
        await scene.settle(session, job, 1, "pending", due_at=START, usage=LARGE)
    await scene.assign(session)
    assert await scene.settle(session, completed, 2, "completed")
    await scene.store.end_sessions([session])
    assert await scene.store.rescue_attempts(10) == 1
    assert [(await scene.record(job)).usage for job in (lost, completed)] == [None, None]


async def test_cancelled_and_failed_attempts_have_their_usage_and_a_replay_keeps_it_until_the_next_one_ends(
    scene: Scene,
) -> None:
    session = await scene.session()
    failed, cancelled = [await scene.started(session) for _ in range(2)]
    await scene.settle(session, failed, 1, "failed", failure=FAILURE, reason="error", counts="failure", usage=LARGE)
    await scene.settle(session, cancelled, 1, "cancelled", reason="requested", usage=SMALL)
    assert [(await scene.record(job)).usage for job in (failed, cancelled)] == [LARGE, SMALL]
    await scene.replay(failed, cancelled)
    assert [(await scene.record(job)).usage for job in (failed, cancelled)] == [LARGE, SMALL]
    await scene.assign(session)
    await scene.settle(session, failed, 2, "completed")
    assert (await scene.record(failed)).usage is None


async def test_i4_a_late_outcome_leaves_usage_and_outputs_as_they_are(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    assert await scene.settle(session, job, 1, "completed", usage=SMALL, outputs=FILES)
    before = await scene.everything()
    assert not await scene.settle(session, job, 1, "completed", usage=LARGE, outputs=b"[]", result=b"1")
    assert not await scene.settle(session, job, 1, "failed", failure=FAILURE, reason="error", usage=LARGE)
    assert await scene.everything() == before


async def test_of_many_that_end_together_each_has_its_own(scene: Scene) -> None:
    """With a result, with outputs, with both, with neither, with an end."""
    session = await scene.session()
    jobs = [await scene.started(session) for _ in range(5)]
    expires_at = START + 60 * SECOND
    settlements = [
        Settlement(jobs[0], 1, "completed", result=b"0", usage=SMALL),
        Settlement(jobs[1], 1, "completed", outputs=FILES),
        Settlement(jobs[2], 1, "completed", result=b"2", outputs=FILES, usage=LARGE),
        Settlement(jobs[3], 1, "completed", expires_at=expires_at),
        Settlement(jobs[4], 1, "completed", result=b"4", expires_at=expires_at),
    ]
    assert await scene.store.settle_attempts(session, settlements) == [True] * 5
    ended = [found for found in await scene.store.read_ended(jobs) if found]
    assert [(found.result, found.outputs, found.expires_at) for found in ended] == [
        (b"0", None, None),
        (b"null", FILES, None),
        (b"2", FILES, None),
        (None, None, None),
        (b"4", None, expires_at),
    ]
    assert [(await scene.record(job)).usage for job in jobs] == [SMALL, None, LARGE, None, None]
