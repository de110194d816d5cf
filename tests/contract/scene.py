"""Short words for tests that drive a store by hand."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import structs

from contract.backends import Backend, Fresh
from contract.invariants import check_invariants
from mainspring.core.draft import Draft, claim_of, place
from mainspring.core.job import JobRecord, Limit, NewJobs, Template
from mainspring.core.lane import Lane
from mainspring.core.options import parse_options
from mainspring.core.partition import SLOTS, make_id, partition_of, slot_of
from mainspring.core.timer import SECOND, Micros
from mainspring.runtime.clock import ManualClock
from mainspring.store.contract import (
    Assigned,
    Change,
    Firing,
    Hint,
    Inserted,
    KindRecord,
    MissedRecord,
    Pick,
    QueueRecord,
    Ready,
    ScheduleRecord,
    Settlement,
    Store,
)
from mainspring.store.service import Quota, TenantRecord
from mainspring.submit import make_ids
from mainspring.wire import Failure

START: Micros = 1_900_000_000 * SECOND
LEASE_S = 10.0
# Where a job may leave a row, and the other tables that a verb may change.
JOB_TABLES = [
    *("job", "spec", "result", "failure", "claim", "timer", "ready", "live", "finished"),
    *("expiry", "cancel", "edge", "held", "occurrence", "active", "progress"),
]
TABLES = [
    *(*JOB_TABLES, "limit_state", "node", "session", "partition", "schedule", "missed"),
    *("tenant", "access_key", "secret", "template", "template_version", "audit"),
]
FAILURE = Failure("error", "ValueError", "no", "Traceback: no")


def make_batch(
    now: Micros,
    *,
    kind: str = "work",
    arguments: Sequence[bytes] = (b"{}",),
    ids: list[bytes] | None = None,
    **options: Any,
) -> tuple[NewJobs, Lane]:
    """Jobs as submit makes them: one for each of the arguments."""
    draft = Draft(kind, arguments[0], parse_options(**options))
    placed = place(kind, draft.options, now)
    claim = claim_of(draft, now)
    made = ids or make_ids(placed, len(arguments), now, claim)
    return NewJobs(placed.template, made, list(arguments), claim), placed.lane


def make_schedule(name: str, **fields: Any) -> ScheduleRecord:
    values: dict[str, Any] = {
        "id": f"default/{name}",
        "tenant": "default",
        "name": name,
        "definition": b"{}",
        "origin": "user",
        "paused": False,
        "watermark_at": START,
        "runs": 0,
        "next_at": START + 60 * SECOND,
        "version": 0,
    }
    return ScheduleRecord(**(values | fields))


class JumpingClock(ManualClock):
    """A clock that can also be set, as people and time servers do."""

    def jump_to(self, at: Micros) -> None:
        self._now = at

    def jump(self, by_s: float) -> None:
        self._now += int(by_s * SECOND)


class Scene:
    """A store, its clock and its tables."""

    def __init__(self, backend: Backend, store: Store, clock: JumpingClock) -> None:
        self.backend = backend
        self.store = store
        self.clock = clock
        self._sessions = 0

    @property
    def everywhere(self) -> range:
        return range(self.store.partitions)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.backend.rows(self.store, sql)

    def count(self, table: str) -> int:
        return int(self.rows(f"select count(*) from {table}")[0][0])

    def check(self) -> None:
        check_invariants(self.backend, self.store)

    async def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of all tables that a verb may change."""
        return {table: sorted(self.rows(f"select * from {table}"), key=repr) for table in TABLES}

    async def insert(self, **job: Any) -> list[Inserted]:
        batch, lane = make_batch(self.clock.now(), **job)
        (answers,) = await self.store.insert_jobs([batch], [lane])
        return answers

    async def submit(self, count: int = 1, **job: Any) -> list[bytes]:
        return [answer.id for answer in await self.insert(arguments=[b"{}"] * count, **job)]

    async def submit_in(self, partition: int, **job: Any) -> bytes:
        """A job whose slot lies in this partition."""
        (made,) = await self.submit_many_in(partition, 1, **job)
        return made

    async def submit_many_in(self, partition: int, count: int, **job: Any) -> list[bytes]:
        slot = partition * SLOTS // self.store.partitions
        ids = sorted(make_id(self.clock.now() // 1000, slot, random.getrandbits(62)) for _ in range(count))
        return await self.submit(count, ids=ids, **job)

    def partition(self, job: bytes) -> int:
        return partition_of(job, self.store.partitions)

    async def submit_one(self, **job: Any) -> bytes:
        (made,) = await self.submit(**job)
        return made

    async def record(self, job: bytes) -> JobRecord:
        (found,) = await self.store.read_jobs([job])
        assert found is not None
        return found

    async def state(self, job: bytes) -> str:
        return (await self.record(job)).state

    async def new_node(self, name: bytes = b"node", lease_s: float = LEASE_S) -> bytes:
        await self.store.insert_node(name, name.decode(), lease_s)
        return name

    async def session(self, node: bytes | None = None) -> bytes:
        """A session; of a node of its own, unless one is named."""
        self._sessions += 1
        name = b"session %d" % self._sessions
        await self.store.insert_session(name, node or await self.new_node(b"of " + name), name.decode())
        return name

    async def ready(self) -> list[Ready]:
        """All ready jobs in their order."""
        streams = [stream[:3] for stream in await self.store.list_streams(self.everywhere)]
        found = await self.store.read_ready([(stream, None) for stream in streams], 100_000)
        return sorted((ready for jobs in found for ready in jobs), key=lambda ready: (ready.rank, ready.job))

    async def assign(
        self, session: bytes, jobs: Sequence[bytes] | None = None, limits: tuple[tuple[str, str], ...] = ()
    ) -> Assigned:
        """Give these ready jobs to a session, or all there are."""
        ready = [entry for entry in await self.ready() if jobs is None or entry.job in jobs]
        (answer,) = await self.store.assign_jobs([Pick(session, ready, limits)])
        return answer

    async def assign_stale(self, session: bytes, ready: list[Ready]) -> Assigned:
        """Assign what was read some time ago."""
        (answer,) = await self.store.assign_jobs([Pick(session, ready)])
        return answer

    async def chain(self, length: int, **job: Any) -> list[bytes]:
        """Jobs of which each waits for the one before; they share a slot, as jobs that belong together do."""
        slot = random.randrange(SLOTS)
        made = await self.submit(ids=[make_id(self.clock.now() // 1000, slot, random.getrandbits(62))], **job)
        while len(made) < length:
            made.append(await self.submit_after(made[-1], **job))
        return made

    async def submit_after(self, parent: bytes, **job: Any) -> bytes:
        """A job that waits for another one, in its slot."""
        ids = [make_id(self.clock.now() // 1000, slot_of(parent), random.getrandbits(62))]
        batch, lane = make_batch(self.clock.now(), ids=ids, **job)
        await self.store.insert_jobs([structs.replace(batch, after=(parent,))], [lane])
        return ids[0]

    async def replay(self, *jobs: bytes) -> list[str | None]:
        return await self.store.change_jobs([Change(job, replay=True) for job in jobs])

    async def started(self, session: bytes, **job: Any) -> bytes:
        """A job that is assigned to this session."""
        made = await self.submit_one(**job)
        assert [won.job for won in (await self.assign(session, [made])).won] == [made]
        return made

    async def settle(self, session: bytes, job: bytes, attempt: int, state: str, **settlement: Any) -> bool:
        (accepted,) = await self.store.settle_attempts(session, [Settlement(job, attempt, state, **settlement)])
        return accepted

    async def fail(self, session: bytes, job: bytes, attempt: int, *, again_in_s: float | None = None) -> bool:
        """A reported failure: final, or with a retry after so long."""
        if again_in_s is None:
            return await self.settle(session, job, attempt, "failed", failure=FAILURE, reason="error", counts="failure")
        due_at = self.clock.now() + int(again_in_s * SECOND)
        return await self.settle(session, job, attempt, "pending", failure=FAILURE, due_at=due_at, counts="failure")

    def queue(self, name: str, *, paused: bool, limit: Limit) -> QueueRecord:
        return QueueRecord("default", name, paused, limit)

    async def limit(self, name: str, **limit: Any) -> None:
        """Set a limit by the name that the store gives it; without figures, remove it."""
        place, *names = name.split("/")
        if place == "queue":
            await self.store.put_queue(QueueRecord(names[0], names[1], False, Limit(**limit)))
        elif place == "tenant":
            quota = Quota(running=limit.get("concurrency"))
            await self.store.put_tenants([TenantRecord(names[0], quota, self.clock.now())])
        else:
            await self.kinds({names[0]: Limit(**limit)})

    async def kinds(self, limits: dict[str, Limit]) -> None:
        await self.store.put_kinds([KindRecord(name, b"{}") for name in limits], limits)

    async def held(self, name: str, key: str = "") -> int:
        (use,) = await self.store.read_limit_uses([(name, key)])
        return use.held

    async def put_schedule(self, name: str, **fields: Any) -> ScheduleRecord:
        """A new schedule, as the store has it."""
        assert await self.store.put_schedules([make_schedule(name, **fields)]) == [True]
        return await self.schedule(name)

    async def schedule(self, name: str) -> ScheduleRecord:
        (found,) = await self.store.read_schedules([f"default/{name}"])
        assert found is not None
        return found

    def firing(self, record: ScheduleRecord, occurrences: Sequence[Micros], **fields: Any) -> Firing:
        """The next step of a schedule: a job for each of the occurrences."""
        made = [self._occurrence(record, at) for at in occurrences]
        step = Firing(
            record.id,
            record.version,
            max([record.watermark_at, *occurrences]),
            max([record.next_at or 0, *(at + 60 * SECOND for at in occurrences)]),
            record.runs + len(made),
            [batch for batch, _ in made],
            [lane for _, lane in made],
        )
        return structs.replace(step, **fields)

    def _occurrence(self, record: ScheduleRecord, at: Micros) -> tuple[NewJobs, Lane]:
        options = parse_options(tenant=record.tenant)
        placed = place("tick", options, self.clock.now(), schedule=record.id, occurrence_at=at)
        return NewJobs(placed.template, make_ids(placed, 1, self.clock.now()), [b"{}"]), placed.lane

    async def fire(self, name: str, *occurrences: Micros, **fields: Any) -> list[bytes]:
        """Fire these occurrences; the jobs made for them."""
        step = self.firing(await self.schedule(name), occurrences, **fields)
        assert await self.store.fire_schedules([step]) == [True]
        return [batch.ids[0] for batch in step.jobs]

    async def fire_once(self, name: str, missed_at: Micros | None = None) -> bytes:
        """A new schedule that has fired once."""
        await self.put_schedule(name)
        missed = [] if missed_at is None else [MissedRecord(f"default/{name}", missed_at, missed_at, 1, "overlap")]
        (job,) = await self.fire(name, self.clock.now(), missed=missed)
        return job

    @property
    def ended(self) -> int:
        return int(self.rows("select count(*) from job where finished_at is not null")[0][0])

    async def ripen(self, limit: int = 100_000) -> int:
        moved, _ = await self.store.ripen_timers(self.everywhere, limit)
        return moved

    async def prune(self, older_than_s: float, limit: int = 100_000) -> int:
        before = self.clock.now() - int(older_than_s * SECOND)
        return await self.store.prune_jobs({"completed": before, "failed": before, "cancelled": before}, limit)

    @classmethod
    def run_sync(cls, fresh: Fresh, test: Callable[["Scene"], Awaitable[None]]) -> None:
        """A test inside a property: a database and an event loop of its own, invariants checked at the end."""

        async def run(backend: Backend) -> None:
            clock = JumpingClock(START)
            store = await backend.open(clock)
            try:
                scene = cls(backend, store, clock)
                await test(scene)
                scene.check()
            finally:
                await store.close()

        with fresh() as backend:
            asyncio.run(run(backend))


class Heard:
    """The hints that a store sent."""

    def __init__(self, store: Store) -> None:
        self.hints: list[Hint] = []
        store.subscribe(self.hints.append)

    def take(self, topic: str) -> list[Hint]:
        found = [hint for hint in self.hints if hint.topic == topic]
        self.hints.clear()
        return found


def with_priority(batch: NewJobs, priority: int) -> NewJobs:
    """A batch that the database must refuse, if the priority is out of range."""
    t = batch.template
    template = Template(t.tenant, t.queue, t.kind, priority, t.band, t.lane, t.due_at, t.options)
    return NewJobs(template, batch.ids, batch.arguments, batch.claim)
