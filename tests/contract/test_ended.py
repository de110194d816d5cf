"""What has ended: for those who listen, and for those who look back."""

import math

from contract.scene import START, Scene
from mainspring.core.timer import SECOND, Micros
from mainspring.store.contract import EndedJob, Tally


async def end(scene: Scene, session: bytes, state: str = "completed", run_s: float = 0.0, **job: object) -> bytes:
    """A job that ran for so long and ended so."""
    made = await scene.started(session, **job)
    scene.clock.advance(run_s)
    assert await scene.settle(session, made, 1, state, reason=None if state == "completed" else "error")
    return made


async def ended(scene: Scene, *tenants: str, since: Micros = 0, limit: int = 100) -> list[bytes]:
    return [entry.job for entry in await scene.store.list_ended(tenants, since, limit)]


# --- a list of them


async def test_an_ended_job_is_listed_with_what_listeners_want_to_know(scene: Scene) -> None:
    session = await scene.session()
    scene.clock.advance(5)
    job = await end(scene, session, "failed", tenant="acme", queue="q", kind="k")
    found = await scene.store.list_ended(["acme"], START, 10)
    assert found == [EndedJob(job, "acme", "q", "k", "failed", "error", 1, START + 5 * SECOND)]


async def test_ends_are_listed_by_time_from_then_on_whatever_their_state(scene: Scene) -> None:
    session = await scene.session()
    made = []
    for state in ("completed", "failed", "cancelled", "completed"):
        scene.clock.advance(1)
        made.append(await end(scene, session, state))
    await scene.started(session)
    assert await ended(scene, "default") == made
    assert await ended(scene, "default", since=START + 3 * SECOND) == made[2:]
    assert await ended(scene, "default", since=START + 3 * SECOND + 1) == made[3:]
    assert await ended(scene, "default", since=START + 5 * SECOND) == []


async def test_only_the_tenants_named_are_listed_each_once(scene: Scene) -> None:
    session = await scene.session()
    one = await end(scene, session, tenant="one")
    scene.clock.advance(1)
    two = await end(scene, session, tenant="two")
    await end(scene, session, tenant="three")
    assert await ended(scene, "two", "one") == [one, two]
    assert await ended(scene, "one", "one") == [one]
    assert await ended(scene) == []


async def test_a_page_is_the_earliest_and_the_next_one_goes_on_from_its_last_time(scene: Scene) -> None:
    session = await scene.session()
    await scene.submit(30)
    await scene.assign(session)
    for number, live in enumerate(sorted(await _live(scene))):
        scene.clock.advance(number % 3)  # some of them at the same time
        await scene.settle(session, live, 1, ("completed", "failed", "cancelled")[number % 3])
    everything = await scene.store.list_ended(["default"], 0, 100)
    assert len(everything) == 30
    assert everything == sorted(everything, key=lambda entry: (entry.finished_at, entry.job))
    seen: dict[bytes, EndedJob] = {}
    page = await scene.store.list_ended(["default"], 0, 7)
    while not seen.keys() >= {entry.job for entry in page}:
        seen.update((entry.job, entry) for entry in page)
        page = await scene.store.list_ended(["default"], page[-1].finished_at, 7)
    assert list(seen.values()) == everything


async def _live(scene: Scene) -> list[bytes]:
    return [job for (job,) in scene.rows("select job from live")]


async def test_a_replayed_job_is_listed_when_it_has_ended_again(scene: Scene) -> None:
    session = await scene.session()
    job = await end(scene, session, "failed")
    await scene.replay(job)
    assert await ended(scene, "default") == []
    await scene.assign(session)
    await scene.settle(session, job, 2, "completed")
    assert [(entry.state, entry.attempt) for entry in await scene.store.list_ended(["default"], 0, 9)] == [
        ("completed", 2)
    ]


# --- counts of them


async def test_a_tally_counts_by_kind_state_period_and_running_time(scene: Scene) -> None:
    session = await scene.session()
    for kind, state, run_s in (
        ("a", "completed", 3.0),
        ("a", "completed", 3.1),
        ("a", "failed", 3.0),
        ("b", "failed", 50.0),
    ):
        await end(scene, session, state, run_s, kind=kind)
    tallies = await scene.store.tally_ended("default", START, START + 100 * SECOND, 10 * SECOND)
    assert sorted((t.kind, t.state, t.from_at - START, t.bin, t.count, t.run) for t in tallies) == [
        ("a", "completed", 0, _bin(3.0), 2, 6_100_000),
        ("a", "failed", 0, _bin(3.0), 1, 3_000_000),
        ("b", "failed", 50 * SECOND, _bin(50.0), 1, 50_000_000),
    ]


def _bin(run_s: float) -> int:
    return math.floor(4 * math.log2(run_s * SECOND))


async def test_a_tally_goes_from_since_up_to_until_in_steps_from_since(scene: Scene) -> None:
    session = await scene.session()
    for _ in range(6):
        await end(scene, session, run_s=1.0)
    since, step = START + 2 * SECOND, 2 * SECOND
    tallies = await scene.store.tally_ended("default", since, START + 6 * SECOND, step)
    assert sorted((t.from_at, t.count) for t in tallies) == [(since, 2), (since + step, 2)]
    assert await scene.store.tally_ended("other", START, START + 9 * SECOND, step) == []


async def test_a_tally_sums_waits_and_runs_of_last_attempts(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.submit_one()
    scene.clock.advance(4)
    await scene.assign(session)
    scene.clock.advance(1)
    await scene.fail(session, job, 1, again_in_s=10)
    scene.clock.advance(12)
    await scene.ripen()
    await scene.assign(session)
    scene.clock.advance(3)
    await scene.settle(session, job, 2, "completed")
    (tally,) = await scene.store.tally_ended("default", START, START + 60 * SECOND, 60 * SECOND)
    assert tally == Tally("work", "completed", START, _bin(3.0), 1, 2 * SECOND, 3 * SECOND)


async def test_a_tally_puts_those_that_did_not_run_apart_and_takes_the_shortest_as_one(scene: Scene) -> None:
    session = await scene.session()
    await end(scene, session, "cancelled")
    await scene.store.cancel_jobs(await scene.submit(2))
    tallies = await scene.store.tally_ended("default", START, START + SECOND, SECOND)
    assert sorted((t.bin, t.count, t.wait, t.run) for t in tallies) == [(-1, 2, 0, 0), (0, 1, 0, 0)]


async def test_a_clock_that_was_set_back_makes_no_negative_times(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.started(session)
    scene.clock.jump(-30)
    await scene.settle(session, job, 1, "completed")
    (tally,) = await scene.store.tally_ended("default", START - 60 * SECOND, START, 60 * SECOND)
    assert (tally.bin, tally.wait, tally.run) == (0, 0, 0)


# --- counts of all of them


async def test_jobs_are_counted_for_one_tenant_or_for_all(scene: Scene) -> None:
    await scene.submit(2, tenant="acme", queue="q")
    await scene.submit(3, queue="q")
    assert await scene.store.count_jobs("acme") == {("q", "pending"): 2}
    assert await scene.store.count_jobs("nobody") == {}
    assert await scene.store.count_jobs() == {("q", "pending"): 5}


async def test_waiting_jobs_are_counted_by_lane(scene: Scene) -> None:
    session = await scene.session()
    await scene.submit(2)
    await scene.submit(3, delay=60)
    await scene.started(session, queue="other")
    (other,) = await scene.submit(1, tenant="acme")
    counted = await scene.store.count_waiting()
    lanes = await scene.store.read_lanes(list(counted))
    assert {lanes[number].tenant: count for number, count in counted.items()} == {"default": 5, "acme": 1}
    await scene.store.cancel_jobs([other])
    assert sorted((await scene.store.count_waiting()).values()) == [5]
