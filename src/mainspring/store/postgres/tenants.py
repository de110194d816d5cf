"""Tenants and their quotas, and the end of all that one has (see `store.service.Tenants`)."""

from collections.abc import Sequence

from msgspec import json

from mainspring.core.lifecycle import ENDED, LIVE
from mainspring.store.limits import tenant_limit
from mainspring.store.postgres.catalog import put_limits
from mainspring.store.postgres.changes import drop_waiting, lock_rows, unlock
from mainspring.store.postgres.database import Tx
from mainspring.store.rows import tenant_of
from mainspring.store.service import TenantRecord


async def put_tenants(tx: Tx, tenants: Sequence[TenantRecord]) -> list[bool]:
    tx.topics.add("tenant")
    put = {place: await _put(tx, t) for place, t in sorted(enumerate(tenants), key=lambda item: item[1].name)}
    return [put[place] for place in range(len(tenants))]


async def _put(tx: Tx, tenant: TenantRecord) -> bool:
    limit = tenant_limit(tenant.quota)
    if not await tx.fetch("put_tenant", tenant.name, json.encode(tenant.quota), tenant.created_at):
        return False
    await put_limits(tx, {f"tenant/{tenant.name}": limit})
    return True


async def seal_tenant(tx: Tx, name: str, sealed: bool) -> bool:
    tx.topics.add("tenant")
    return bool(await tx.fetch("seal_tenant", name, tx.now, sealed))


async def list_tenants(tx: Tx) -> list[TenantRecord]:
    return [tenant_of(row) for row in await tx.fetch("list_tenants")]


async def count_waiting(tx: Tx) -> dict[int, int]:
    return dict(await tx.fetch("count_waiting"))


async def erase_tenant(tx: Tx, name: str, limit: int) -> int:
    await tx.fetch("mark_erased", name, tx.now)
    jobs = [row[0] for row in await tx.fetch("jobs_of", name, limit)]
    await _erase_jobs(tx, jobs)
    if len(jobs) < limit:
        await tx.fetch("end_sessions_of", name, tx.now)
        await tx.fetch("erase_definitions", name)
        tx.topics |= {"schedule", "queue", "key", "secret"}
    tx.topics.add("tenant")
    return len(jobs)


async def _erase_jobs(tx: Tx, ids: Sequence[bytes]) -> None:
    """Whoever has one of them finds out when he reports: it is not live any more."""
    rows = await lock_rows(tx, ids)
    if not rows:
        return
    await drop_waiting(tx, rows.values())
    live = [row.id for row in rows.values() if row.state in LIVE]
    if live:
        await tx.fetch("end_live_of", live)
    ended = [row for row in rows.values() if row.state in ENDED]
    if ended:
        places = ([row.tenant for row in ended], [row.state for row in ended], [row.finished_at for row in ended])
        await tx.fetch("delete_finished", *places, [row.id for row in ended])
    gone = list(rows)
    await tx.fetch("drop_edges", gone)
    children = [row[0] for row in await tx.fetch("release_ended", gone)]
    await tx.fetch("prune_jobs", gone, tx.partitions)
    await unlock(tx, [child for child in children if child not in rows])
    tx.topics.add("settled")  # what they held of limits is free
