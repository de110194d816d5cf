"""Stored schedules (see `faces.Schedules`)."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Raw, structs

from mainspring.access.audit import Actor
from mainspring.core.draft import trigger_claim
from mainspring.core.job import DEFAULT_TENANT, Claim
from mainspring.core.occurrence import backfill, preview
from mainspring.core.options import check_name, refuse_once, whole_number
from mainspring.core.options_json import read_options
from mainspring.core.partition import format_id
from mainspring.core.schedule import read_rule
from mainspring.core.timer import Micros, from_micros, to_micros
from mainspring.errors import ConflictError, InvalidError, NotFoundError
from mainspring.store.contract import Firing, ScheduleRecord
from mainspring.sweep.ticker import Definition, decode_definition, make_job, sealed
from mainspring.verbs import documents as d
from mainspring.verbs.declaring import ONE_JOB, first_time, new_record
from mainspring.verbs.engine import Engine

MAX_BACKFILL = 10_000
MAX_MISSED = 1000
_TRIES = 5


def schedule_of(record: ScheduleRecord) -> d.ScheduleDocument:
    definition = decode_definition(record.definition)
    return d.ScheduleDocument(
        name=record.name,
        tenant=record.tenant,
        kind=definition.kind,
        rule=definition.rule,
        arguments=Raw(definition.arguments.encode()),
        origin=record.origin,
        paused=record.paused,
        runs=record.runs,
        active=record.active + record.queued,
        last_at=from_micros(record.watermark_at),
        next_at=None if record.paused or record.next_at is None else from_micros(record.next_at),
    )


class LocalSchedules:
    """Those of one tenant; where it is asked for all of them, a name is one of the default tenant. Every change is conditional on
    the schedule not having moved meanwhile, and is tried again if it has."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._engine = engine
        self._store = engine.store
        self._tenant = tenant
        self._home = tenant or DEFAULT_TENANT
        self._actor = actor

    async def list(self) -> Sequence[d.ScheduleDocument]:
        return [schedule_of(record) for record in await self._store.list_schedules(self._tenant)]

    async def read(self, name: str) -> d.ScheduleDocument:
        return schedule_of(await self._read(name))

    async def create(self, new: d.NewSchedule) -> d.ScheduleDocument:
        name = check_name("name", new.name)
        rule = read_rule(new.rule)
        refuse_once(read_options(new.options), ONE_JOB)
        request = d.SubmitRequest(kind=new.kind, arguments=new.arguments, options=new.options)
        draft = await self._engine.drafts.make(request, self._home)
        definition = Definition(rule, draft.kind, draft.arguments.decode(), draft.options)
        record = new_record(self._home, name, definition, "user", self._store.clock.now())
        if not (await self._store.put_schedules([record]))[0]:
            raise ConflictError(f"schedule {name!r} exists already")
        await self._note("create_schedule", name, after=new)
        return await self.read(name)

    async def delete(self, name: str) -> None:
        record = await self._read(name)
        await self._store.delete_schedules([record.id])
        await self._note("delete_schedule", name, before=schedule_of(record))

    async def next(self, name: str, count: int = 10) -> Sequence[datetime]:
        whole_number("count", count, 1, 1000)
        record = await self._read(name)
        after = max(record.watermark_at, self._store.clock.now())
        return preview(decode_definition(record.definition).rule, from_micros(after), count)

    async def pause(self, name: str) -> None:
        await self._change(name, lambda record: structs.replace(record, paused=True))
        await self._note("pause_schedule", name)

    async def resume(self, name: str) -> None:
        now = self._store.clock.now()

        def resumed(record: ScheduleRecord) -> ScheduleRecord:
            rule = decode_definition(record.definition).rule
            return structs.replace(
                record, paused=False, watermark_at=max(now, record.watermark_at), next_at=first_time(rule, now)
            )

        await self._change(name, resumed)
        await self._note("resume_schedule", name)

    async def trigger(self, name: str, key: str | None = None) -> d.Submitted:
        if key is not None:
            check_name("key", key)
        for attempt in range(_TRIES):
            record = await self._read(name)
            claim = None if key is None else trigger_claim(record.id, key)
            if claim is not None and (known := (await self._store.read_claims(record, [claim.key]))[0]):
                return d.Submitted(id=format_id(known), existed=True)
            _refuse_overlap(record)
            # An odd microsecond: never the time of the rule itself, whose occurrence this must not take.
            firing = await self._firing(record, [(self._store.clock.now() | 1) + 2 * attempt], claim)
            if (await self._store.fire_schedules([firing]))[0] and await self._made(firing):
                made = d.Submitted(id=format_id(firing.jobs[0].ids[0]))
                said = {} if key is None else {"key": key}
                await self._note("trigger_schedule", name, after={"job": made.id} | said)
                return made
        raise ConflictError(f"schedule {name!r} keeps changing: try again")

    async def backfill(self, name: str, first: datetime, last: datetime) -> int:
        if to_micros("last", last) > self._store.clock.now():
            raise InvalidError("last", "is in the future; those times will come by themselves")
        for _ in range(_TRIES):
            record = await self._read(name)
            times = backfill(decode_definition(record.definition).rule, first, last, MAX_BACKFILL)
            firing = await self._firing(record, [to_micros("occurrence", at) for at in times])
            if (await self._store.fire_schedules([firing]))[0]:
                made = await self._made(firing)
                await self._note("backfill_schedule", name, after={"first": first, "last": last, "jobs": made})
                return made
        raise ConflictError(f"schedule {name!r} keeps changing: try again")

    async def missed(self, name: str, limit: int = 100) -> Sequence[d.MissedDocument]:
        whole_number("limit", limit, 1, MAX_MISSED)
        record = await self._read(name)
        return [
            d.MissedDocument(
                first_at=from_micros(missed.first_at),
                last_at=from_micros(missed.last_at),
                count=missed.count,
                reason=missed.reason,
            )
            for missed in await self._store.list_missed(record.id, limit)
        ]

    async def _made(self, firing: Firing) -> int:
        """How many of its jobs a firing made: an occurrence that had one gets no other."""
        records = await self._store.read_jobs([job for batch in firing.jobs for job in batch.ids])
        return sum(record is not None for record in records)

    async def _firing(
        self, record: ScheduleRecord, occurrences: Sequence[Micros], claim: Claim | None = None
    ) -> Firing:
        definition = decode_definition(record.definition)
        now = self._store.clock.now()
        made = [make_job(record, definition, at, now, now) for at in occurrences]
        overlap = definition.rule.overlap
        await self._engine.sealing.look()
        firing = Firing(
            record.id,
            record.version,
            record.watermark_at,
            record.next_at,
            record.runs,
            [job if claim is None else structs.replace(job, claim=claim) for job, _ in made],
            [lane for _, lane in made],
            cancel_active=overlap == "cancel_running",
            serial=overlap != "allow",
        )
        return sealed(firing, self._engine.sealing)

    async def _change(self, name: str, change: Callable[[ScheduleRecord], ScheduleRecord]) -> None:
        for _ in range(_TRIES):
            record = await self._read(name)
            if (await self._store.put_schedules([change(record)]))[0]:
                return
        raise ConflictError(f"schedule {name!r} keeps changing: try again")

    async def _read(self, name: str) -> ScheduleRecord:
        (record,) = await self._store.read_schedules([f"{self._home}/{check_name('name', name)}"])
        if record is None:
            known = [other.name for other in await self._store.list_schedules(self._home)]
            hint = f"; there are {', '.join(known[:10])}" if known else "; there is none yet"
            raise NotFoundError(f"there is no schedule {name!r}{hint}")
        return record

    async def _note(self, action: str, name: str, before: object = None, after: object = None) -> None:
        await self._engine.audit.record(self._home, self._actor, action, name, before, after)


def _refuse_overlap(record: ScheduleRecord) -> None:
    overlap = decode_definition(record.definition).rule.overlap
    if overlap == "skip" and record.active + record.queued:
        raise ConflictError(f"schedule {record.name!r} has a job that has not ended, and its overlap is 'skip'")
    if overlap == "queue_one" and record.queued:
        raise ConflictError(f"schedule {record.name!r} has a job waiting already, and its overlap is 'queue_one'")
