"""Jobs: read, list, count, cancel (see `store.contract.Jobs`; inserting is in `insert`, changing in `edits`)."""

from collections.abc import Sequence

from mainspring.core.job import JobRecord
from mainspring.core.lifecycle import ENDED, LIVE, WAITING, Reason, State
from mainspring.core.timer import Micros
from mainspring.store.contract import AttemptFailure, Ended, EndedJob, JobFilter, Tally, UsageTally
from mainspring.store.postgres.changes import Changes, drop_waiting, lock_rows
from mainspring.store.postgres.database import Tx
from mainspring.store.rows import record_of
from mainspring.store.usage import add_usage, usage_until
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
        id_: Ended(
            state, reason, data, Failure(*last) if last[0] is not None else None, tenant, kind, outputs, expires_at
        )
        for id_, state, reason, data, tenant, kind, outputs, expires_at, *last in await tx.fetch("read_ended", ids)
    }
    return [found.get(id_) for id_ in ids]


async def read_failures(tx: Tx, job: bytes) -> list[AttemptFailure]:
    rows = await tx.fetch("read_failures", job)
    return [AttemptFailure(attempt, at, Failure(*rest), usage) for attempt, at, usage, *rest in rows]


async def list_parents(tx: Tx, job: bytes, limit: int) -> list[bytes]:
    return [row[0] for row in await tx.fetch("list_parents", job, limit)]


async def count_jobs(tx: Tx, tenant: str | None) -> dict[tuple[str, str], int]:
    return {(queue, state): count for queue, state, count in await tx.fetch("count_jobs", tenant)}


async def list_ended(tx: Tx, tenants: Sequence[str], since: Micros, limit: int) -> list[EndedJob]:
    return [EndedJob(*row) for row in await tx.fetch("list_ended", sorted(set(tenants)), since, limit)]


async def tally_ended(tx: Tx, tenant: str, since: Micros, until: Micros, step: Micros) -> list[Tally]:
    return [Tally(*row) for row in await tx.fetch("tally_ended", tenant, since, until, step)]


async def tally_usage(tx: Tx, tenant: str, since: Micros, until: Micros, limit: int) -> tuple[list[UsageTally], Micros]:
    cuts = [row[0] for row in await tx.fetch("usage_cuts", tenant, since, until, limit)]
    until = usage_until(since, until, cuts)
    rows = await tx.fetch("tally_usage", tenant, since, until)
    return add_usage([UsageTally(*row) for row in rows]), until


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
