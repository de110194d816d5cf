"""Stored schedules and their firing (see `store.contract.Schedules`)."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from mainspring.core.job import NewJobs
from mainspring.core.timer import Micros
from mainspring.store.contract import Firing, MissedRecord, ScheduleRecord
from mainspring.store.postgres.database import Tx
from mainspring.store.postgres.errors import LostRaceError
from mainspring.store.postgres.insert import insert_jobs
from mainspring.store.postgres.jobs import cancel_active

_COLUMNS = ("id", "tenant", "name", "definition", "origin", "paused", "watermark_at", "runs", "next_at", "version")


async def put_schedules(tx: Tx, schedules: Sequence[ScheduleRecord]) -> list[bool]:
    tx.topics.add("schedule")
    put = {place: await _put(tx, s) for place, s in sorted(enumerate(schedules), key=lambda item: item[1].id)}
    return [put[place] for place in range(len(schedules))]


async def _put(tx: Tx, s: ScheduleRecord) -> bool:
    state = (s.definition, s.origin, s.paused, s.watermark_at, s.runs, s.next_at)
    if s.version == 0:
        return bool(await tx.fetch("insert_schedule", s.id, s.tenant, s.name, *state))
    return bool(await tx.fetch("replace_schedule", s.id, s.version, *state))


async def delete_schedules(tx: Tx, ids: Sequence[str]) -> int:
    return len(await tx.fetch("delete_schedules", sorted(ids)))


async def list_schedules(tx: Tx, tenant: str | None) -> list[ScheduleRecord]:
    return await _records(tx, await tx.fetch("list_schedules", tenant))


async def read_schedules(tx: Tx, ids: Sequence[str]) -> list[ScheduleRecord | None]:
    found = {record.id: record for record in await _records(tx, await tx.fetch("read_schedules", ids))}
    return [found.get(id_) for id_ in ids]


async def due_schedules(tx: Tx, limit: int) -> tuple[list[ScheduleRecord], Micros | None]:
    due = await _records(tx, await tx.fetch("due_schedules", tx.now, limit))
    ((next_at,),) = await tx.fetch("next_schedule", tx.now)
    return due, next_at


async def _records(tx: Tx, rows: Sequence[Any]) -> list[ScheduleRecord]:
    if not rows:
        return []
    counted = await tx.fetch("count_active", [row[0] for row in rows])
    counts = {schedule: (active, queued) for schedule, active, queued in counted}
    records = []
    for row in rows:
        active, queued = counts.get(row[0], (0, 0))
        fields: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
        records.append(ScheduleRecord(**fields, active=active, queued=queued))
    return records


async def fire_schedules(tx: Tx, firings: Sequence[Firing]) -> list[bool]:
    """The compare-and-set on the version decides who fires; everything else follows in the same transaction."""
    free = [firing for firing in firings if not await _is_held(tx, firing)]
    if not free:
        return [False] * len(firings)
    steps = sorted((f.schedule, f.version, f.watermark_at, f.next_at, f.runs) for f in free)
    advanced = {row[0] for row in await tx.fetch("advance_schedules", *map(list, zip(*steps, strict=True)))}
    won = [firing for firing in free if firing.schedule in advanced]
    if won:
        replaced = [firing.schedule for firing in won if firing.cancel_active]
        if replaced:
            await cancel_active(tx, replaced)
        await _insert_missed(tx, won)
        await _insert_occurrences(tx, won)
        tx.topics.add("schedule")
    return [firing.schedule in advanced for firing in firings]


async def _is_held(tx: Tx, firing: Firing) -> bool:
    """Has another job the claim of one of these? Only firings by hand have claims, so mostly nothing is asked."""
    names = [(batch.template.tenant, batch.claim.key) for batch in firing.jobs if batch.claim is not None]
    return bool(names) and bool(await tx.fetch("read_claims", *map(list, zip(*names, strict=True))))


async def _insert_missed(tx: Tx, firings: Sequence[Firing]) -> None:
    rows = {(m.schedule, m.last_at, m.reason): m for firing in firings for m in firing.missed}
    if rows:
        columns = [(m.schedule, m.last_at, m.first_at, m.count, m.reason) for _, m in sorted(rows.items())]
        await tx.fetch("insert_missed", *map(list, zip(*columns, strict=True)))


async def _insert_occurrences(tx: Tx, firings: Sequence[Firing]) -> None:
    """A job for each occurrence that has none yet; where a schedule is serial, each waits for the one before."""
    wanted = [(f.schedule, b.template.options.occurrence_at, b.ids[0]) for f in firings for b in f.jobs]
    if not wanted:
        return
    fresh = {row[0] for row in await tx.fetch("insert_occurrences", *map(list, zip(*wanted, strict=True)))}
    serial = [firing.schedule for firing in firings if firing.serial and firing.jobs]
    last: dict[str, tuple[bytes, ...]] = {}
    for schedule, job in await tx.fetch("last_active", serial) if serial else ():
        last[schedule] = (*last.get(schedule, ()), job)
    batches: list[NewJobs] = []
    for firing in firings:
        for batch in firing.jobs:
            if batch.ids[0] not in fresh:
                continue
            if firing.serial:
                batches.append(structs.replace(batch, after=last.get(firing.schedule, ())))
                last[firing.schedule] = (batch.ids[0],)
            else:
                batches.append(batch)
    if batches:
        lanes = {lane.number(): lane for firing in firings for lane in firing.lanes}
        answers = await insert_jobs(tx, batches, list(lanes.values()))
        if any(answer.existed for inserted in answers for answer in inserted):
            raise LostRaceError  # somebody took a claim after we had looked: the next look sees that
        named = {batch.ids[0]: firing.schedule for firing in firings for batch in firing.jobs}
        made = [batch.ids[0] for batch in batches]
        await tx.fetch("insert_actives", made, [named[job] for job in made])


async def read_claims(tx: Tx, schedule: ScheduleRecord, keys: Sequence[str]) -> list[bytes | None]:
    found = {row[1]: row[2] for row in await tx.fetch("read_claims", [schedule.tenant] * len(keys), list(keys))}
    return [found.get(key) for key in keys]


async def list_missed(tx: Tx, schedule: str, limit: int) -> list[MissedRecord]:
    return [MissedRecord(*row) for row in await tx.fetch("list_missed", schedule, limit)]
