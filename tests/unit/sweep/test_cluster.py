"""Nodes together, over minutes that pass at once: what they ask when idle, how they share, and how soon they take over."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mainspring.core.partition import shares
from mainspring.sweep.ownership import BEAT_S, LEASE_S, LOOK_S, PAUSE_S
from sweep.cluster import Cluster, Member, open_cluster

SOON_S = LOOK_S + 3 * PAUSE_S


@pytest.fixture
async def cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with open_cluster(folder, monkeypatch) as made:
        yield made


async def join_all(cluster: Cluster, count: int, apart_s: float = 0.7) -> list[Member]:
    for _ in range(count):
        await cluster.join()
        await cluster.pass_time(apart_s)
    await cluster.pass_time(30)
    return cluster.members


# --- idle


@pytest.mark.parametrize("nodes", [1, 2, 4, 10])
async def test_an_idle_node_asks_the_store_44_times_a_minute_and_writes_its_lease(cluster: Cluster, nodes: int) -> None:
    members = await join_all(cluster, nodes)
    for member in members:
        member.store.calls.clear()
    await cluster.pass_time(600)
    for member in members:
        calls = member.store.calls
        assert calls.total() <= 10 * 44.5, calls
        assert calls["renew_lease"] == 600 / BEAT_S
        assert calls.keys() - {"list_expired"} == {  # which one of them asks, every ten minutes
            *("renew_lease", "list_nodes", "list_streams", "ripen_timers", "due_schedules"),
            *("prune_jobs", "rescue_attempts"),
        }


# --- taking over


@pytest.mark.parametrize("nodes", [2, 3, 5])
@pytest.mark.parametrize("moment_s", [0.0, 0.01, 0.5, 1.2, 1.9, 2.5, 2.99, 3.0, 4.4, 7.7])
async def test_a_dead_nodes_partitions_and_jobs_are_taken_over_within_a_lease_and_two_seconds(
    cluster: Cluster, nodes: int, moment_s: float
) -> None:
    members = await join_all(cluster, nodes, apart_s=0.9)
    victim = members[-1]
    partition = victim.node.ownership.partitions[0] if victim.node.ownership.partitions else 0
    await cluster.pass_time(moment_s)
    job = await cluster.scene.submit_in(partition)
    session = next(iter(victim.workers))
    await cluster.scene.assign(session, [job])
    await victim.die()
    took_s = await cluster.until(lambda: cluster.shares()[-1] == 0 and sum(cluster.shares()) == 4, 60)
    assert took_s <= LEASE_S + 2
    took_s += await cluster.until(lambda: any(job in member.jobs for member in members[:-1]), 60)
    assert took_s <= LEASE_S + 2


async def test_all_but_one_die_at_once(cluster: Cluster) -> None:
    members = await join_all(cluster, 4)
    for member in members[1:]:
        await member.die()
    assert await cluster.until(lambda: cluster.shares() == [4, 0, 0, 0], 60) <= LEASE_S + 2


async def test_a_node_that_starts_after_a_crash_takes_over_what_the_crashed_one_had(cluster: Cluster) -> None:
    (first,) = await join_all(cluster, 1)
    await first.die()
    await cluster.pass_time(LEASE_S)
    await cluster.join()
    assert await cluster.until(lambda: cluster.shares() == [0, 4], 60) <= BEAT_S + 2


async def test_nobody_is_given_up_because_the_store_stood_still(cluster: Cluster) -> None:
    """All come back one after the other: whoever is first must not end the rest."""
    members = await join_all(cluster, 4)
    before = cluster.shares()
    for member in members:
        member.store.reachable = False
    await cluster.pass_time(3 * LEASE_S)
    for member in members:
        member.store.reachable = True
        await cluster.pass_time(LEASE_S / len(members))
    await cluster.pass_time(60)
    assert cluster.shares() == before
    assert cluster.scene.rows("select count(*) from node where ended_at is not null") == [(0,)]


async def test_a_node_that_cannot_reach_the_store_alone_is_given_up(cluster: Cluster) -> None:
    members = await join_all(cluster, 3)
    members[0].store.reachable = False
    assert await cluster.until(lambda: cluster.shares()[0] == 0, 60) <= LEASE_S + 2


# --- sharing


async def test_a_node_that_joins_has_its_share_within_a_moment(cluster: Cluster) -> None:
    await join_all(cluster, 1)
    await cluster.join()
    assert await cluster.until(lambda: cluster.shares() == [2, 2], 60) <= SOON_S


async def test_a_node_that_leaves_is_followed_at_once(cluster: Cluster) -> None:
    members = await join_all(cluster, 2)
    await members[0].die()
    await cluster.scene.store.end_nodes({members[0].node.id: None})
    assert await cluster.until(lambda: cluster.shares() == [0, 4], 60) <= SOON_S


async def test_a_worker_more_is_noticed_within_a_second_and_changes_the_shares(cluster: Cluster) -> None:
    first, second = await join_all(cluster, 2)
    assert cluster.shares() == [2, 2]
    await second.add_worker(slots=50)
    assert shares(4, {b"1": 10, b"2": 60}) == {b"1": 1, b"2": 3}
    assert await cluster.until(lambda: cluster.shares() == [1, 3], 60) <= SOON_S
    assert {node.name: node.capacity for node in await cluster.scene.store.list_nodes()} == {"node-0": 10, "node-1": 60}
    assert (first.node.desk.capacity(), second.node.desk.capacity()) == (10, 60)


async def test_lost_hints_cost_a_joining_node_a_slow_look_of_each_side(cluster: Cluster) -> None:
    (first,) = await join_all(cluster, 1)
    first.node._unsubscribe()
    first.node._unsubscribe = lambda: None
    second = await cluster.join()
    second.node._unsubscribe()
    second.node._unsubscribe = lambda: None
    assert await cluster.until(lambda: cluster.shares() == [2, 2], 60) <= 2 * LEASE_S


# --- draining


async def test_a_node_that_is_asked_to_leave_gives_its_partitions_up_and_is_told_once(cluster: Cluster) -> None:
    first, second = await join_all(cluster, 2)
    assert await cluster.scene.store.drain_nodes([first.node.id]) == 1
    assert await cluster.until(lambda: cluster.shares() == [0, 4], 60) <= SOON_S
    await cluster.pass_time(30)
    assert (first.asked_to_leave, second.asked_to_leave) == (1, 0)
    job = await cluster.scene.submit_one()
    await cluster.until(lambda: second.jobs == [job], 5)
    assert (first.jobs, second.jobs) == ([], [job])


async def test_the_last_node_can_be_drained_and_the_next_one_takes_all(cluster: Cluster) -> None:
    (first,) = await join_all(cluster, 1)
    await cluster.scene.store.drain_nodes([first.node.id])
    await cluster.until(lambda: cluster.shares() == [0], 5)
    assert cluster.shares() == [0]
    assert cluster.scene.rows("select count(*) from partition where node is null") == [(4,)]
    await cluster.join()
    assert await cluster.until(lambda: cluster.shares() == [0, 4], 60) <= SOON_S


# --- stealing


async def test_an_idle_node_takes_over_what_nobody_there_can_run_after_a_second(cluster: Cluster) -> None:
    able = await cluster.join(kinds="work rare")
    plain = await cluster.join()
    await cluster.pass_time(30)
    able.store.calls.clear()
    job = await cluster.scene.submit_in(plain.node.ownership.partitions[0], kind="rare")
    took_s = await cluster.until(lambda: able.jobs == [job], 60)
    assert 0.9 <= took_s <= 1.5
    assert able.store.calls["list_streams"] <= 2
    assert plain.jobs == []


async def test_jobs_that_nobody_can_run_cost_idle_nodes_no_more_than_slow_looks(cluster: Cluster) -> None:
    first, second = await join_all(cluster, 2)
    for partition in cluster.scene.everywhere:
        await cluster.scene.submit_in(partition, kind="strange")
    await cluster.pass_time(60)
    for member in (first, second):
        member.store.calls.clear()
    await cluster.pass_time(60)
    assert max(member.store.calls["list_streams"] for member in (first, second)) <= 7
