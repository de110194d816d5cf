"""Ends and returns of jobs, decided one by one and written together.

Jobs are locked first (`lock_rows`), so what is decided about them still holds when it is written.
"""

from collections.abc import Collection, Iterable

from mainspring.core.lifecycle import State
from mainspring.core.partition import partition_of
from mainspring.core.timer import Micros
from mainspring.store.postgres.database import Tx
from mainspring.store.rows import Row, row_of, wait_from


async def lock_rows(tx: Tx, ids: Collection[bytes]) -> dict[bytes, Row]:
    """These jobs, in the order of their ids; nobody else changes them until this transaction ends."""
    rows = await tx.fetch("lock_rows", sorted(ids)) if ids else []
    if not rows:
        return {}
    options = dict(await tx.fetch("read_options", [row[0] for row in rows]))
    return {row[0]: row_of((*row, options[row[0]])) for row in rows}


async def drop_waiting(tx: Tx, rows: Iterable[Row]) -> None:
    """Out of `timer` and `ready`: pending jobs are in one of them. What ripens meanwhile is in `ready` when we look there."""
    pending = [(row, partition_of(row.id, tx.partitions)) for row in rows if row.state == State.PENDING]
    if not pending:
        return
    ids = [row.id for row, _ in pending]
    partitions = [partition for _, partition in pending]
    await tx.fetch("delete_timers", partitions, [row.due_at for row, _ in pending], ids)
    places = ([row.band for row, _ in pending], [row.lane for row, _ in pending], [row.rank for row, _ in pending])
    await tx.fetch("delete_ready", partitions, *places, ids)


class Changes:
    """What becomes of locked jobs. Rows carry the counters, the priority, the band and the lane as they shall be."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._ended: list[tuple[Row, str, str | None]] = []
        self._queued: list[Row] = []

    def end(self, row: Row, state: str, reason: str | None) -> None:
        """The last write of a job's life."""
        self._ended.append((row, str(state), None if reason is None else str(reason)))

    def requeue(self, row: Row, due_at: Micros) -> None:
        """Pending again, in `timer` or `ready`. It is in neither now."""
        wait_from(row, due_at)
        self._queued.append(row)

    async def write(self) -> None:
        children: list[bytes] = []
        if self._ended:
            children = await self._write_ended()
        if self._queued:
            await self._write_queued()
        await unlock(self._tx, children)

    async def _write_ended(self) -> list[bytes]:
        """Those who waited for one of them."""
        tx, ended = self._tx, sorted(self._ended, key=lambda change: change[0].id)
        ids = [row.id for row, _, _ in ended]
        states = [state for _, state, _ in ended]
        attempts, reasons = [row.attempt for row, _, _ in ended], [reason for _, _, reason in ended]
        counters = ([row.failures for row, _, _ in ended], [row.losses for row, _, _ in ended])
        usages = [row.usage for row, _, _ in ended]
        await tx.fetch("end_jobs", ids, attempts, states, reasons, *counters, usages, tx.now)
        await tx.fetch("insert_finished", [row.tenant for row, _, _ in ended], states, ids, tx.now)
        tx.topics.add("settled")
        return [row[0] for row in await tx.fetch("release_ended", ids)]

    async def _write_queued(self) -> None:
        tx, rows = self._tx, sorted(self._queued, key=lambda row: row.id)
        ids, attempts, times = [row.id for row in rows], [row.attempt for row in rows], [row.due_at for row in rows]
        bands, ranks = [row.band for row in rows], [row.rank for row in rows]
        counters = ([row.failures for row in rows], [row.losses for row in rows])
        priorities, usages = [row.priority for row in rows], [row.usage for row in rows]
        await tx.fetch("requeue_jobs", ids, attempts, times, ranks, *counters, priorities, bands, usages)
        partitions = [partition_of(id_, tx.partitions) for id_ in ids]
        lanes = [row.lane for row in rows]
        await tx.fetch("put_waiting", partitions, bands, lanes, ranks, ids, attempts, times, tx.now)
        for partition, row in zip(partitions, rows, strict=True):
            if row.due_at > tx.now:
                tx.due(row.due_at)
            else:
                tx.ready(partition, row.band, row.lane, row.rank)


async def unlock(tx: Tx, children: Collection[bytes]) -> None:
    """Jobs that waited for others, some of which have ended: those that wait for nobody any more may start."""
    if not children:
        return
    rows = await lock_rows(tx, children)
    still = {row[0] for row in await tx.fetch("blocked_children", sorted(children))}
    changes = Changes(tx)
    for id_, row in rows.items():
        if row.state == State.BLOCKED and id_ not in still:
            changes.requeue(row, max(row.due_at, tx.now))
    await changes.write()
