"""Small definitions: lanes, queues, kinds, limits (see `store.contract.Catalog`)."""

from collections.abc import Mapping, Sequence

from msgspec import json

from mainspring.core.job import Limit
from mainspring.core.lane import Lane
from mainspring.store.contract import KindRecord, QueueRecord
from mainspring.store.postgres.database import Tx

_decode_lane = json.Decoder(Lane).decode


async def agree(tx: Tx, name: str, value: str) -> None:
    await tx.fetch("put_setting", name, value)


async def read_setting(tx: Tx, name: str) -> str | None:
    found = await tx.fetch("read_setting", name)
    return found[0][0] if found else None


async def read_lanes(tx: Tx, numbers: Sequence[int]) -> dict[int, Lane]:
    return {number: _decode_lane(definition) for number, definition in await tx.fetch("read_lanes", numbers)}


async def put_queue(tx: Tx, queue: QueueRecord) -> None:
    await tx.fetch("put_queue", queue.tenant, queue.name, queue.paused)
    await put_limits(tx, {f"queue/{queue.tenant}/{queue.name}": queue.limit})
    tx.topics.add("queue")


async def put_limits(tx: Tx, limits: Mapping[str, Limit | None]) -> None:
    """None, or a limit that limits nothing, removes what was there."""
    rules = [(name, r.concurrency, r.rate, r.burst) for name, r in sorted(limits.items()) if r and r != Limit()]
    removed = [name for name, rule in limits.items() if rule is None or rule == Limit()]
    if removed:
        await tx.fetch("delete_limits", sorted(removed))
    if rules:
        await tx.fetch("put_limits", *map(list, zip(*rules, strict=True)))


async def list_queues(tx: Tx) -> list[QueueRecord]:
    return [
        QueueRecord(tenant, name, paused, Limit(concurrency, rate, burst or 1))
        for tenant, name, paused, concurrency, rate, burst in await tx.fetch("list_queues")
    ]


async def put_kinds(tx: Tx, kinds: Sequence[KindRecord], limits: dict[str, Limit]) -> None:
    ordered = sorted(kinds, key=lambda kind: kind.name)
    await tx.fetch("put_kinds", [kind.name for kind in ordered], [kind.defaults for kind in ordered])
    await put_limits(tx, {f"kind/{kind.name}": limits.get(kind.name) for kind in ordered})
    tx.topics.add("queue")


async def add_kinds(tx: Tx, kinds: Sequence[KindRecord]) -> None:
    ordered = sorted(kinds, key=lambda kind: kind.name)
    await tx.fetch("add_kinds", [kind.name for kind in ordered], [kind.defaults for kind in ordered])


async def list_kinds(tx: Tx) -> list[KindRecord]:
    return [KindRecord(*row) for row in await tx.fetch("list_kinds")]


async def list_limits(tx: Tx) -> dict[str, Limit]:
    return {name: Limit(*rule) for name, *rule in await tx.fetch("list_limits")}
