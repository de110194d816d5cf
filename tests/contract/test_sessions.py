"""Nodes, leases, partitions and sessions."""

import threading

import pytest

from contract.scene import LEASE_S, START, Scene
from mainspring.core.timer import SECOND
from mainspring.errors import StoreError
from mainspring.wire import WorkerInfo


async def renewed(scene: Scene, node: bytes) -> bool:
    """Renew a lease as the heartbeat does: from another thread, answered without the event loop."""
    answers: list[bool] = []
    told = threading.Event()

    def done(answer: bool) -> None:
        answers.append(answer)
        told.set()

    scene.store.renew_lease(node, LEASE_S, done)
    assert told.wait(10)
    return answers[0]


async def test_a_node_lives_as_long_as_it_renews_its_lease(scene: Scene) -> None:
    node = await scene.new_node()
    (record,) = await scene.store.list_nodes()
    assert (record.id, record.started_at, record.lease_until) == (node, START, START + 10 * SECOND)
    for _ in range(3):
        (before,) = await scene.store.list_nodes()
        scene.clock.advance(LEASE_S)
        assert await renewed(scene, node)
        assert await scene.store.end_nodes({node: before.lease_until}) == 0
    assert (await scene.store.list_nodes())[0].lease_until == scene.clock.now() + 10 * SECOND


async def test_a_node_is_ended_by_the_lease_that_was_seen_and_by_no_other(scene: Scene) -> None:
    node = await scene.new_node()
    (record,) = await scene.store.list_nodes()
    assert await scene.store.end_nodes({node: record.lease_until - 1, b"nobody": record.lease_until}) == 0
    assert await scene.store.end_nodes({node: record.lease_until}) == 1
    assert await scene.store.list_nodes() == []


async def test_a_node_ends_once_and_never_revives(scene: Scene) -> None:
    node = await scene.new_node()
    assert await scene.store.end_nodes({node: None}) == 1
    assert await scene.store.end_nodes({node: None}) == 0
    assert not await renewed(scene, node)
    assert await scene.store.list_nodes() == []
    assert await scene.store.claim_partitions(node, 1) == []
    with pytest.raises(StoreError, match="register again"):
        await scene.store.insert_session(b"s", node, "late")


async def test_ending_a_node_frees_its_partitions_and_ends_its_sessions(scene: Scene) -> None:
    old = await scene.new_node(b"old")
    session = await scene.session(old)
    job = await scene.started(session)
    assert await scene.store.claim_partitions(old, 1) == list(scene.everywhere)
    scene.clock.advance(LEASE_S + 1)
    new = await scene.new_node(b"new")
    assert await scene.store.end_nodes({old: None}) == 1
    assert await scene.store.claim_partitions(new, 1) == list(scene.everywhere)
    assert await scene.store.rescue_attempts(10) == 1
    assert await scene.state(job) == "pending"


async def test_a_session_ends_once_and_stays_ended(scene: Scene) -> None:
    session = await scene.session()
    await scene.store.end_sessions([session, b"never was"])
    ended = scene.rows("select ended_at from session")
    scene.clock.advance(5)
    await scene.store.end_sessions([session])
    assert scene.rows("select ended_at from session") == ended == [(START,)]


async def test_a_session_says_what_its_worker_can_do(scene: Scene) -> None:
    node = await scene.new_node()
    info = WorkerInfo(name="w", slots=3, kinds=frozenset({"a"}), labels=frozenset({"gpu"}))
    await scene.store.insert_session(b"one", node, "w", info)
    await scene.store.insert_session(b"two", node, "silent")
    await scene.started(b"one")
    first, second = sorted(await scene.store.list_sessions(), key=lambda record: record.id)
    assert (first.node, first.name, first.info, first.live, first.started_at) == (node, "w", info, 1, START)
    assert (second.info, second.live) == (None, 0)
    await scene.store.end_sessions([b"one"])
    assert [record.id for record in await scene.store.list_sessions()] == [b"two"]


async def test_nodes_share_the_partitions_and_only_shares_move(scene: Scene) -> None:
    one, two = await scene.new_node(b"1"), await scene.new_node(b"2")
    everything = set(scene.everywhere)
    before = set(await scene.store.claim_partitions(one, 1))
    assert await scene.store.claim_partitions(one, 1) == sorted(before)
    taken = set(await scene.store.claim_partitions(two, 1))
    assert before | taken == everything
    assert before & taken == set()
    assert abs(len(before) - len(taken)) <= 1
    three = await scene.new_node(b"3")
    assert await scene.store.claim_partitions(three, 1) == []  # nothing is free yet, and nothing is stolen
    left = set(await scene.store.claim_partitions(one, 1)) | set(await scene.store.claim_partitions(two, 1))
    third = set(await scene.store.claim_partitions(three, 1))
    assert third == everything - left
    await scene.store.end_nodes({two: None})
    owned = [set(await scene.store.claim_partitions(node, 1)) for node in (one, three)]
    assert owned[0] | owned[1] == everything
    assert owned[0] & owned[1] == set()
    assert third <= owned[1]
