"""Only over many databases: where jobs are, what a failure between two writes leaves behind, and how it ends.

A failure between two writes is made by doing the first one alone.
"""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from msgspec import structs

from contract.backends import BACKENDS, Backend, Fresh
from contract.invariants import check_invariants
from contract.scene import START, Scene, make_batch
from contract.shards import ShardedStore
from mainspring.core.draft import Draft
from mainspring.core.job import Limit
from mainspring.core.options import parse_options
from mainspring.core.partition import SLOTS, make_id, slot_of
from mainspring.errors import StoreError
from mainspring.execute.registry import Kind, Registry
from mainspring.execute.worker import Worker
from mainspring.node import Node
from mainspring.objects.place import ObjectPlace
from mainspring.runtime.clock import SystemClock
from mainspring.store.contract import JobFilter, LimitUse, Pick, QueueRecord, Settlement
from mainspring.submit import Submitter, group

QUEUE = "queue/default/q"
LIMITS = ((QUEUE, ""),)


@pytest.fixture(scope="session", params=[name for name in BACKENDS if "shards" in name])
def fresh(request: pytest.FixtureRequest) -> Fresh:
    return BACKENDS[request.param](request)


@pytest.fixture
def shards(scene: Scene) -> ShardedStore:
    assert isinstance(scene.store, ShardedStore)
    return scene.store


async def submit_to(scene: Scene, shard: int, **job: Any) -> bytes:
    """A job of the lower or of the upper half of the slots."""
    return await scene.submit_in(shard * scene.store.partitions // 2, **job)


# --- where things are


async def test_each_database_has_the_jobs_of_its_half_of_the_slots(scene: Scene, shards: ShardedStore) -> None:
    jobs = await scene.submit(100) + await scene.submit(100, delay=5)
    for number, shard in enumerate(shards.shards):
        listed = {record.id for record in await shard.list_jobs(JobFilter(), before=None, limit=1000)}
        assert listed == {job for job in jobs if slot_of(job) // (SLOTS // 2) == number}
        assert 0 < len(listed) < 200


@pytest.mark.parametrize("claim", [{"key": "k"}, {"unique": 60}])
async def test_jobs_that_may_have_the_same_claim_have_the_same_slot(scene: Scene, claim: dict[str, Any]) -> None:
    draft = Draft("work", b"{}", parse_options(**claim))
    slots = {slot_of(batch.ids[0]) for batch in group([draft] * 20, START)[0]}
    assert len(slots) == 1
    first, *others = [(await scene.insert(**claim))[0] for _ in range(20)]
    assert others == [structs.replace(first, existed=True)] * 19


async def test_a_batch_over_both_databases_keeps_its_order(scene: Scene) -> None:
    slots = [random.randrange(SLOTS) for _ in range(50)]
    ids = [make_id(START // 1000, slot, random.getrandbits(62)) for slot in slots]
    await scene.insert(ids=ids, arguments=[b"{}"] * 50)
    assert [ready.job for ready in await scene.ready()] == ids


async def test_a_job_cannot_wait_for_one_of_another_database(scene: Scene) -> None:
    parent = await submit_to(scene, 0)
    child = make_id(START // 1000, SLOTS - 1, 7)
    batch, lane = make_batch(START, ids=[child])
    with pytest.raises(StoreError, match=r"after: .* the same slot"):
        await scene.store.insert_jobs([structs.replace(batch, after=(parent,))], [lane])
    assert await scene.store.read_jobs([child]) == [None]


async def test_no_transaction_spans_databases(scene: Scene) -> None:
    with pytest.raises(StoreError, match="no transaction spans them"):
        scene.store.transaction()
    batch, lane = make_batch(START)
    with pytest.raises(StoreError, match="no transaction spans them"):
        await scene.store.insert_within(None, [batch], [lane])


async def test_pages_of_ended_jobs_meet_without_gap_or_repeat_over_databases(scene: Scene) -> None:
    jobs = []
    for shard in (0, 1, 1, 0, 1, 0, 0, 1, 1):
        jobs.append(await submit_to(scene, shard))
        await scene.store.cancel_jobs(jobs[-1:])
        scene.clock.advance(random.choice([0, 1]))
    which, seen = JobFilter(state="cancelled"), list[bytes]()
    while page := await scene.store.list_jobs(which, before=seen[-1] if seen else None, limit=2):
        seen += [record.id for record in page]
    assert set(seen) == set(jobs)
    ends = [((await scene.record(job)).finished_at, job) for job in seen]
    assert ends == sorted(ends, reverse=True)


# --- a failure between two writes


async def test_a_session_that_ended_only_at_home_ends_everywhere_with_the_next_rescue(
    scene: Scene, shards: ShardedStore
) -> None:
    session = await scene.session()
    job = await submit_to(scene, 1)
    await scene.assign(session)
    await shards.home.end_sessions([session])
    assert await scene.store.list_sessions() == []
    assert await scene.store.rescue_attempts(10) == 1
    assert await scene.state(job) == "pending"
    assert (await scene.assign(session)).won == []


async def test_a_node_that_ended_only_at_home_ends_everywhere_with_the_next_rescue(
    scene: Scene, shards: ShardedStore
) -> None:
    node, other = await scene.new_node(), await scene.new_node(b"other")
    session, others = await scene.session(node), await scene.session(other)
    job, kept = await submit_to(scene, 1), await submit_to(scene, 1)
    await scene.assign(session, [job])
    await scene.assign(others, [kept])
    assert await shards.home.end_nodes({node: None}) == 1
    assert await scene.store.rescue_attempts(10) == 1
    assert [await scene.state(each) for each in (job, kept)] == ["pending", "assigned"]
    for store in (*shards.shards, shards.limits):
        assert [record.id for record in await store.list_nodes()] == [other]
        assert [record.id for record in await store.list_sessions()] == [others]


async def test_a_session_known_only_at_home_is_nobody_to_the_other_databases(
    scene: Scene, shards: ShardedStore
) -> None:
    node = await scene.new_node()
    await shards.home.insert_session(b"half", node, "half")
    jobs = [await submit_to(scene, 0), await submit_to(scene, 1)]
    answer = await scene.assign(b"half", jobs)
    assert ([won.job for won in answer.won], [lost.job for lost in answer.lost]) == (jobs[:1], jobs[1:])


# --- limits over databases


async def test_i13_a_limit_counts_the_jobs_of_all_databases(scene: Scene) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, concurrency=3)
    jobs = []
    for shard in (0, 1, 0, 1, 0):
        jobs.append(await submit_to(scene, shard, queue="q"))
        scene.clock.advance(1)
    assert len((await scene.assign(session, jobs[:2], LIMITS)).won) == 2
    assert [won.job for won in (await scene.assign(session, jobs[2:], LIMITS)).won] == [jobs[2]]
    await scene.settle(session, jobs[1], 1, "completed")
    assert [won.job for won in (await scene.assign(session, jobs[3:], LIMITS)).won] == [jobs[3]]
    assert await scene.held(QUEUE) == 3


async def test_i13_a_place_whose_job_was_never_assigned_comes_back_when_its_session_has_ended(
    scene: Scene, shards: ShardedStore
) -> None:
    dead, alive = await scene.session(), await scene.session()
    await scene.limit(QUEUE, concurrency=1)
    job = await scene.submit_one(queue="q")
    (taken,) = await shards.places.take([Pick(dead, await scene.ready(), LIMITS)])
    assert [place.job for place in taken.won] == [job]
    assert await scene.store.rescue_attempts(10) == 0
    assert (await scene.assign(alive, None, LIMITS)).won == []
    await scene.store.end_sessions([dead])
    assert await scene.store.rescue_attempts(10) == 0  # places are nobody's attempts
    assert [won.job for won in (await scene.assign(alive, None, LIMITS)).won] == [job]


async def test_i13_a_place_is_not_free_before_its_job_is_rescued(scene: Scene, shards: ShardedStore) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, concurrency=4)
    for shard in (0, 1, 0, 1):
        await submit_to(scene, shard, queue="q")
    await scene.assign(session, None, LIMITS)
    await scene.store.end_sessions([session])
    for left in (3, 2, 1, 0):
        await scene.store.rescue_attempts(1)
        assert (scene.count("live"), await scene.held(QUEUE)) == (left, 4)
    await scene.store.rescue_attempts(1)
    assert await scene.held(QUEUE) == 0


async def test_i13_an_end_whose_place_was_not_given_back_gives_it_back_when_it_is_reported_again(
    scene: Scene, shards: ShardedStore
) -> None:
    session = await scene.session()
    await scene.limit(QUEUE, concurrency=1)
    job = await submit_to(scene, 1, queue="q")
    await scene.assign(session, None, LIMITS)
    assert await shards.copies[0].settle_attempts(session, [Settlement(job, 1, "completed")]) == [True]
    assert await scene.held(QUEUE) == 1
    assert not await scene.settle(session, job, 1, "completed")
    assert await scene.held(QUEUE) == 0


async def test_i13_a_late_outcome_does_not_give_back_the_place_of_a_newer_attempt(scene: Scene) -> None:
    session, other = await scene.session(), await scene.session()
    await scene.limit(QUEUE, concurrency=1)
    job = await scene.submit_one(queue="q")
    for attempt in (1, 2):
        await scene.assign(session, None, LIMITS)
        assert await scene.settle(session, job, attempt, "pending")
    await scene.assign(session, None, LIMITS)
    for who, attempt in ((session, 1), (session, 2), (other, 3)):
        assert not await scene.settle(who, job, attempt, "completed")
        assert await scene.held(QUEUE) == 1
    assert await scene.settle(session, job, 3, "completed")
    assert await scene.held(QUEUE) == 0


async def test_i13_of_two_that_want_the_same_job_one_has_the_place(scene: Scene, shards: ShardedStore) -> None:
    one, other = await scene.session(), await scene.session()
    await scene.limit(QUEUE, concurrency=5)
    job = await scene.submit_one(queue="q")
    seen = await scene.ready()
    await shards.places.take([Pick(one, seen, LIMITS)])
    (answer,) = await scene.store.assign_jobs([Pick(other, seen, LIMITS)])
    assert (answer.won, answer.lost) == ([], seen)
    assert await scene.held(QUEUE) == 1
    await shards.places.give_back(other, [(job, 1)])  # not its own to give
    assert await scene.held(QUEUE) == 1
    await shards.places.give_back(one, [(job, 1)])
    assert await scene.held(QUEUE) == 0
    (answer,) = await scene.store.assign_jobs([Pick(other, seen, LIMITS)])
    assert answer.won == seen


# --- the whole engine


class Bench:
    """What jobs do here: note that they ran, and how many did so at once."""

    def __init__(self, expected: int) -> None:
        self.ran: Counter[int] = Counter()
        self.at_once = self.most_at_once = 0
        self.done = asyncio.Event()
        self._expected = expected

    async def work(self, number: int, limited: bool) -> None:
        self.at_once += limited
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= limited
        self.ran[number] += 1
        if self.ran.total() == self._expected:
            self.done.set()


async def test_two_nodes_over_two_databases_run_every_job_once_and_keep_the_limit_they_share(
    backend: Backend,
) -> None:
    bench = Bench(300)
    stores = [await backend.open(SystemClock()) for _ in range(2)]
    await stores[0].put_queue(QueueRecord("default", "narrow", False, Limit(concurrency=3)))
    registry = Registry()
    registry.add(Kind("work", bench.work))
    objects = ObjectPlace("memory:///")
    nodes = [Node(store, objects, keep_s=3600, keep_failed_s=3600, name=f"node {n}") for n, store in enumerate(stores)]
    workers = [Worker(registry, node.desk, slots=10, name=node.name) for node in nodes]
    for node in nodes:
        await node.start()
    running = [asyncio.create_task(worker.run()) for worker in workers]
    for start, options in ((0, {}), (100, {"queue": "narrow"}), (200, {"delay": 0.2})):
        limited = "queue" in options
        drafts = [
            Draft(
                "work",
                b'{"number":%d,"limited":%s}' % (number, b"true" if limited else b"false"),
                parse_options(**options),
            )
            for number in range(start, start + 100)
        ]
        await Submitter(stores[0], stores[0].clock).submit(drafts)
    async with asyncio.timeout(60):
        await bench.done.wait()
    for worker, task, node in zip(workers, running, nodes, strict=True):
        await worker.stop()
        await task
        await node.stop()
    assert bench.ran == dict.fromkeys(range(300), 1)
    assert 1 < bench.most_at_once <= 3
    assert await stores[0].count_jobs() == {("default", "completed"): 200, ("narrow", "completed"): 100}
    assert await stores[1].read_limit_uses([("queue/default/narrow", "")]) == [LimitUse(0, None)]
    check_invariants(backend, stores[0])
    for store in stores:
        await store.close()
