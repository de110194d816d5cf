"""What attempts used, and what lies beside results: written with the end of an attempt, read with the job."""

from typing import Any

from contract.scene import FAILURE, START, Scene
from mainspring.core.timer import SECOND
from mainspring.store.contract import EXPIRED, Settlement, UsageTally

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


# --- sums


async def end(scene: Scene, session: bytes, usage: bytes | None, state: str = "completed", **job: Any) -> bytes:
    """A job that ends a second later than the one before."""
    made = await scene.started(session, **job)
    scene.clock.advance(1)
    assert await scene.settle(session, made, 1, state, usage=usage, reason=None if state == "completed" else "error")
    return made


async def sums(scene: Scene, since_s: float = 0, until_s: float = 100, limit: int = 1000) -> list[UsageTally]:
    tenant = "default"
    tallies, _ = await scene.store.tally_usage(
        tenant, START + int(since_s * SECOND), START + int(until_s * SECOND), limit
    )
    return tallies


async def test_sums_are_by_client_and_kind(scene: Scene) -> None:
    session = await scene.session()
    await end(scene, session, b'{"cpu_s":1.5,"peak_mb":10.5,"read_bytes":5}', kind="a", client="x")
    await end(scene, session, b'{"cpu_s":0.5,"peak_mb":99.0,"sent_bytes":7}', kind="a", client="x", state="failed")
    await end(scene, session, None, kind="a")
    await end(scene, session, b"{}", kind="b", client="x", state="cancelled")
    assert await sums(scene) == [
        UsageTally(None, "a", 1, 1, 0.0),
        UsageTally("x", "a", 2, 2, 2.0, 99.0, 5, None, None, 7),
        UsageTally("x", "b", 1, 1, 0.0),
    ]


async def test_every_attempt_is_in_a_sum_once(scene: Scene) -> None:
    """Two that failed, a replay, one that completed; and one that failed at last, which the job and the failure both have."""
    session = await scene.session()
    job, failed = [await scene.started(session) for _ in range(2)]
    said = {"failure": FAILURE, "counts": "failure"}
    await scene.settle(session, job, 1, "pending", due_at=START, usage=b'{"cpu_s":1.0}', **said)
    await scene.assign(session)
    await scene.settle(session, job, 2, "failed", reason="error", usage=b'{"cpu_s":10.0}', **said)
    await scene.replay(job)
    await scene.assign(session)
    await scene.settle(session, job, 3, "completed", usage=b'{"cpu_s":100.0}')
    await scene.settle(session, failed, 1, "failed", reason="error", usage=b'{"cpu_s":1000.0}', **said)
    assert await sums(scene) == [UsageTally(None, "work", 2, 4, 1111.0)]


async def test_sums_are_of_one_tenant_from_since_up_to_until(scene: Scene) -> None:
    session = await scene.session()
    for _ in range(4):
        await end(scene, session, SMALL)
    await end(scene, session, LARGE, tenant="other")
    await scene.started(session)
    (tally,) = await sums(scene, 2, 4)
    assert (tally.jobs, tally.cpu_s) == (2, 1.0)
    assert await sums(scene, 5, 9) == []


async def test_a_long_time_is_summed_in_steps_and_nothing_is_counted_twice_or_left_out(scene: Scene) -> None:
    session = await scene.session()
    for _ in range(5):
        await end(scene, session, SMALL)
    together = [await scene.started(session) for _ in range(4)]
    await scene.store.settle_attempts(session, [Settlement(job, 1, "completed", usage=SMALL) for job in together])
    since, until, jobs, steps = START, START + 100 * SECOND, 0, 0
    while since < until:
        tallies, reached = await scene.store.tally_usage("default", since, until, 2)
        assert since < reached <= until
        since, jobs, steps = reached, jobs + sum(tally.jobs for tally in tallies), steps + 1
    assert jobs == 9
    assert steps > 2


async def test_results_expire(scene: Scene) -> None:
    session, jobs = await scene.session(), await scene.submit(4)
    won = (await scene.assign(session, jobs)).won
    assert len(won) == 4
    later, soon, sooner, never = jobs
    for job, seconds, outputs in ((later, 60, None), (soon, 20, FILES), (sooner, 10, None), (never, None, FILES)):
        expires_at = None if seconds is None else START + seconds * SECOND
        assert await scene.settle(session, job, 1, "completed", result=b"1", outputs=outputs, expires_at=expires_at)
    assert await scene.store.list_expired(9) == []
    scene.clock.jump_to(START + 20 * SECOND)
    assert sorted(await scene.store.list_expired(9)) == sorted([(sooner, False), (soon, True)])
    assert len(await scene.store.list_expired(1)) == 1
    assert await scene.store.expire_results(jobs) == 2
    assert await scene.store.expire_results(jobs) == 0
    assert await scene.store.expire_results([]) == 0
    assert await scene.store.list_expired(9) == []
    ended = [found for found in await scene.store.read_ended(jobs) if found is not None]
    assert [(found.result, found.outputs) for found in ended] == [
        (b"1", None),
        (EXPIRED, None),
        (EXPIRED, None),
        (b"1", FILES),
    ]
