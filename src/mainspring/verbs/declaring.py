"""Bringing an application's declarations into the store when it starts to run: kinds, limits, queues, schedules.

Changed declarations are updated, removed schedules are reported and kept: deleting them is a person's decision.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, json, structs

from mainspring.core.job import Limit
from mainspring.core.occurrence import next_occurrence
from mainspring.core.options import JobOptions
from mainspring.core.schedule import Rule
from mainspring.core.timer import Micros, from_micros, to_micros
from mainspring.errors import ForbiddenError
from mainspring.runtime.log import get_logger
from mainspring.store.contract import KindRecord, QueueRecord, ScheduleRecord, Store
from mainspring.sweep.ticker import Definition, decode_definition

_log = get_logger("mainspring.verbs")

ONE_JOB = "a schedule's jobs come at its times: leave it out"


class DeclaredKind(Struct, frozen=True):
    name: str
    options: JobOptions
    limit: Limit


class DeclaredSchedule(Struct, frozen=True):
    tenant: str
    name: str
    definition: Definition

    @property
    def id(self) -> str:
        return f"{self.tenant}/{self.name}"


class Declared(Struct, frozen=True):
    """What came of it: the names of what was changed, and the ids of schedules that code declared once and this code does not."""

    changed: list[str]
    orphans: list[str]


async def synchronise(
    store: Store,
    kinds: Iterable[DeclaredKind],
    queues: Iterable[QueueRecord],
    schedules: Iterable[DeclaredSchedule],
) -> list[str]:
    """The ids of schedules that an application declared once and this one does not."""
    return (await declare(store, list(kinds), list(queues), list(schedules))).orphans


async def declare(
    store: Store,
    kinds: Sequence[DeclaredKind],
    queues: Sequence[QueueRecord],
    schedules: Sequence[DeclaredSchedule],
    tenant: str | None = None,
) -> Declared:
    """`tenant`: whose schedules may be orphans; None: anybody's."""
    changed = await _put_kinds(store, kinds) + await _put_queues(store, queues)
    fresh, orphans = await _put_schedules(store, schedules, tenant)
    return Declared(changed + fresh, orphans)


async def refuse_changed(store: Store, kinds: Sequence[DeclaredKind]) -> None:
    """For guests, who speak for a tenant of their own: kinds are everybody's, so they may add some, and change none."""
    stored = {kind.name: kind.defaults for kind in await store.list_kinds()}
    limits = await store.list_limits()
    for kind in kinds:
        same = (json.encode(kind.options), limits.get(f"kind/{kind.name}", Limit())) == (
            stored.get(kind.name),
            kind.limit,
        )
        if kind.name in stored and not same:
            raise ForbiddenError(
                f"kind {kind.name!r} is declared with other options or limits, and all tenants share it: "
                "declare it with a key of the default tenant, or of all tenants"
            )


async def _put_kinds(store: Store, kinds: Sequence[DeclaredKind]) -> list[str]:
    """Written in any case: only the store knows whether their limits are what they were."""
    before = {kind.name: kind.defaults for kind in await store.list_kinds()}
    records = [KindRecord(kind.name, json.encode(kind.options)) for kind in kinds]
    await store.put_kinds(records, {kind.name: kind.limit for kind in kinds})
    return [f"kind {record.name}" for record in records if before.get(record.name) != record.defaults]


async def _put_queues(store: Store, queues: Sequence[QueueRecord]) -> list[str]:
    """Limits come from the code; whether a queue is paused is the operator's."""
    stored = {(queue.tenant, queue.name): queue for queue in await store.list_queues()}
    changed = []
    for queue in queues:
        before = stored.get((queue.tenant, queue.name))
        record = structs.replace(queue, paused=before is not None and before.paused)
        if record != before:
            await store.put_queue(record)
            changed.append(f"queue {queue.name}")
    return changed


async def _put_schedules(
    store: Store, declared: Sequence[DeclaredSchedule], tenant: str | None
) -> tuple[list[str], list[str]]:
    while True:
        stored = {record.id: record for record in await store.list_schedules(tenant)}
        now = store.clock.now()
        changed = [record for record in (_record(s, stored.get(s.id), now) for s in declared) if record is not None]
        if all(await store.put_schedules(changed)):
            break  # else one has fired meanwhile: what was read of it is not so any more
    names = {schedule.id for schedule in declared}
    removed = [id_ for id_, record in stored.items() if record.origin == "code" and id_ not in names]
    for id_ in removed:
        _log.warning("a stored schedule is not declared by this application; it goes on firing", schedule=id_)
    return [f"schedule {record.name}" for record in changed], removed


def _record(schedule: DeclaredSchedule, stored: ScheduleRecord | None, now: Micros) -> ScheduleRecord | None:
    """The row to write; None where it is there already."""
    definition = json.encode(schedule.definition)
    if stored is None:
        return new_record(schedule.tenant, schedule.name, schedule.definition, "code", now)
    if stored.definition == definition:
        return None
    watermark_at, next_at = stored.watermark_at, stored.next_at
    if decode_definition(stored.definition).rule != schedule.definition.rule:
        # Times of the old rule are over; those of the new one count from now on.
        watermark_at, next_at = now, first_time(schedule.definition.rule, now)
    return ScheduleRecord(
        id=schedule.id,
        tenant=schedule.tenant,
        name=schedule.name,
        definition=definition,
        origin="code",
        paused=stored.paused,
        watermark_at=watermark_at,
        runs=stored.runs,
        next_at=next_at,
        version=stored.version,
    )


def new_record(tenant: str, name: str, definition: Definition, origin: str, now: Micros) -> ScheduleRecord:
    return ScheduleRecord(
        id=f"{tenant}/{name}",
        tenant=tenant,
        name=name,
        definition=json.encode(definition),
        origin=origin,
        paused=False,
        watermark_at=now,
        runs=0,
        next_at=first_time(definition.rule, now),
        version=0,
    )


def first_time(rule: Rule, now: Micros) -> Micros | None:
    first = next_occurrence(rule, from_micros(now))
    return None if first is None else to_micros("next_at", first)
