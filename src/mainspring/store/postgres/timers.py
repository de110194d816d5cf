"""Timers ripen into ready jobs, late jobs expire, old jobs go (see `store.contract.Timers`)."""

from collections.abc import Sequence

from mainspring.core.lifecycle import WAITING, Reason, State
from mainspring.core.timer import HOUR, Micros
from mainspring.store.postgres.changes import Changes, drop_waiting, lock_rows
from mainspring.store.postgres.database import Tx
from mainspring.store.rows import CLAIM_LIFE


async def ripen_timers(tx: Tx, partitions: Sequence[int], limit: int) -> tuple[int, Micros | None]:
    streams = await tx.fetch("ripen_timers", partitions, tx.now, limit)
    moved = 0
    for partition, band, lane, rank, count in streams:
        tx.ready(partition, band, lane, rank)
        moved += count
    moved += await _expire(tx, partitions, max(1, limit - moved))
    ((next_at,),) = await tx.fetch("next_due", partitions)
    return moved, next_at


async def _expire(tx: Tx, partitions: Sequence[int], limit: int) -> int:
    due = [row[0] for row in await tx.fetch("due_expiries", partitions, tx.now, limit)]
    rows = await lock_rows(tx, due)
    late = [row for row in rows.values() if row.state in WAITING and row.attempt == 0]
    if late:
        await drop_waiting(tx, late)
        await tx.fetch("drop_edges", [row.id for row in late])
        changes = Changes(tx)
        for row in late:
            changes.end(row, State.CANCELLED, Reason.EXPIRED)
        await changes.write()
    return len(due)


async def list_expired(tx: Tx, limit: int) -> list[tuple[bytes, bool]]:
    return [(job, outputs) for job, outputs in await tx.fetch("list_expired", tx.now, limit)]


async def expire_results(tx: Tx, jobs: Sequence[bytes]) -> int:
    return len(await tx.fetch("expire_results", jobs, tx.now))


async def prune_jobs(tx: Tx, ended_before: dict[str, Micros], limit: int) -> int:
    pruned = 0
    for (tenant,) in await tx.fetch("ended_tenants"):
        for state, before in ended_before.items():
            if pruned < limit:
                pruned += await _prune(tx, tenant, state, before, limit - pruned)
    if pruned < limit:
        await _forget(tx, ended_before)
    return pruned


async def _forget(tx: Tx, ended_before: dict[str, Micros]) -> None:
    await tx.fetch("prune_missed", min(ended_before.values()))
    for name in ("forget_limits", "forget_sessions", "forget_nodes", "forget_marks"):
        await tx.fetch(name, tx.now - HOUR)


async def _prune(tx: Tx, tenant: str, state: str, before: Micros, limit: int) -> int:
    ids = [row[0] for row in await tx.fetch("take_prunable", tenant, state, before, tx.now - CLAIM_LIFE, limit)]
    if ids:
        await tx.fetch("prune_jobs", ids, tx.partitions)
    return len(ids)
