"""Stored schedules and their firing (see `store.contract.Schedules`)."""

from collections.abc import Sequence

from msgspec import structs

from mainspring.core.job import NewJobs
from mainspring.core.timer import Micros
from mainspring.store.contract import Firing, MissedRecord, ScheduleRecord
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.jobs import cancel_active, holder_of, insert_jobs
from mainspring.store.sqlite.writer import Tx

_COLUMNS = ("id", "tenant", "name", "definition", "origin", "paused", "watermark_at", "runs", "next_at", "version")


def put_schedules(tx: Tx, schedules: Sequence[ScheduleRecord]) -> list[bool]:
    tx.topics.add("schedule")
    return [_put(tx, schedule) for schedule in schedules]


def _put(tx: Tx, s: ScheduleRecord) -> bool:
    state = (s.definition, s.origin, int(s.paused), s.watermark_at, s.runs, s.next_at)
    if s.version == 0:
        tx.execute(Q["insert_schedule"], (s.id, s.tenant, s.name, *state))
    else:
        tx.execute(Q["replace_schedule"], (s.id, s.version, *state))
    return tx.connection.changes() == 1


def delete_schedules(tx: Tx, ids: Sequence[str]) -> int:
    deleted = 0
    for id_ in ids:
        tx.execute(Q["delete_schedule"], (id_,))
        deleted += tx.connection.changes()
    return deleted


def list_schedules(connection: Reader, tenant: str | None) -> list[ScheduleRecord]:
    rows = connection.execute(Q["list_schedules"], (tenant,)).fetchall()
    return [_record(connection, row) for row in rows]


def read_schedules(connection: Reader, ids: Sequence[str]) -> list[ScheduleRecord | None]:
    rows = [connection.execute(Q["read_schedule"], (id_,)).fetchone() for id_ in ids]
    return [None if row is None else _record(connection, row) for row in rows]


def due_schedules(connection: Reader, now: Micros, limit: int) -> tuple[list[ScheduleRecord], Micros | None]:
    rows = connection.execute(Q["due_schedules"], (now, limit)).fetchall()
    return [_record(connection, row) for row in rows], connection.execute(Q["next_schedule"], (now,)).get


def _record(connection: Reader, row: tuple[object, ...]) -> ScheduleRecord:
    fields: dict[str, object] = dict(zip(_COLUMNS, row, strict=True))
    active, queued = connection.execute(Q["count_active"], (fields["id"],)).fetchone()
    fields["paused"] = bool(fields["paused"])
    return ScheduleRecord(**fields, active=active, queued=queued)  # type: ignore[arg-type]


def fire_schedules(tx: Tx, firings: Sequence[Firing]) -> list[bool]:
    return [_fire(tx, firing) for firing in firings]


def _fire(tx: Tx, firing: Firing) -> bool:
    """The compare-and-set on the version decides who fires; everything else follows in the same transaction."""
    if any(batch.claim is not None and holder_of(tx, batch, batch.claim) for batch in firing.jobs):
        return False
    key = (firing.schedule, firing.version, firing.watermark_at, firing.next_at, firing.runs)
    tx.execute(Q["advance_schedule"], key)
    if tx.connection.changes() != 1:
        return False
    if firing.cancel_active:
        cancel_active(tx, firing.schedule)
    for missed in firing.missed:
        row = (missed.schedule, missed.last_at, missed.first_at, missed.count, missed.reason)
        tx.execute(Q["insert_missed"], row)
    for batch in firing.jobs:
        _insert_occurrence(tx, firing, batch)
    tx.topics.add("schedule")
    return True


def _insert_occurrence(tx: Tx, firing: Firing, batch: NewJobs) -> None:
    """A job for an occurrence that has none yet."""
    tx.execute(Q["insert_occurrence"], (firing.schedule, batch.template.options.occurrence_at, batch.ids[0]))
    if tx.connection.changes() != 1:
        return
    if firing.serial:
        last = tx.execute(Q["last_active"], (firing.schedule,)).fetchall()
        batch = structs.replace(batch, after=tuple(job for (job,) in last))
    insert_jobs(tx, [batch], firing.lanes)
    tx.execute(Q["insert_active"], (batch.ids[0], firing.schedule))


def read_claims(connection: Reader, schedule: ScheduleRecord, keys: Sequence[str]) -> list[bytes | None]:
    rows = [connection.execute(Q["read_claim"], (schedule.tenant, key)).fetchone() for key in keys]
    return [None if row is None else row[0] for row in rows]


def list_missed(connection: Reader, schedule: str, limit: int) -> list[MissedRecord]:
    return [MissedRecord(*row) for row in connection.execute(Q["list_missed"], (schedule, limit))]
