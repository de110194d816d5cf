"""Nodes, leases, partitions and sessions (see `store.contract.Sessions`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import json

from mainspring.core.partition import fair_share
from mainspring.core.timer import Micros, seconds
from mainspring.errors import StoreError
from mainspring.store.contract import LiveJob, NodeRecord, SessionRecord
from mainspring.store.postgres.database import Tx
from mainspring.store.rows import decode_options
from mainspring.wire import WorkerInfo

_decode_info = json.Decoder(WorkerInfo).decode


async def insert_node(tx: Tx, node: bytes, name: str, lease_s: float, url: str | None) -> None:
    await tx.fetch("insert_node", node, name, tx.now, tx.now + seconds(lease_s), url)
    tx.topics.add("node")


async def end_nodes(tx: Tx, leases: Mapping[bytes, Micros | None]) -> int:
    nodes = sorted(leases)
    ended = [row[0] for row in await tx.fetch("end_nodes", nodes, [leases[node] for node in nodes], tx.now)]
    if ended:
        await tx.fetch("end_node_sessions", ended, tx.now)
        await tx.fetch("free_partitions", ended)
        tx.topics.add("node")
    return len(ended)


async def claim_partitions(tx: Tx, node: bytes, capacity: int) -> list[int]:
    """Under the lock of all partitions: two nodes that divide them at once would both take the same."""
    changed = await tx.fetch("set_capacity", capacity, node)
    owners = dict(await tx.fetch("lock_partitions"))
    nodes = {record.id: record.capacity for record in await list_nodes(tx) if not record.draining}
    take, leave = fair_share(owners, nodes, node)
    if take:
        await tx.fetch("own_partitions", take, node)
    if leave:
        await tx.fetch("own_partitions", leave, None)
    if changed or leave:
        tx.topics.add("node")
    return sorted({n for n, owner in owners.items() if owner == node} - set(leave) | set(take))


async def list_nodes(tx: Tx) -> list[NodeRecord]:
    return [NodeRecord(*row) for row in await tx.fetch("list_nodes")]


async def drain_nodes(tx: Tx, nodes: Sequence[bytes]) -> int:
    drained = len(await tx.fetch("drain_nodes", sorted(nodes)))
    if drained:
        tx.topics.add("node")
    return drained


async def insert_session(
    tx: Tx, session: bytes, node: bytes, name: str, info: WorkerInfo | None, tenant: str | None, remote: bool
) -> None:
    said = None if info is None else json.encode(info)
    if not await tx.fetch("insert_session", session, node, name, said, tx.now, tenant, remote):
        raise StoreError("the node of this worker has ended: register again")


async def adopt_session(tx: Tx, session: bytes, node: bytes) -> list[LiveJob] | None:
    """Of two that want the same one, the second finds it with a node that has not ended."""
    if not await tx.fetch("share_node", node) or not await tx.fetch("adopt_session", session, node):
        return None
    rows = await tx.fetch("live_jobs", session)
    return [LiveJob(job, attempt, lane, decode_options(options)) for job, attempt, lane, options in rows]


async def list_orphans(tx: Tx) -> dict[bytes, bytes]:
    return dict(await tx.fetch("list_orphans"))


async def read_sessions(tx: Tx, ids: Sequence[bytes]) -> list[SessionRecord | None]:
    found = {row[0]: _session(row) for row in await tx.fetch("read_sessions", ids)}
    return [found.get(id_) for id_ in ids]


async def list_sessions(tx: Tx) -> list[SessionRecord]:
    return [_session(row) for row in await tx.fetch("list_sessions")]


def _session(row: Sequence[Any]) -> SessionRecord:
    id_, node, name, started_at, info, live, tenant, remote = row
    said = None if info is None else _decode_info(info)
    return SessionRecord(id_, node, name, started_at, said, live, tenant, remote)


async def find_session(tx: Tx, job: bytes) -> bytes | None:
    rows = await tx.fetch("find_session", job)
    return rows[0][0] if rows else None


async def end_sessions(tx: Tx, sessions: Sequence[bytes], node: bytes | None) -> None:
    await tx.fetch("end_sessions", sorted(sessions), tx.now, node)
