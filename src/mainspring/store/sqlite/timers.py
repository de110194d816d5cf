"""Timers ripen into ready jobs, late jobs expire, old jobs go (see `store.contract.Timers`)."""

from collections.abc import Sequence

from mainspring.core.lifecycle import WAITING, Reason
from mainspring.core.timer import HOUR, Micros
from mainspring.store.rows import CLAIM_LIFE
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.jobs import EVERY_BYTE, array, end_waiting, read_row
from mainspring.store.sqlite.writer import Tx

_LAST_ID = b"\xff" * 16
PRUNED = ("prune_job", "prune_spec", "prune_result", "prune_failure", "prune_claim", "prune_occurrence")


def ripen_timers(tx: Tx, partitions: Sequence[int], limit: int) -> tuple[int, Micros | None]:
    moved = 0
    for partition in partitions:
        if moved < limit:
            moved += _ripen(tx, partition, limit - moved) + _expire(tx, partition, limit - moved)
    return moved, _next_due(tx, partitions)


def _ripen(tx: Tx, partition: int, limit: int) -> int:
    last = tx.execute(Q["last_ripe"], (partition, tx.now, limit - 1)).fetchone() or (tx.now, _LAST_ID)
    key = (partition, *last)
    streams = tx.execute(Q["ripe_streams"], key).fetchall()
    if not streams:
        return 0
    tx.execute(Q["ripen_timers"], key)
    tx.execute(Q["delete_timers"], key)
    for band, lane, rank in streams:
        tx.ready(partition, band, lane, rank)
    return tx.connection.changes()


def _expire(tx: Tx, partition: int, limit: int) -> int:
    due = tx.execute(Q["due_expiries"], (partition, tx.now, max(limit, 1))).fetchall()
    for start_by, job in due:
        tx.execute(Q["delete_expiry"], (partition, start_by, job))
        row = read_row(tx, job)
        if row is not None and row.state in WAITING and row.attempt == 0:
            end_waiting(tx, job, row, Reason.EXPIRED)
    return len(due)


def _next_due(tx: Tx, partitions: Sequence[int]) -> Micros | None:
    times = [tx.execute(Q[name], (partition,)).get for partition in partitions for name in ("next_due", "next_expiry")]
    return min((at for at in times if at is not None), default=None)


def list_expired(connection: Reader, now: Micros, limit: int) -> list[tuple[bytes, bool]]:
    return [(job, bool(outputs)) for job, outputs in connection.execute(Q["list_expired"], (now, limit))]


def expire_results(tx: Tx, jobs: Sequence[bytes]) -> int:
    tx.execute(Q["expire_results"], (array(sorted(jobs)), tx.now))
    return tx.connection.changes()


def prune_jobs(tx: Tx, ended_before: dict[str, Micros], limit: int) -> int:
    pruned = 0
    for (tenant,) in tx.execute(Q["ended_tenants"]).fetchall():
        for state, before in ended_before.items():
            if pruned < limit:
                pruned += _prune(tx, tenant, state, before, limit - pruned)
    if pruned < limit:
        _forget(tx, ended_before)
    return pruned


def _forget(tx: Tx, ended_before: dict[str, Micros]) -> None:
    tx.execute(Q["prune_missed"], (min(ended_before.values()),))
    tx.execute(Q["forget_progress"])
    tx.execute(Q["forget_limits"], (tx.now - HOUR,))
    tx.execute(Q["forget_sessions"], (tx.now - HOUR,))
    tx.execute(Q["forget_nodes"], (tx.now - HOUR,))


def _prune(tx: Tx, tenant: str, state: str, before: Micros, limit: int) -> int:
    rows = tx.execute(Q["prunable_jobs"], (tenant, state, before, tx.now - CLAIM_LIFE, limit)).fetchall()
    if not rows:
        return 0
    ids = array(job for _, job in rows)
    tx.execute(Q["prune_finished"], (ids, tenant, state, rows[-1][0]))
    tx.execute(Q["prune_expiry"], (ids, tx.partitions, EVERY_BYTE))
    for name in PRUNED:
        tx.execute(Q[name], (ids,))
    return len(rows)
