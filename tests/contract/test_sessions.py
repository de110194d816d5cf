"""Nodes, leases, partitions and sessions."""

import threading

import pytest

from contract.scene import LEASE_S, START, Heard, Scene
from mainspring.core.partition import shares
from mainspring.core.timer import SECOND
from mainspring.errors import StoreError
from mainspring.store.contract import SessionRecord
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


async def test_a_node_says_where_its_api_is(scene: Scene) -> None:
    await scene.store.insert_node(b"open", "open", LEASE_S, "http://10.0.0.1:8420")
    await scene.new_node(b"silent")
    assert {node.name: node.url for node in await scene.store.list_nodes()} == {
        "open": "http://10.0.0.1:8420",
        "silent": None,
    }


async def test_a_session_is_read_by_its_id_with_the_tenant_it_serves_until_it_has_ended(scene: Scene) -> None:
    node = await scene.new_node()
    info = WorkerInfo(name="w", slots=3, kinds=frozenset({"a"}))
    await scene.store.insert_session(b"one", node, "w", info, "acme")
    await scene.store.insert_session(b"two", node, "v", tenant=None)
    one, nobody, two = await scene.store.read_sessions([b"one", b"nobody", b"two"])
    assert (one, nobody) == (SessionRecord(b"one", node, "w", START, info, 0, "acme"), None)
    assert two == SessionRecord(b"two", node, "v", START, None, 0, None)
    assert [session.tenant for session in await scene.store.list_sessions()] == ["acme", None]
    await scene.store.end_sessions([b"one"])
    assert await scene.store.read_sessions([b"one"]) == [None]
    assert await scene.store.read_sessions([]) == []


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


async def settle_shares(scene: Scene, capacities: dict[bytes, int]) -> dict[bytes, list[int]]:
    """Every node claims in turn until nothing moves."""
    owned: dict[bytes, list[int]] = {}
    for _ in range(4):
        before = dict(owned)
        for node, capacity in capacities.items():
            owned[node] = await scene.store.claim_partitions(node, capacity)
        if owned == before:
            break
    assert sorted(number for numbers in owned.values() for number in numbers) == list(scene.everywhere)
    return owned


async def test_partitions_are_shared_by_capacity(scene: Scene) -> None:
    capacities = {await scene.new_node(b"small"): 10, await scene.new_node(b"large"): 30}
    owned = await settle_shares(scene, capacities)
    assert {node: len(numbers) for node, numbers in owned.items()} == shares(len(scene.everywhere), capacities)
    records = {record.id: record for record in await scene.store.list_nodes()}
    assert {node: record.capacity for node, record in records.items()} == capacities
    assert {node: record.partitions for node, record in records.items()} == {n: len(p) for n, p in owned.items()}


async def test_a_capacity_that_changes_moves_the_difference_and_no_more(scene: Scene) -> None:
    one, two = await scene.new_node(b"1"), await scene.new_node(b"2")
    before = await settle_shares(scene, {one: 10, two: 10})
    after = await settle_shares(scene, {one: 10, two: 70})
    assert set(after[one]) < set(before[one])
    assert set(before[two]) < set(after[two])
    assert {node: len(p) for node, p in after.items()} == shares(len(scene.everywhere), {one: 10, two: 70})
    assert await settle_shares(scene, {one: 10, two: 70}) == after


async def test_a_node_that_can_run_nothing_still_has_a_share(scene: Scene) -> None:
    """Its timers must ripen, wherever the jobs then run."""
    only = await scene.new_node()
    assert await scene.store.claim_partitions(only, 0) == list(scene.everywhere)
    assert (await scene.store.list_nodes())[0].capacity == 0


async def test_a_node_that_drains_has_no_share_and_the_others_take_it(scene: Scene) -> None:
    one, two = await scene.new_node(b"1"), await scene.new_node(b"2")
    await settle_shares(scene, {one: 1, two: 1})
    assert await scene.store.drain_nodes([one, b"nobody"]) == 1
    assert [record.draining for record in await scene.store.list_nodes()] == [True, False]
    # The other one need not wait until it has let go.
    assert await scene.store.claim_partitions(two, 1) == list(scene.everywhere)
    assert await scene.store.claim_partitions(one, 1) == []
    assert await renewed(scene, one), "it lives on until it has finished"
    assert await scene.store.end_nodes({one: None}) == 1
    assert await scene.store.drain_nodes([one]) == 0


async def test_a_node_that_drains_alone_lets_everything_go(scene: Scene) -> None:
    one = await scene.new_node(b"1")
    await scene.store.claim_partitions(one, 1)
    await scene.store.drain_nodes([one])
    assert await scene.store.claim_partitions(one, 1) == []
    assert scene.rows("select count(*) from partition where node is not null") == [(0,)]
    two = await scene.new_node(b"2")
    assert await scene.store.claim_partitions(two, 1) == list(scene.everywhere)


async def test_changes_of_nodes_and_shares_are_told_and_nothing_else_is(scene: Scene) -> None:
    heard = Heard(scene.store)
    one = await scene.new_node(b"1")
    assert len(heard.take("node")) == 1
    await scene.store.claim_partitions(one, 1)
    assert heard.take("node") == [], "what was free before concerns nobody"
    await scene.store.claim_partitions(one, 5)
    assert len(heard.take("node")) == 1
    await scene.store.claim_partitions(one, 5)
    assert heard.take("node") == []
    two = await scene.new_node(b"2")
    heard.hints.clear()
    await scene.store.claim_partitions(one, 5)
    assert len(heard.take("node")) == 1, "there is something to take"
    await scene.store.claim_partitions(two, 1)
    heard.hints.clear()
    assert await renewed(scene, one)
    assert await scene.store.drain_nodes([b"nobody"]) == 0
    assert heard.take("node") == []
    await scene.store.drain_nodes([one])
    assert len(heard.take("node")) == 1
    await scene.store.end_nodes({one: None})
    assert len(heard.take("node")) == 1
    await scene.store.end_nodes({one: None})
    assert heard.take("node") == []
