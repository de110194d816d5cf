"""The verbs of stored schedules: `app.schedules`."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct, structs

from mainspring.app.declare import first_time, new_record
from mainspring.core.occurrence import Missed, backfill, preview
from mainspring.core.options import check_name, whole_number
from mainspring.core.partition import format_id
from mainspring.core.schedule import Rule
from mainspring.core.timer import Micros, from_micros, to_micros
from mainspring.errors import ConflictError, InvalidError, NotFoundError
from mainspring.store.contract import Firing, ScheduleRecord, Store
from mainspring.sweep.ticker import Definition, decode_definition, make_job

MAX_BACKFILL = 10_000
_TRIES = 5


class ScheduleStatus(Struct, frozen=True, kw_only=True):
    """A schedule as it stood when it was read."""

    id: str
    name: str
    tenant: str
    kind: str
    rule: Rule
    arguments: str
    origin: str
    paused: bool
    runs: int
    active: int
    last_at: datetime  # nothing at or before it fires again
    next_at: datetime | None


def schedule_status(record: ScheduleRecord) -> ScheduleStatus:
    definition = decode_definition(record.definition)
    return ScheduleStatus(
        id=record.id,
        name=record.name,
        tenant=record.tenant,
        kind=definition.kind,
        rule=definition.rule,
        arguments=definition.arguments,
        origin=record.origin,
        paused=record.paused,
        runs=record.runs,
        active=record.active + record.queued,
        last_at=from_micros(record.watermark_at),
        next_at=None if record.paused or record.next_at is None else from_micros(record.next_at),
    )


class ScheduleVerbs:
    """Every change is conditional on the schedule not having moved meanwhile, and is tried again if it has."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    async def list(self) -> list[ScheduleStatus]:
        return [schedule_status(record) for record in await self._store.list_schedules(self._tenant)]

    async def show(self, name: str) -> ScheduleStatus:
        return schedule_status(await self._read(name))

    async def create(self, name: str, definition: Definition) -> ScheduleStatus:
        """Store a schedule that no code declares."""
        check_name("name", name)
        record = new_record(self._tenant, name, definition, "user", self._store.clock.now())
        if not (await self._store.put_schedules([record]))[0]:
            raise ConflictError(f"schedule {name!r} exists already")
        return await self.show(name)

    async def delete(self, name: str) -> None:
        record = await self._read(name)
        await self._store.delete_schedules([record.id])

    async def next(self, name: str, count: int = 10) -> Sequence[datetime]:
        """The next times, whether paused or not."""
        whole_number("count", count, 1, 1000)
        record = await self._read(name)
        after = max(record.watermark_at, self._store.clock.now())
        return preview(decode_definition(record.definition).rule, from_micros(after), count)

    async def pause(self, name: str) -> None:
        """Nothing fires until `resume`; what would have fired meanwhile is gone."""
        await self._change(name, lambda record: structs.replace(record, paused=True))

    async def resume(self, name: str) -> None:
        """Fire again from now on; the time of the pause is not caught up."""
        now = self._store.clock.now()

        def resumed(record: ScheduleRecord) -> ScheduleRecord:
            rule = decode_definition(record.definition).rule
            return structs.replace(
                record, paused=False, watermark_at=max(now, record.watermark_at), next_at=first_time(rule, now)
            )

        await self._change(name, resumed)

    async def trigger(self, name: str) -> str:
        """One job now, beside the rule's times; the id of the job. Its overlap policy holds."""
        for attempt in range(_TRIES):
            record = await self._read(name)
            overlap = decode_definition(record.definition).rule.overlap
            if overlap == "skip" and record.active + record.queued:
                raise ConflictError(f"schedule {name!r} has a job that has not ended, and its overlap is 'skip'")
            if overlap == "queue_one" and record.queued:
                raise ConflictError(f"schedule {name!r} has a job waiting already, and its overlap is 'queue_one'")
            # An odd microsecond: never the time of the rule itself, whose occurrence this must not take.
            firing = self._firing(record, [(self._store.clock.now() | 1) + 2 * attempt])
            if (await self._store.fire_schedules([firing]))[0] and await self._made(firing):
                return format_id(firing.jobs[0].ids[0])
        raise ConflictError(f"schedule {name!r} keeps changing: try again")

    async def backfill(self, name: str, first: datetime, last: datetime) -> int:
        """Make the jobs of past occurrences that have none; how many. Unless overlap is 'allow', one after the other."""
        if to_micros("last", last) > self._store.clock.now():
            raise InvalidError("last", "is in the future; those times will come by themselves")
        for _ in range(_TRIES):
            record = await self._read(name)
            times = backfill(decode_definition(record.definition).rule, first, last, MAX_BACKFILL)
            firing = self._firing(record, [to_micros("occurrence", at) for at in times])
            if (await self._store.fire_schedules([firing]))[0]:
                return await self._made(firing)
        raise ConflictError(f"schedule {name!r} keeps changing: try again")

    async def missed(self, name: str, limit: int = 100) -> Sequence[Missed]:
        """Occurrences that did not fire, and why; newest first. `count` is None where there were too many to count."""
        record = await self._read(name)
        return [
            Missed(from_micros(missed.first_at), from_micros(missed.last_at), missed.count, missed.reason)
            for missed in await self._store.list_missed(record.id, limit)
        ]

    async def _made(self, firing: Firing) -> int:
        """How many of its jobs a firing made: an occurrence that had one gets no other."""
        records = await self._store.read_jobs([job for batch in firing.jobs for job in batch.ids])
        return sum(record is not None for record in records)

    def _firing(self, record: ScheduleRecord, occurrences: Sequence[Micros]) -> Firing:
        definition = decode_definition(record.definition)
        now = self._store.clock.now()
        made = [make_job(record, definition, at, now, now) for at in occurrences]
        overlap = definition.rule.overlap
        return Firing(
            record.id,
            record.version,
            record.watermark_at,
            record.next_at,
            record.runs,
            [job for job, _ in made],
            [lane for _, lane in made],
            cancel_active=overlap == "cancel_running",
            serial=overlap != "allow",
        )

    async def _change(self, name: str, change: Callable[[ScheduleRecord], ScheduleRecord]) -> None:
        for _ in range(_TRIES):
            record = await self._read(name)
            if (await self._store.put_schedules([change(record)]))[0]:
                return
        raise ConflictError(f"schedule {name!r} keeps changing: try again")

    async def _read(self, name: str) -> ScheduleRecord:
        (record,) = await self._store.read_schedules([f"{self._tenant}/{name}"])
        if record is None:
            known = [other.name for other in await self._store.list_schedules(self._tenant)]
            hint = f"; there are {', '.join(known[:10])}" if known else "; there is none yet"
            raise NotFoundError(f"there is no schedule {name!r}{hint}")
        return record
