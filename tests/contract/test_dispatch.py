"""The ready order and assigning from it: I3, I4, I13, I14."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.backends import Fresh
from contract.scene import LEASE_S, START, Scene
from mainspring.core.job import Limit
from mainspring.core.timer import SECOND
from mainspring.store.contract import Assigned, Pick, Ready

QUEUE = "queue/default/q"
LIMITS = ((QUEUE, ""),)

# --- order


async def test_ready_jobs_come_by_priority_then_by_time_then_by_submit(scene: Scene) -> None:
    old = await scene.submit(2, priority=5)
    scene.clock.advance(10)
    young, urgent, low = (
        await scene.submit_one(priority=5),
        await scene.submit_one(priority=6),
        await scene.submit_one(priority=1),
    )
    assert [ready.job for ready in await scene.ready()] == [urgent, *old, young, low]


async def test_a_low_job_overtakes_newer_ones_once_it_has_waited_its_hour_per_step(scene: Scene) -> None:
    low = await scene.submit_one(priority=4)
    scene.clock.advance(3601)
    await scene.submit_one(priority=5)
    assert (await scene.ready())[0].job == low


async def test_a_deadline_pulls_a_job_forward(scene: Scene) -> None:
    await scene.submit_one(priority=9)
    tight, _ = await scene.submit_one(priority=1, deadline=60, timeout=30), await scene.submit_one(deadline=90_000)
    assert (await scene.ready())[0].job == tight


async def test_streams_are_listed_each_once_with_their_lowest_rank(scene: Scene) -> None:
    for tenant in ("a", "b"):
        for priority in (1, 5, 10):
            await scene.submit(40, tenant=tenant, priority=priority)
    streams = await scene.store.list_streams(scene.everywhere)
    by_hand = scene.rows("select partition, band, lane, min(rank) from ready group by partition, band, lane")
    assert sorted(streams) == sorted(by_hand)
    assert len(streams) == len({stream[:3] for stream in streams})
    await scene.submit_in(1)
    assert {stream[0] for stream in await scene.store.list_streams([1])} == {1}
    assert await scene.store.list_streams([]) == []


async def test_a_cursor_continues_where_the_last_read_ended_without_gap_or_repeat(scene: Scene) -> None:
    for partition in (0, 1):
        await scene.submit_many_in(partition, 50)
    streams = await scene.store.list_streams(scene.everywhere)
    assert [stream[0] for stream in streams] == [0, 1]
    for partition, band, lane, _ in streams:
        stream = (partition, band, lane)
        (whole,) = await scene.store.read_ready([(stream, None)], 1000)
        assert whole == sorted(whole, key=lambda ready: (ready.rank, ready.job))
        pages: list[Ready] = []
        while page := (await scene.store.read_ready([(stream, (pages[-1].rank, pages[-1].job) if pages else None)], 7))[
            0
        ]:
            pages += page
        assert pages == whole
        assert await scene.store.read_ready([(stream, (whole[3].rank, b"\0" * 16)), (stream, None)], 1) == [
            [whole[3]],
            [whole[0]],
        ]


# --- assign


async def test_i4_an_assigned_job_has_the_next_attempt_a_live_row_and_no_ready_row(scene: Scene) -> None:
    session = await scene.session()
    jobs = await scene.submit(10)
    scene.clock.advance(2)
    answer = await scene.assign(session)
    assert [won.job for won in answer.won] == jobs
    assert (answer.lost, answer.held) == ([], [])
    for job in jobs:
        record = await scene.record(job)
        assert (record.state, record.attempt, record.started_at) == ("assigned", 1, START + 2 * SECOND)
    assert await scene.ready() == []
    assert {row[0] for row in scene.rows("select session from live")} == {session}
    assert await scene.store.find_session(jobs[0]) == session


async def test_i3_i4_a_job_can_be_assigned_once_however_often_it_was_read(scene: Scene) -> None:
    one, other = await scene.session(), await scene.session()
    await scene.submit(6)
    seen = await scene.ready()
    first, second = await asyncio.gather(
        scene.store.assign_jobs([Pick(one, seen[:4])]), scene.store.assign_jobs([Pick(other, seen[2:])])
    )
    assert sorted(first[0].won + second[0].won, key=seen.index) == seen  # each by one of them, whoever was first
    assert first[0].lost == [ready for ready in seen[:4] if ready in second[0].won]
    assert second[0].lost == [ready for ready in seen[2:] if ready in first[0].won]
    for ready in seen:
        assert (await scene.record(ready.job)).attempt == 1


async def test_i3_two_picks_of_one_call_for_one_job_give_it_to_one(scene: Scene) -> None:
    one, other = await scene.session(), await scene.session()
    await scene.submit(3)
    seen = await scene.ready()
    answers = await scene.store.assign_jobs([Pick(one, seen[:2]), Pick(other, seen[1:])])
    assert [answer.won for answer in answers] == [seen[:2], seen[2:]]
    assert [answer.lost for answer in answers] == [[], [seen[1]]]
    scene.check()


async def test_i4_a_pick_with_an_old_attempt_wins_nothing(scene: Scene) -> None:
    session = await scene.session()
    job = await scene.submit_one()
    old = await scene.ready()
    await scene.assign(session)
    await scene.settle(session, job, 1, "pending", due_at=START)
    assert (await scene.ready())[0].attempt == 1
    answer = await scene.assign_stale(session, old)
    assert (answer.won, answer.lost) == ([], old)
    assert (await scene.record(job)).attempt == 1
    assert len((await scene.assign(session)).won) == 1


async def test_what_cannot_be_assigned_does_not_hold_up_the_rest_of_its_pick(scene: Scene) -> None:
    session = await scene.session()
    jobs = await scene.submit(5)
    seen = await scene.ready()
    await scene.store.cancel_jobs([jobs[1], jobs[3]])
    stranger = Ready(seen[0].rank, b"\0" * 16, 0, seen[0].lane)
    answer = await scene.assign_stale(session, [*seen, stranger])
    assert [won.job for won in answer.won] == [jobs[0], jobs[2], jobs[4]]
    assert [lost.job for lost in answer.lost] == [jobs[1], jobs[3], stranger.job]


async def test_i3_an_ended_session_wins_nothing_and_the_others_of_the_call_do(scene: Scene) -> None:
    ended, alive = await scene.session(), await scene.session()
    await scene.store.end_sessions([ended])
    await scene.submit(4)
    seen = await scene.ready()
    picks = [Pick(ended, seen[:2]), Pick(alive, seen[2:]), Pick(b"never was", seen[:1])]
    answers = await scene.store.assign_jobs(picks)
    assert answers == [Assigned([], lost=seen[:2]), Assigned(seen[2:]), Assigned([], lost=seen[:1])]
    assert len(await scene.ready()) == 2


async def test_i3_the_sessions_of_a_node_whose_lease_ran_out_win_nothing(scene: Scene) -> None:
    node = await scene.new_node(b"n", LEASE_S)
    session = await scene.session(node)
    await scene.submit_one()
    assert await scene.store.end_nodes({node: None}) == 1
    assert (await scene.assign(session)).won == []


async def test_a_worker_gets_arguments_options_and_failures_of_its_jobs(scene: Scene) -> None:
    session = await scene.session()
    (made,) = await scene.insert(arguments=[b'{"x":1}'], timeout=5)
    await scene.assign(session)
    (spec,) = await scene.store.read_specs([made.id])
    assert (spec.job, spec.arguments, spec.failures) == (made.id, b'{"x":1}', 0)
    await scene.fail(session, made.id, 1, again_in_s=0)
    await scene.assign(session)
    (spec,) = await scene.store.read_specs([made.id])
    assert (spec.job, spec.arguments, spec.failures) == (made.id, b'{"x":1}', 1)
    assert b'"timeout_s":5' in spec.options
    assert await scene.store.read_specs([]) == []


async def test_what_a_worker_must_know_is_exact_whatever_the_bytes_are(scene: Scene) -> None:
    session = await scene.session()
    arguments = [b'{"x":"\\n"}', b'"a\nb"', b"", "ä日".encode(), b"[1,\n2]", b"{}"]
    made = await scene.insert(arguments=arguments, tags=["x"])
    await scene.assign(session)
    specs = await scene.store.read_specs([answer.id for answer in made])
    assert {spec.job: spec.arguments for spec in specs} == {
        answer.id: given for answer, given in zip(made, arguments, strict=True)
    }


# --- concurrency


async def test_i13_no_more_than_the_limit_are_live_at_once(scene: Scene) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, concurrency=2)
    jobs = await scene.submit(5, queue="q")
    answer = await scene.assign(session, None, LIMITS)
    assert ([won.job for won in answer.won], answer.held_until) == (jobs[:2], None)
    assert [held.job for held in answer.held] == jobs[2:]
    assert (await scene.assign(session, None, LIMITS)).won == []
    await scene.settle(session, jobs[0], 1, "completed")
    assert [won.job for won in (await scene.assign(session, None, LIMITS)).won] == [jobs[2]]
    assert await scene.held(QUEUE) == 2


@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled", "pending"])
async def test_i13_every_end_of_an_attempt_gives_its_place_back(scene: Scene, outcome: str) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, concurrency=1)
    job = await scene.submit_one(queue="q")
    await scene.assign(session, None, LIMITS)
    await scene.settle(session, job, 1, outcome, due_at=START if outcome == "pending" else None)
    assert await scene.held(QUEUE) == 0


async def test_i13_a_crash_leaks_no_place(scene: Scene) -> None:
    dead, alive = await scene.session(), await scene.session()
    await scene.limit(QUEUE, concurrency=1)
    await scene.submit_one(queue="q")
    await scene.assign(dead, None, LIMITS)
    await scene.store.end_sessions([dead])
    waiting = await scene.submit_one(queue="q", priority=1)
    assert (await scene.assign(alive, [waiting], LIMITS)).won == []
    await scene.store.rescue_attempts(10)
    assert await scene.held(QUEUE) == 0
    assert len((await scene.assign(alive, [waiting], LIMITS)).won) == 1


async def test_i13_keys_count_apart_and_limits_together(scene: Scene) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, concurrency=3)
    await scene.limit("kind/work", concurrency=2)
    one = await scene.submit(3, queue="q", limit_key="one")
    two = await scene.submit(3, queue="q", limit_key="two")
    first = await scene.assign(session, one, (*LIMITS, ("kind/work", "default/one")))
    second = await scene.assign(session, two, (*LIMITS, ("kind/work", "default/two")))
    assert (len(first.won), len(second.won)) == (2, 1)
    assert (len(first.held), len(second.held)) == (1, 2)


async def test_i13_in_one_call_two_picks_share_what_a_limit_has_left(scene: Scene) -> None:
    one, other = await scene.session(), await scene.session()
    await scene.limit(QUEUE, concurrency=3)
    await scene.submit(4, queue="q")
    seen = await scene.ready()
    answers = await scene.store.assign_jobs([Pick(one, seen[:2], LIMITS), Pick(other, seen[2:], LIMITS)])
    assert [len(answer.won) for answer in answers] == [2, 1]


async def test_i13_a_lost_job_takes_no_place(scene: Scene) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, concurrency=2)
    jobs = await scene.submit(2, queue="q")
    seen = await scene.ready()
    await scene.store.cancel_jobs(jobs[:1])
    (answer,) = await scene.store.assign_jobs([Pick(session, seen, LIMITS)])
    assert ([won.job for won in answer.won], [lost.job for lost in answer.lost]) == (jobs[1:], jobs[:1])
    assert await scene.held(QUEUE) == 1


async def test_a_limit_that_is_gone_holds_nothing_back(scene: Scene) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, concurrency=1)
    await scene.limit(QUEUE)
    assert await scene.store.list_limits() == {}
    await scene.submit(3, queue="q")
    assert len((await scene.assign(session, None, LIMITS)).won) == 3


# --- rate


async def test_i14_a_burst_then_one_per_interval_and_the_answer_says_when(scene: Scene) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, rate=2.0, burst=3)
    await scene.submit(10, queue="q")
    answer = await scene.assign(session, None, LIMITS)
    assert (len(answer.won), len(answer.held)) == (3, 7)
    assert answer.held_until is not None
    assert 0 < answer.held_until - START <= SECOND / 2 + 2
    (use,) = await scene.store.read_limit_uses([(QUEUE, "")])
    assert (use.held, use.next_start_at) == (3, answer.held_until)
    scene.clock.jump_to(answer.held_until - 2)
    assert (await scene.assign(session, None, LIMITS)).won == []
    scene.clock.jump_to(answer.held_until)
    assert len((await scene.assign(session, None, LIMITS)).won) == 1


async def test_i14_a_quiet_time_gives_back_the_burst_and_no_more(scene: Scene) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, rate=1.0, burst=4)
    await scene.submit(20, queue="q")
    await scene.assign(session, None, LIMITS)
    scene.clock.advance(3600)
    assert len((await scene.assign(session, None, LIMITS)).won) == 4


async def test_i14_a_start_is_not_allowed_a_microsecond_before_its_share_of_the_rate_is_whole(scene: Scene) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, rate=3.0, burst=1)
    await scene.submit(2, queue="q")
    assert len((await scene.assign(session, None, LIMITS)).won) == 1
    scene.clock.jump_to(START + 333_333)
    assert (await scene.assign(session, None, LIMITS)).won == []
    scene.clock.jump_to(START + 333_334)
    assert len((await scene.assign(session, None, LIMITS)).won) == 1


@settings(max_examples=15)
@given(
    rate=st.sampled_from([0.5, 1.0, 3.0, 7.0, 100 / 60, 1000.0]),
    burst=st.integers(1, 5),
    steps=st.lists(st.tuples(st.integers(0, 1_200_000), st.integers(1, 4)), min_size=5, max_size=25),
)
def test_i14_in_every_window_there_are_at_most_burst_plus_rate_times_its_length(
    fresh: Fresh, rate: float, burst: int, steps: list[tuple[int, int]]
) -> None:
    starts: list[int] = []

    async def run(scene: Scene) -> None:
        session = await scene.session()
        await scene.limit(QUEUE, rate=rate, burst=burst)
        await scene.submit(60, queue="q")
        for wait, asked in steps:
            scene.clock.jump_to(scene.clock.now() + wait)
            ready = (await scene.ready())[:asked]
            (answer,) = await scene.store.assign_jobs([Pick(session, ready, LIMITS)])
            starts.extend([scene.clock.now()] * len(answer.won))

    Scene.run_sync(fresh, run)
    assert starts
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            allowed = burst + rate * (starts[last] - starts[first]) / SECOND
            assert last - first + 1 <= allowed + 1e-9, (starts, first, last)


# --- the catalog behind it


async def test_queues_keep_their_pause_and_their_limit(scene: Scene) -> None:
    await scene.store.put_queue(scene.queue("a", paused=True, limit=Limit(concurrency=4)))
    await scene.store.put_queue(scene.queue("b", paused=False, limit=Limit(rate=0.5, burst=9)))
    found = {queue.name: (queue.paused, queue.limit) for queue in await scene.store.list_queues()}
    assert found == {"a": (True, Limit(concurrency=4)), "b": (False, Limit(rate=0.5, burst=9))}
    await scene.store.put_queue(scene.queue("a", paused=False, limit=Limit()))
    assert set(await scene.store.list_limits()) == {"queue/default/b"}


async def test_a_kind_declared_without_its_limit_loses_it(scene: Scene) -> None:
    await scene.kinds({"a": Limit(concurrency=1), "b": Limit()})
    assert set(await scene.store.list_limits()) == {"kind/a"}
    await scene.kinds({"a": Limit()})
    assert await scene.store.list_limits() == {}
    assert [kind.name for kind in await scene.store.list_kinds()] == ["a", "b"]
