"""Jobs: insert, read, cancel (see `store.contract.Jobs`; what else changes them is in `changes`, what counts them in `history`)."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
from msgspec import json

from mainspring.core.job import Claim, JobRecord, NewJobs, Template
from mainspring.core.lane import Lane
from mainspring.core.lifecycle import ENDED, LIVE, WAITING, Reason, State
from mainspring.core.partition import partition_of
from mainspring.core.timer import Micros
from mainspring.store.contract import AttemptFailure, Ended, Inserted, JobFilter
from mainspring.store.rows import Row, rank_for, record_of, reusable, row_of, wait_from
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.writer import Tx
from mainspring.wire import Failure

Array = Any  # what apsw.carray makes

EVERY_BYTE = bytes(range(256))
_LAST_ID = b"\xff" * 16
_NO_ID = (b"",)
_LAST_TIME = (1 << 63) - 1
_HINT_EACH = 64  # a larger batch hints at every partition instead of finding out which


def array(values: Iterable[bytes]) -> Array:
    """Many ids, or ids with something behind them, as one bound value; an array may not be empty, so none is one that never is."""
    return apsw.carray(tuple(values) or _NO_ID, flags=apsw.SQLITE_CARRAY_BLOB)


def insert_jobs(tx: Tx, batches: Sequence[NewJobs], lanes: Sequence[Lane]) -> list[list[Inserted]]:
    for lane in lanes:
        tx.execute(Q["put_lane"], (lane.number(), json.encode(lane)))
    return [_insert_batch(tx, batch) for batch in batches]


def _insert_batch(tx: Tx, batch: NewJobs) -> list[Inserted]:
    if batch.claim is not None:
        taken = _take_claim(tx, batch, batch.claim)
        if taken is not None:
            return [taken]
    values = [id_ + arguments for id_, arguments in zip(batch.ids, batch.arguments, strict=True)]
    tx.execute("savepoint batch")
    try:
        _insert_rows(tx, batch, values)
    except apsw.ConstraintError:
        tx.execute("rollback to batch")
        known = {row[0] for row in tx.execute(Q["known_jobs"], (array(batch.ids),))}
        if not known:
            raise
        fresh = [value for value in values if value[:16] not in known]
        if fresh:
            _insert_rows(tx, batch, fresh)
    finally:
        tx.execute("release batch")
    return [Inserted(id_) for id_ in batch.ids]


def _take_claim(tx: Tx, batch: NewJobs, claim: Claim) -> Inserted | None:
    """None where the claim is ours now, else the answer."""
    if (held := holder_of(tx, batch, claim)) is not None:
        return held
    tenant = batch.template.tenant
    tx.execute(Q["put_claim"], (tenant, claim.key, batch.ids[0], claim.digest, claim.expires_at))
    return None


def holder_of(tx: Tx, batch: NewJobs, claim: Claim) -> Inserted | None:
    """Who has the claim of this batch; None where it is free or over."""
    row = tx.execute(Q["read_claim"], (batch.template.tenant, claim.key)).fetchone()
    if row is not None and row[0] == batch.ids[0]:
        return Inserted(row[0])  # this very insert came before
    if row is not None and (row[2] is None or row[2] > tx.now) and not (claim.reuse and _is_spent(tx, row[0])):
        return Inserted(row[0], existed=True, conflict=row[1] != claim.digest)
    return None


def _is_spent(tx: Tx, job: bytes) -> bool:
    """Can nobody reuse it?"""
    row = tx.execute(Q["read_holder"], (job,)).fetchone()
    if row is None:
        return True
    state, finished_at, options = row
    return not reusable(state, finished_at, options, tx.now)


def _insert_rows(tx: Tx, batch: NewJobs, values: list[bytes]) -> None:
    """Each value is an id and its arguments; all of them go into `job` and `spec`, and into where they wait."""
    t, options, bound = batch.template, batch.template.options, array(values)
    due_at = tx.now if t.due_at is None else t.due_at
    rank = rank_for(due_at, t.priority, options) + batch.first - 1  # the array counts from 1
    blocked = _block(tx, batch, bound)
    state = State.BLOCKED if blocked else State.PENDING
    columns = (t.tenant, t.queue, t.kind, t.priority, t.band, t.lane, rank, due_at, tx.now, state)
    tx.execute(Q["insert_jobs"], (bound, *columns))
    tx.execute(Q["insert_specs"], (bound, json.encode(options)))
    if not blocked:
        place = (bound, t.band, t.lane, rank, tx.partitions, EVERY_BYTE)
        if due_at > tx.now:
            tx.execute(Q["insert_timers"], (*place, due_at))
            tx.due(due_at)
        else:
            tx.execute(Q["insert_ready"], place)
            _hint_ready(tx, t, values, rank + 1)
    if options.start_by is not None:
        rows = [(partition_of(value, tx.partitions), options.start_by, value[:16]) for value in values]
        tx.connection.executemany(Q["insert_expiry"], rows)
        tx.due(options.start_by)


def _block(tx: Tx, batch: NewJobs, bound: Array) -> bool:
    """Must these wait for others? Those others are noted."""
    if not batch.after:
        return False
    parents = tx.execute(Q["waiting_parents"], (array(batch.after),)).fetchall()
    for (parent,) in parents:
        tx.execute(Q["insert_edges"], (bound, parent))
    return bool(parents)


def unlock(tx: Tx, ended: Array) -> None:
    """Jobs that waited for these alone may start."""
    children = tx.execute(Q["unlocked_children"], (ended,)).fetchall()
    if not children:
        return
    tx.execute(Q["cut_edges"], (ended,))
    for (child,) in children:
        row = read_row(tx, child)
        if row is not None and row.state == State.BLOCKED and tx.execute(Q["count_parents"], (child,)).get == 0:
            requeue(tx, child, row, max(row.due_at, tx.now))


def _hint_ready(tx: Tx, template: Template, values: list[bytes], rank: Micros) -> None:
    if len(values) > _HINT_EACH:
        partitions: Iterable[int] = range(tx.partitions)
    else:
        partitions = (partition_of(value, tx.partitions) for value in values)
    for partition in partitions:
        tx.ready(partition, template.band, template.lane, rank)


def read_jobs(connection: Reader, ids: Sequence[bytes]) -> list[JobRecord | None]:
    found = {row[0]: record_of(row) for row in connection.execute(Q["read_jobs"], (array(ids),))}
    return [found.get(id_) for id_ in ids]


def list_jobs(
    connection: Reader, which: JobFilter, before: bytes | None, limit: int, ended_at: Micros | None
) -> list[JobRecord]:
    if which.state in ENDED:
        return _list_finished(connection, which, before, limit, ended_at)
    filters = (which.tenant, which.state, which.queue, which.kind, which.tag, which.schedule)
    rows = connection.execute(Q["list_jobs"], (before or _LAST_ID, *filters, limit))
    return [record_of(row) for row in rows]


def _list_finished(
    connection: Reader, which: JobFilter, before: bytes | None, limit: int, ended_at: Micros | None
) -> list[JobRecord]:
    if ended_at is None and before is not None:
        ended_at = connection.execute("select finished_at from job where id = ?", (before,)).get
    start = (_LAST_TIME if ended_at is None else ended_at, before or _LAST_ID)
    tenants = [which.tenant] if which.tenant is not None else [row[0] for row in connection.execute(Q["ended_tenants"])]
    found = []
    for tenant in tenants:
        filters = (which.queue, which.kind, which.tag, which.schedule)
        rows = connection.execute(Q["list_finished"], (tenant, which.state, *start, *filters, limit))
        found += [record_of(row) for row in rows]
    found.sort(key=lambda record: (record.finished_at or 0, record.id), reverse=True)
    return found[:limit]


def read_ended(connection: Reader, ids: Sequence[bytes]) -> list[Ended | None]:
    found = {}
    for id_, state, reason, data, tenant, kind, *kept in connection.execute(Q["read_ended"], (array(ids),)).fetchall():
        failure = None
        if state != State.COMPLETED:
            row = connection.execute(Q["last_failure"], (id_,)).fetchone()
            failure = Failure(*row) if row else None
        found[id_] = Ended(state, reason, data, failure, tenant, kind, *kept)
    return [found.get(id_) for id_ in ids]


def read_failures(connection: Reader, job: bytes) -> list[AttemptFailure]:
    rows = connection.execute(Q["read_failures"], (job,))
    return [AttemptFailure(attempt, at, Failure(*rest), usage) for attempt, at, usage, *rest in rows]


def list_parents(connection: Reader, job: bytes, limit: int) -> list[bytes]:
    return [row[0] for row in connection.execute(Q["list_parents"], (job, limit))]


def read_row(tx: Tx, job: bytes) -> Row | None:
    row = tx.execute(Q["read_row"], (job,)).fetchone()
    return None if row is None else row_of(row)


def cancel_jobs(tx: Tx, ids: Sequence[bytes]) -> list[str | None]:
    return [_cancel(tx, id_, Reason.REQUESTED) for id_ in ids]


def _cancel(tx: Tx, job: bytes, reason: str) -> str | None:
    row = read_row(tx, job)
    if row is None:
        return None
    if row.state in WAITING:
        end_waiting(tx, job, row, reason)
        return State.CANCELLED
    if row.state in LIVE:
        tx.execute(Q["request_cancel"], (job,))
        tx.execute(Q["insert_cancel"], (job, reason))
        tx.topics.add("cancel")
        return "requested"
    return "ended"


def end_waiting(tx: Tx, job: bytes, row: Row, reason: str) -> None:
    """A job that has not been assigned ends as cancelled."""
    drop_waiting(tx, job, row)
    tx.execute(Q["drop_edges"], (job,))
    end_row(tx, job, row, State.CANCELLED, reason)


def drop_waiting(tx: Tx, job: bytes, row: Row) -> None:
    """Out of `timer` and `ready`: it is in one of them, and only the sweeper knows in which."""
    partition = partition_of(job, tx.partitions)
    tx.execute(Q["delete_ready"], (partition, row.band, row.lane, row.rank, job))
    tx.execute(Q["delete_timer"], (partition, row.due_at, job))


def end_row(tx: Tx, job: bytes, row: Row, state: str, reason: str | None) -> None:
    """The last write of a job's life; `row` carries the counters as they shall be."""
    after = (state, tx.now, reason, row.failures, row.losses, row.usage)
    tx.execute(Q["end_job"], (job, *after, row.state, row.attempt))
    tx.execute(Q["insert_finished"], (row.tenant, state, tx.now, job))
    ids = array([job])
    tx.execute(Q["release_active"], (ids,))
    unlock(tx, ids)
    tx.topics.add("settled")


def requeue(tx: Tx, job: bytes, row: Row, due_at: Micros) -> None:
    """Pending again, in `timer` or `ready`; `row` carries counters as they shall be, and the state it is in."""
    wait_from(row, due_at)
    put_waiting(tx, job, row)


def put_waiting(tx: Tx, job: bytes, row: Row) -> None:
    """Pending, as the row says, in the state it is in."""
    after = (row.due_at, row.rank, row.failures, row.losses, row.priority, row.band, row.usage)
    tx.execute(Q["requeue_job"], (job, *after, row.state, row.attempt))
    partition = partition_of(job, tx.partitions)
    if row.due_at > tx.now:
        tx.execute(Q["put_timer"], (partition, row.due_at, job, row.band, row.lane, row.rank, row.attempt))
        tx.due(row.due_at)
    else:
        tx.execute(Q["put_ready"], (partition, row.band, row.lane, row.rank, job, row.attempt))
        tx.ready(partition, row.band, row.lane, row.rank)


def cancel_active(tx: Tx, schedule: str) -> None:
    """The newer occurrence replaces what its schedule still has going."""
    for (job,) in tx.execute(Q["active_jobs"], (schedule,)).fetchall():
        _cancel(tx, job, Reason.OVERLAP)
