"""Small definitions: lanes, queues, kinds, limits (see `store.contract.Catalog`)."""

from array import array
from collections.abc import Sequence

import apsw
from msgspec import json

from mainspring.core.job import Limit
from mainspring.core.lane import Lane
from mainspring.store.contract import KindRecord, QueueRecord
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.writer import Tx

_decode_lane = json.Decoder(Lane).decode


def agree(tx: Tx, name: str, value: str) -> None:
    tx.execute(Q["put_setting"], (name, value))


def read_setting(connection: Reader, name: str) -> str | None:
    found: str | None = connection.execute(Q["read_setting"], (name,)).get
    return found


def read_lanes(connection: Reader, numbers: Sequence[int]) -> dict[int, Lane]:
    bound = apsw.carray(array("q", numbers), flags=apsw.SQLITE_CARRAY_INT64)
    return {number: _decode_lane(definition) for number, definition in connection.execute(Q["read_lanes"], (bound,))}


def put_queue(tx: Tx, queue: QueueRecord) -> None:
    tx.execute(Q["put_queue"], (queue.tenant, queue.name, int(queue.paused)))
    put_limit(tx, f"queue/{queue.tenant}/{queue.name}", queue.limit)
    tx.topics.add("queue")


def put_limit(tx: Tx, name: str, limit: Limit | None) -> None:
    if limit is None or limit == Limit():
        tx.execute(Q["delete_limit"], (name,))
    else:
        tx.execute(Q["put_limit"], (name, limit.concurrency, limit.rate, limit.burst))


def list_queues(connection: Reader) -> list[QueueRecord]:
    rows = connection.execute(Q["list_queues"])
    return [
        QueueRecord(tenant, name, bool(paused), Limit(concurrency, rate, burst or 1))
        for tenant, name, paused, concurrency, rate, burst in rows
    ]


def put_kinds(tx: Tx, kinds: Sequence[KindRecord], limits: dict[str, Limit]) -> None:
    for kind in kinds:
        tx.execute(Q["put_kind"], (kind.name, kind.defaults))
        put_limit(tx, f"kind/{kind.name}", limits.get(kind.name))
    tx.topics.add("queue")


def add_kinds(tx: Tx, kinds: Sequence[KindRecord]) -> None:
    for kind in kinds:
        tx.execute(Q["add_kind"], (kind.name, kind.defaults))


def list_kinds(connection: Reader) -> list[KindRecord]:
    return [KindRecord(*row) for row in connection.execute(Q["list_kinds"])]


def list_limits(connection: Reader) -> dict[str, Limit]:
    return {
        name: Limit(concurrency, rate, burst) for name, concurrency, rate, burst in connection.execute(Q["list_limits"])
    }
