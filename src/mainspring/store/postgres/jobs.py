"""Jobs: read, cancel, replay, reprioritise (see `store.contract.Jobs`; inserting is in `insert`)."""

from collections.abc import Sequence

from mainspring.core.job import JobRecord
from mainspring.core.lifecycle import ENDED, LIVE, WAITING, Reason, State
from mainspring.core.timer import Micros
from mainspring.store.contract import AttemptFailure, Ended, JobFilter
from mainspring.store.postgres.changes import Changes, drop_waiting, lock_rows
from mainspring.store.postgres.database import Tx
from mainspring.store.rows import record_of
from mainspring.wire import Failure

_LAST_ID = b"\xff" * 16
_LAST_TIME = (1 << 63) - 1


async def read_jobs(tx: Tx, ids: Sequence[bytes]) -> list[JobRecord | None]:
    found = {row[0]: record_of(row) for row in await tx.fetch("read_jobs", ids)}
    return [found.get(id_) for id_ in ids]


async def list_jobs(
    tx: Tx, which: JobFilter, before: bytes | None, limit: int, ended_at: Micros | None
) -> list[JobRecord]:
    if which.state in ENDED:
        return await _list_finished(tx, which, before, limit, ended_at)
    filters = (which.tenant, which.state, which.queue, which.kind, which.tag, which.schedule)
    return [record_of(row) for row in await tx.fetch("list_jobs", before or _LAST_ID, *filters, limit)]


async def _list_finished(
    tx: Tx, which: JobFilter, before: bytes | None, limit: int, ended_at: Micros | None
) -> list[JobRecord]:
    if ended_at is None and before is not None:
        ended_at = next((row[0] for row in await tx.fetch("ended_at", before)), None)
    start = (_LAST_TIME if ended_at is None else ended_at, before or _LAST_ID)
    tenants = [which.tenant] if which.tenant is not None else [row[0] for row in await tx.fetch("ended_tenants")]
    filters = (which.queue, which.kind, which.tag, which.schedule)
    found = [
        record_of(row)
        for tenant in tenants
        for row in await tx.fetch("list_finished", tenant, which.state, *start, *filters, limit)
    ]
    found.sort(key=lambda record: (record.finished_at or 0, record.id), reverse=True)
    return found[:limit]


async def read_ended(tx: Tx, ids: Sequence[bytes]) -> list[Ended | None]:
    found = {
        id_: Ended(state, reason, data, Failure(*failure) if failure[0] is not None else None, tenant, kind)
        for id_, state, reason, data, tenant, kind, *failure in await tx.fetch("read_ended", ids)
    }
    return [found.get(id_) for id_ in ids]


async def read_failures(tx: Tx, job: bytes) -> list[AttemptFailure]:
    rows = await tx.fetch("read_failures", job)
    return [AttemptFailure(attempt, at, Failure(*rest)) for attempt, at, *rest in rows]


async def list_parents(tx: Tx, job: bytes, limit: int) -> list[bytes]:
    return [row[0] for row in await tx.fetch("list_parents", job, limit)]


async def count_jobs(tx: Tx) -> dict[tuple[str, str], int]:
    return {(queue, state): count for queue, state, count in await tx.fetch("count_jobs")}


async def cancel_jobs(tx: Tx, ids: Sequence[bytes], reason: str = Reason.REQUESTED) -> list[str | None]:
    rows = await lock_rows(tx, set(ids))
    waiting = [row for row in rows.values() if row.state in WAITING]
    live = [id_ for id_, row in rows.items() if row.state in LIVE]
    if waiting:
        await drop_waiting(tx, waiting)
        await tx.fetch("drop_edges", [row.id for row in waiting])
        changes = Changes(tx)
        for row in waiting:
            changes.end(row, State.CANCELLED, reason)
        await changes.write()
    if live:
        await tx.fetch("request_cancels", live)
        await tx.fetch("insert_cancels", live, str(reason))
        tx.topics.add("cancel")
    answers: dict[bytes, str] = dict.fromkeys(rows, "ended")
    answers.update(dict.fromkeys(live, "requested"))
    answers.update((row.id, State.CANCELLED) for row in waiting)
    return _once(ids, answers, "ended")


async def retry_jobs(tx: Tx, ids: Sequence[bytes]) -> list[str | None]:
    rows = await lock_rows(tx, set(ids))
    again = [row for row in rows.values() if row.state in (State.FAILED, State.CANCELLED)]
    answers: dict[bytes, str] = {id_: row.state for id_, row in rows.items()}
    if again:
        places = ([row.tenant for row in again], [row.state for row in again], [row.finished_at for row in again])
        await tx.fetch("delete_finished", *places, [row.id for row in again])
        changes = Changes(tx)
        for row in again:
            row.failures = row.losses = 0
            changes.requeue(row, tx.now)
        await changes.write()
        scheduled = [(row.id, row.options.schedule) for row in again if row.options.schedule is not None]
        if scheduled:
            await tx.fetch("insert_actives", *map(list, zip(*scheduled, strict=True)))
        answers.update((row.id, State.PENDING) for row in again)
    return [answers.get(id_) for id_ in ids]


async def reprioritise_jobs(tx: Tx, ids: Sequence[bytes], priority: int) -> list[str | None]:
    rows = await lock_rows(tx, set(ids))
    pending = [row for row in rows.values() if row.state == State.PENDING]
    if pending:
        await drop_waiting(tx, pending)
        changes = Changes(tx)
        for row in pending:
            row.priority = priority
            changes.requeue(row, row.due_at)
        await changes.write()
    return [None if id_ not in rows else rows[id_].state for id_ in ids]


async def cancel_active(tx: Tx, schedules: Sequence[str]) -> None:
    """The newer occurrence replaces what its schedule still has going."""
    active = [row[0] for row in await tx.fetch("active_jobs", schedules)]
    if active:
        await cancel_jobs(tx, active, Reason.OVERLAP)


def _once(ids: Sequence[bytes], answers: dict[bytes, str], repeated: str) -> list[str | None]:
    """Who asks twice for one job hears the second time that it has been done."""
    seen: set[bytes] = set()
    found: list[str | None] = []
    for id_ in ids:
        answer = answers.get(id_)
        found.append(repeated if id_ in seen and answer == State.CANCELLED else answer)
        seen.add(id_)
    return found
