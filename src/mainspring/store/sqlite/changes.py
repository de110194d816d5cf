"""What people change about jobs: arguments, time, priority, needs; and replays (see `store.contract.Jobs.change_jobs`)."""

from collections.abc import Sequence

from msgspec import json

from mainspring.core.job import Options
from mainspring.core.lifecycle import State
from mainspring.core.partition import partition_of
from mainspring.store.contract import Change
from mainspring.store.rows import Row, change_row, refused_change
from mainspring.store.sqlite.database import Q
from mainspring.store.sqlite.jobs import drop_waiting, put_waiting, read_row
from mainspring.store.sqlite.writer import Tx


def change_jobs(tx: Tx, changes: Sequence[Change]) -> list[str | None]:
    return [_change(tx, change) for change in changes]


def _change(tx: Tx, change: Change) -> str | None:
    row = read_row(tx, change.job)
    if row is None:
        return None
    refused = refused_change(row, change)
    if refused is not None:
        return refused
    _leave(tx, row)
    _write(tx, row.options, change)
    change_row(row, change, tx.now)
    put_waiting(tx, row.id, row)
    return State.PENDING


def _leave(tx: Tx, row: Row) -> None:
    """Out of where it waits or has ended."""
    if row.state == State.PENDING:
        drop_waiting(tx, row.id, row)
        return
    tx.execute(Q["delete_finished"], (row.tenant, row.state, row.finished_at, row.id))
    if row.options.schedule is not None:
        tx.execute(Q["insert_active"], (row.id, row.options.schedule))


def _write(tx: Tx, before: Options, change: Change) -> None:
    """What is not in the row itself."""
    if change.arguments is not None or change.options is not None:
        tx.execute(Q["change_spec"], (change.job, change.arguments, change.options))
    if change.options is not None:
        _move_expiry(tx, change.job, before, json.decode(change.options, type=Options))
    if change.lane is not None:
        lane = change.lane
        tx.execute(Q["put_lane"], (lane.number(), json.encode(lane)))
        tx.execute(Q["move_job"], (change.job, lane.number(), lane.queue, lane.kind))


def _move_expiry(tx: Tx, job: bytes, before: Options, after: Options) -> None:
    """Pruning finds it by what the options say."""
    if before.start_by == after.start_by:
        return
    partition = partition_of(job, tx.partitions)
    if before.start_by is not None:
        tx.execute(Q["delete_expiry"], (partition, before.start_by, job))
    if after.start_by is not None:
        tx.execute(Q["insert_expiry"], (partition, after.start_by, job))
        tx.due(after.start_by)
