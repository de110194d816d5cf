"""Nodes, leases, partitions and sessions (see `store.contract.Sessions`)."""

from collections.abc import Mapping, Sequence

from msgspec import json

from mainspring.core.partition import fair_share
from mainspring.core.timer import Micros, seconds
from mainspring.errors import StoreError
from mainspring.store.contract import LiveJob, NodeRecord, SessionRecord
from mainspring.store.rows import decode_options
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.jobs import array
from mainspring.store.sqlite.writer import Tx
from mainspring.wire import WorkerInfo

_decode_info = json.Decoder(WorkerInfo).decode


def insert_node(tx: Tx, node: bytes, name: str, lease_s: float, url: str | None) -> None:
    tx.execute(Q["insert_node"], (node, name, tx.now, tx.now + seconds(lease_s), url))
    tx.topics.add("node")


def renew_lease(tx: Tx, node: bytes, lease_s: float) -> bool:
    tx.execute(Q["renew_lease"], (tx.now + seconds(lease_s), node))
    return tx.connection.changes() == 1


def end_nodes(tx: Tx, leases: Mapping[bytes, Micros | None]) -> int:
    ended = 0
    for node, lease_until in leases.items():
        tx.execute(Q["end_node"], (node, tx.now, lease_until))
        if tx.connection.changes():
            ended += 1
            tx.execute(Q["end_node_sessions"], (tx.now, node))
            tx.execute(Q["free_partitions"], (node,))
            tx.topics.add("node")
    return ended


def claim_partitions(tx: Tx, node: bytes, capacity: int) -> list[int]:
    tx.execute(Q["set_capacity"], (capacity, node))
    changed = tx.connection.changes() > 0
    owners = dict(tx.execute(Q["read_partitions"]).fetchall())
    nodes = {record.id: record.capacity for record in list_nodes(tx.connection) if not record.draining}
    take, leave = fair_share(owners, nodes, node)
    for number in take:
        tx.execute(Q["own_partition"], (number, node))
    for number in leave:
        tx.execute(Q["own_partition"], (number, None))
    if changed or leave:
        tx.topics.add("node")
    return sorted({n for n, owner in owners.items() if owner == node} - set(leave) | set(take))


def list_nodes(connection: Reader) -> list[NodeRecord]:
    rows = connection.execute(Q["list_nodes"])
    return [
        NodeRecord(id_, name, started_at, lease_until, capacity, bool(draining), partitions, url)
        for id_, name, started_at, lease_until, capacity, draining, partitions, url in rows
    ]


def drain_nodes(tx: Tx, nodes: Sequence[bytes]) -> int:
    drained = 0
    for node in nodes:
        tx.execute(Q["drain_node"], (node,))
        drained += tx.connection.changes()
    if drained:
        tx.topics.add("node")
    return drained


def insert_session(
    tx: Tx, session: bytes, node: bytes, name: str, info: WorkerInfo | None, tenant: str | None, remote: bool
) -> None:
    said = None if info is None else json.encode(info)
    tx.execute(Q["insert_session"], (session, name, said, tx.now, tenant, remote, node))
    if tx.connection.changes() != 1:
        raise StoreError("the node of this worker has ended: register again")


def adopt_session(tx: Tx, session: bytes, node: bytes) -> list[LiveJob] | None:
    tx.execute(Q["adopt_session"], (session, node))
    if tx.connection.changes() != 1:
        return None
    rows = tx.execute(Q["live_jobs"], (session,))
    return [LiveJob(job, attempt, lane, decode_options(options)) for job, attempt, lane, options in rows]


def list_orphans(connection: Reader) -> dict[bytes, bytes]:
    return dict(connection.execute(Q["list_orphans"]))


def list_sessions(connection: Reader) -> list[SessionRecord]:
    return [_session(*row) for row in connection.execute(Q["list_sessions"])]


def read_sessions(connection: Reader, ids: Sequence[bytes]) -> list[SessionRecord | None]:
    found = {row[0]: _session(*row) for row in connection.execute(Q["read_sessions"], (array(ids),))}
    return [found.get(id_) for id_ in ids]


def _session(
    id_: bytes,
    node: bytes,
    name: str,
    started_at: Micros,
    info: bytes | None,
    live: int,
    tenant: str | None,
    remote: int,
) -> SessionRecord:
    said = None if info is None else _decode_info(info)
    return SessionRecord(id_, node, name, started_at, said, live, tenant, bool(remote))


def find_session(connection: Reader, job: bytes) -> bytes | None:
    row = connection.execute(Q["find_session"], (job,)).fetchone()
    return None if row is None else bytes(row[0])


def end_sessions(tx: Tx, sessions: Sequence[bytes], node: bytes | None) -> None:
    for session in sessions:
        tx.execute(Q["end_session"], (tx.now, session, node))
