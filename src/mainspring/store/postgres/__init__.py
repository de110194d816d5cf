"""The PostgreSQL store: a pool of connections, group commit for submits, LISTEN and NOTIFY for hints.

`PostgresStore` keeps every promise of `mainspring.store.contract`; each verb is one line here and its statements live in the
module of its theme. Needs asyncpg: the extra `postgres`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, TypeVarTuple

from mainspring.core.job import JobRecord, Limit, NewJobs
from mainspring.core.lane import Lane
from mainspring.core.timer import Micros, seconds
from mainspring.errors import InvalidError, StoreUnavailableError
from mainspring.runtime.clock import Clock
from mainspring.store.contract import (
    Assigned,
    AttemptFailure,
    Change,
    Ended,
    EndedJob,
    Firing,
    Hint,
    Inserted,
    JobFilter,
    KindRecord,
    LimitUse,
    LiveJob,
    MissedRecord,
    NodeRecord,
    Pick,
    Place,
    QueueRecord,
    Ready,
    ScheduleRecord,
    SessionRecord,
    Settlement,
    Spec,
    Stream,
    Tally,
    UsageTally,
)
from mainspring.store.postgres import (
    attempts,
    audit,
    catalog,
    dispatch,
    edits,
    foreign,
    insert,
    jobs,
    keys,
    schedules,
    secrets,
    sessions,
    templates,
    tenants,
    timers,
)
from mainspring.store.postgres.clock import DatabaseClock
from mainspring.store.postgres.database import Database, Tx, connect
from mainspring.store.postgres.errors import LostRaceError, UnreachableError, mapped_errors
from mainspring.store.postgres.grouping import Grouping
from mainspring.store.postgres.hub import Hub
from mainspring.store.postgres.lease import LeaseLine
from mainspring.store.postgres.schema import migrate
from mainspring.store.postgres.transaction import PostgresTransaction, Transactions
from mainspring.store.service import (
    AuditEntry,
    KeyRecord,
    SealedIn,
    SealedRow,
    SecretRecord,
    TemplateRecord,
    TenantRecord,
)
from mainspring.wire import Progress, WorkerInfo

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DEFAULT_SCHEMA = "mainspring"


class PostgresStore:
    """See `mainspring.store.contract.Store`, where every verb is specified."""

    def __init__(self, database: Database, listen_url: str | None, clock: Clock | None) -> None:
        self._database = database
        self._listen_url = listen_url
        self._server_clock = DatabaseClock()
        self.clock: Clock = clock or self._server_clock
        database.clock = self.clock
        self.partitions: int
        self._grouping = Grouping(self._insert)
        listens = not database.pooled or listen_url is not None
        self._hub = Hub(database.q.schema, self._notify, self._connect if listens else None, self._server_clock.set_by)
        self._transactions = Transactions(database, self._hub.publish)
        self._loop = asyncio.get_running_loop()
        self._lease: LeaseLine | None = None
        self._lanes: set[int] = set()  # known to be stored: they go with their tenant only
        self._hub.subscribe(self._forget_lanes)
        self._specs: dict[bytes, Spec] = {}  # of the jobs assigned last: whoever assigned them asks for them next

    @classmethod
    async def open(
        cls, url: str, *, schema: str = DEFAULT_SCHEMA, listen_url: str | None = None, clock: Clock | None = None
    ) -> "PostgresStore":
        """`listen_url`: a direct connection for wake-ups, where `url` leads through a pooler."""
        try:
            await migrate(url, schema)
            database = await Database.open(url, schema)
        except UnreachableError as error:
            raise StoreUnavailableError(str(error)) from error
        store = cls(database, listen_url, clock)
        try:
            await store._start()
        except BaseException:
            await store.close()
            raise
        return store

    async def _start(self) -> None:
        self._database.partitions = 1
        self.partitions = self._database.partitions = await self._database.read(_count_partitions)
        await self._database.read(lambda tx: self._server_clock.set_by(tx.connection))
        await self._hub.start()

    def subscribe(self, listener: Callable[[Hint], None]) -> Callable[[], None]:
        return self._hub.subscribe(listener)

    async def close(self) -> None:
        await self._grouping.close()
        await self._hub.close()
        if self._lease is not None:
            self._lease.close()
        await self._transactions.close()
        await self._database.close()

    async def _write(self, operation: Callable[[Tx, *Ts], Awaitable[T]], *arguments: *Ts) -> T:
        answer, tx = await self._database.write(operation, *arguments)
        self._hub.publish(tx.hints())
        return answer

    async def _read(self, query: Callable[[Tx, *Ts], Awaitable[T]], *arguments: *Ts) -> T:
        return await self._database.read(query, *arguments)

    async def _insert(self, batches: Sequence[NewJobs], lanes: Sequence[Lane]) -> list[list[Inserted]]:
        unknown = [lane for lane in lanes if lane.number() not in self._lanes]
        answers = await self._write(insert.insert_jobs, batches, unknown)
        self._lanes.update(lane.number() for lane in unknown)
        return answers

    async def _insert_foreign(
        self, connection: foreign.Connection, batches: Sequence[NewJobs]
    ) -> tuple[list[list[Inserted]], Tx]:
        """On a connection that is not of the store's own pool. The lanes are there."""
        tx = Tx(connection, self._database.q, self.clock.now(), self.partitions)
        tx.copies = False
        with foreign.explained(self._database.q.schema):
            try:
                return await insert.insert_jobs(tx, batches, ()), tx
            except LostRaceError:  # only whoever began the transaction can begin it again
                raise StoreUnavailableError(
                    "a key changed hands at this very moment: roll back and try again"
                ) from None

    async def _notify(self, channel: str, message: str) -> None:
        async def notify(tx: Tx) -> None:
            await tx.fetch("notify", channel, message)

        await self._database.read(notify)

    async def _connect(self) -> Any:
        """A connection beside the pool: for hints, and for the lease."""
        url = self._listen_url or self._database.url
        with mapped_errors(self._database.place):
            return await connect(url, pooled=self._database.pooled)

    # jobs

    async def insert_jobs(self, batches: Sequence[NewJobs], lanes: Sequence[Lane]) -> list[list[Inserted]]:
        return await self._grouping.insert(batches, lanes)

    def transaction(self) -> AbstractAsyncContextManager[PostgresTransaction]:
        return self._transactions.begin()

    async def insert_within(
        self, connection: object, batches: Sequence[NewJobs], lanes: Sequence[Lane], *, blocking: bool = False
    ) -> list[list[Inserted]]:
        self._database.owner.check()
        if isinstance(connection, PostgresTransaction):
            if connection.owner is not self._transactions:
                raise InvalidError("within", "this transaction is of another app: its jobs are in another database")
            lent = connection.connection
            await self._put_lanes(lanes)
            answers, tx = await self._insert_foreign(lent, batches)
            connection.hints.add(tx.hints())
            return answers
        adapted = await foreign.adapt(connection, blocking=blocking)
        if not blocking:
            await self._put_lanes(lanes)
        elif any(lane.number() not in self._lanes for lane in lanes):
            asyncio.run_coroutine_threadsafe(self._put_lanes(lanes), self._loop).result()
        answers, tx = await self._insert_foreign(adapted, batches)
        if hints := tx.hints():
            # Told when the caller commits, to everybody: who commits is not us.
            await tx.fetch("notify", self._hub.channel, self._hub.message(hints, by_others=True))
        return answers

    def _forget_lanes(self, hint: Hint) -> None:
        if hint.topic == "tenant":
            self._lanes.clear()

    async def _put_lanes(self, lanes: Sequence[Lane]) -> None:
        """Ahead of jobs that somebody else commits: a new lane in his transaction would make all who share it wait for him."""
        unknown = [lane for lane in lanes if lane.number() not in self._lanes]
        if unknown:
            await self._write(insert.insert_jobs, (), unknown)
            self._lanes.update(lane.number() for lane in unknown)

    async def read_jobs(self, ids: Sequence[bytes]) -> list[JobRecord | None]:
        return await self._read(jobs.read_jobs, ids)

    async def list_jobs(
        self, which: JobFilter, *, before: bytes | None, limit: int, ended_at: Micros | None = None
    ) -> list[JobRecord]:
        return await self._read(jobs.list_jobs, which, before, limit, ended_at)

    async def read_ended(self, ids: Sequence[bytes]) -> list[Ended | None]:
        return await self._read(jobs.read_ended, ids)

    async def read_failures(self, job: bytes) -> list[AttemptFailure]:
        return await self._read(jobs.read_failures, job)

    async def list_parents(self, job: bytes, limit: int) -> list[bytes]:
        return await self._read(jobs.list_parents, job, limit)

    async def cancel_jobs(self, ids: Sequence[bytes]) -> list[str | None]:
        return await self._write(jobs.cancel_jobs, ids)

    async def change_jobs(self, changes: Sequence[Change]) -> list[str | None]:
        return await self._write(edits.change_jobs, changes)

    async def count_jobs(self, tenant: str | None = None) -> dict[tuple[str, str], int]:
        return await self._read(jobs.count_jobs, tenant)

    async def list_ended(self, tenants: Sequence[str], since: Micros, limit: int) -> list[EndedJob]:
        return await self._read(jobs.list_ended, tenants, since, limit)

    async def tally_ended(self, tenant: str, since: Micros, until: Micros, step: Micros) -> list[Tally]:
        return await self._read(jobs.tally_ended, tenant, since, until, step)

    async def tally_usage(
        self, tenant: str, since: Micros, until: Micros, limit: int
    ) -> tuple[list[UsageTally], Micros]:
        return await self._read(jobs.tally_usage, tenant, since, until, limit)

    async def read_progress(self, ids: Sequence[bytes]) -> list[Progress | None]:
        return await self._read(attempts.read_progress, ids)

    # timers

    async def ripen_timers(self, partitions: Sequence[int], limit: int) -> tuple[int, Micros | None]:
        return await self._write(timers.ripen_timers, partitions, limit)

    async def list_expired(self, limit: int) -> list[tuple[bytes, bool]]:
        return await self._read(timers.list_expired, limit)

    async def expire_results(self, jobs: Sequence[bytes]) -> int:
        return await self._write(timers.expire_results, jobs)

    async def prune_jobs(self, ended_before: dict[str, Micros], limit: int) -> int:
        return await self._write(timers.prune_jobs, ended_before, limit)

    # dispatch

    async def list_streams(self, partitions: Sequence[int]) -> list[tuple[int, int, int, Micros]]:
        return await self._read(dispatch.list_streams, partitions)

    async def read_ready(self, wanted: Sequence[tuple[Stream, Place | None]], limit: int) -> list[list[Ready]]:
        return await self._read(dispatch.read_ready, wanted, limit)

    async def assign_jobs(self, picks: Sequence[Pick]) -> list[Assigned]:
        answers, specs = await self._write(dispatch.assign_jobs, picks)
        if not specs:  # their answer was lost: what is remembered of an earlier attempt may have changed since
            for ready in (ready for answer in answers for ready in answer.won):
                self._specs.pop(ready.job, None)
        self._specs.update(specs)
        return answers

    async def read_specs(self, ids: Sequence[bytes]) -> list[Spec]:
        found = [spec for id_ in ids if (spec := self._specs.pop(id_, None)) is not None]
        if len(found) == len(ids):
            return found
        known = {spec.job for spec in found}
        unknown = [id_ for id_ in ids if id_ not in known]
        return found + await self._read(dispatch.read_specs, unknown)

    # attempts

    async def settle_attempts(self, session: bytes, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._write(attempts.settle_attempts, session, settlements)

    async def mark_running(self, running: Sequence[tuple[bytes, int]], progress: Sequence[Progress] = ()) -> None:
        await self._write(attempts.mark_running, running, progress)

    async def rescue_attempts(self, limit: int) -> int:
        return await self._write(attempts.rescue_attempts, limit)

    async def list_cancelling(self, session: bytes) -> list[bytes]:
        return await self._read(attempts.list_cancelling, session)

    # sessions

    async def insert_node(self, node: bytes, name: str, lease_s: float, url: str | None = None) -> None:
        await self._write(sessions.insert_node, node, name, lease_s, url)

    def renew_lease(self, node: bytes, lease_s: float, done: Callable[[bool], None]) -> None:
        if self._lease is None:
            self._lease = LeaseLine(self._connect)
        arguments = (self.clock.now() + seconds(lease_s), node)
        self._lease.fetch(self._database.q["renew_lease"], arguments, lambda rows: done(bool(rows)))

    async def end_nodes(self, leases: Mapping[bytes, Micros | None]) -> int:
        return await self._write(sessions.end_nodes, leases)

    async def claim_partitions(self, node: bytes, capacity: int) -> list[int]:
        return await self._write(sessions.claim_partitions, node, capacity)

    async def drain_nodes(self, nodes: Sequence[bytes]) -> int:
        return await self._write(sessions.drain_nodes, nodes)

    async def list_nodes(self) -> list[NodeRecord]:
        return await self._read(sessions.list_nodes)

    async def insert_session(
        self,
        session: bytes,
        node: bytes,
        name: str,
        info: WorkerInfo | None = None,
        tenant: str | None = None,
        remote: bool = False,
    ) -> None:
        await self._write(sessions.insert_session, session, node, name, info, tenant, remote)

    async def adopt_session(self, session: bytes, node: bytes) -> list[LiveJob] | None:
        return await self._write(sessions.adopt_session, session, node)

    async def list_orphans(self) -> dict[bytes, bytes]:
        return await self._read(sessions.list_orphans)

    async def read_sessions(self, ids: Sequence[bytes]) -> list[SessionRecord | None]:
        return await self._read(sessions.read_sessions, ids)

    async def list_sessions(self) -> list[SessionRecord]:
        return await self._read(sessions.list_sessions)

    async def find_session(self, job: bytes) -> bytes | None:
        return await self._read(sessions.find_session, job)

    async def end_sessions(self, ended: Sequence[bytes], node: bytes | None = None) -> None:
        await self._write(sessions.end_sessions, ended, node)

    # catalog

    async def agree(self, name: str, value: str | None) -> str | None:
        if value is not None:
            await self._write(catalog.agree, name, value)
        return await self._read(catalog.read_setting, name)

    async def read_lanes(self, numbers: Sequence[int]) -> dict[int, Lane]:
        return await self._read(catalog.read_lanes, numbers)

    async def put_queue(self, queue: QueueRecord) -> None:
        await self._write(catalog.put_queue, queue)

    async def list_queues(self) -> list[QueueRecord]:
        return await self._read(catalog.list_queues)

    async def put_kinds(self, kinds: Sequence[KindRecord], limits: dict[str, Limit]) -> None:
        await self._write(catalog.put_kinds, kinds, limits)

    async def add_kinds(self, kinds: Sequence[KindRecord]) -> None:
        await self._write(catalog.add_kinds, kinds)

    async def list_kinds(self) -> list[KindRecord]:
        return await self._read(catalog.list_kinds)

    async def list_limits(self) -> dict[str, Limit]:
        return await self._read(catalog.list_limits)

    async def read_limit_uses(self, limits: Sequence[tuple[str, str]]) -> list[LimitUse]:
        return await self._read(dispatch.read_limit_uses, limits)

    # schedules

    async def put_schedules(self, puts: Sequence[ScheduleRecord]) -> list[bool]:
        return await self._write(schedules.put_schedules, puts)

    async def delete_schedules(self, ids: Sequence[str]) -> int:
        return await self._write(schedules.delete_schedules, ids)

    async def list_schedules(self, tenant: str | None = None) -> list[ScheduleRecord]:
        return await self._read(schedules.list_schedules, tenant)

    async def read_schedules(self, ids: Sequence[str]) -> list[ScheduleRecord | None]:
        return await self._read(schedules.read_schedules, ids)

    async def due_schedules(self, limit: int) -> tuple[list[ScheduleRecord], Micros | None]:
        return await self._read(schedules.due_schedules, limit)

    async def fire_schedules(self, firings: Sequence[Firing]) -> list[bool]:
        return await self._write(schedules.fire_schedules, firings)

    async def read_claims(self, schedule: ScheduleRecord, keys: Sequence[str]) -> list[bytes | None]:
        return await self._read(schedules.read_claims, schedule, keys)

    async def list_missed(self, schedule: str, limit: int) -> list[MissedRecord]:
        return await self._read(schedules.list_missed, schedule, limit)

    # tenants

    async def put_tenants(self, puts: Sequence[TenantRecord]) -> list[bool]:
        return await self._write(tenants.put_tenants, puts)

    async def seal_tenant(self, name: str, sealed: bool) -> bool:
        return await self._write(tenants.seal_tenant, name, sealed)

    async def list_tenants(self) -> list[TenantRecord]:
        return await self._read(tenants.list_tenants)

    async def erase_tenant(self, name: str, limit: int) -> int:
        return await self._write(tenants.erase_tenant, name, limit)

    async def count_waiting(self) -> dict[int, int]:
        return await self._read(tenants.count_waiting)

    # keys

    async def insert_keys(self, fresh: Sequence[KeyRecord], *, spend: str | None = None) -> bool:
        return await self._write(keys.insert_keys, fresh, spend)

    async def read_keys(self, ids: Sequence[str]) -> list[KeyRecord | None]:
        return await self._read(keys.read_keys, ids)

    async def list_keys(self, tenant: str | None = None) -> list[KeyRecord]:
        return await self._read(keys.list_keys, tenant)

    async def revoke_keys(self, ids: Sequence[str]) -> int:
        return await self._write(keys.revoke_keys, ids)

    # secrets

    async def put_secrets(self, puts: Sequence[SecretRecord]) -> None:
        await self._write(secrets.put_secrets, puts)

    async def read_secrets(self, wanted: Sequence[tuple[str, str]]) -> list[SecretRecord | None]:
        return await self._read(secrets.read_secrets, wanted)

    async def list_secrets(self, tenant: str | None = None) -> list[SecretRecord]:
        return await self._read(secrets.list_secrets, tenant)

    async def delete_secrets(self, names: Sequence[tuple[str, str]]) -> int:
        return await self._write(secrets.delete_secrets, names)

    async def list_sealed(
        self, where: SealedIn, mark: bytes, after: str, limit: int
    ) -> tuple[list[SealedRow], str | None]:
        return await self._read(secrets.list_sealed, where, mark, after, limit)

    async def replace_sealed(self, where: SealedIn, rows: Sequence[tuple[SealedRow, bytes]], key: str) -> int:
        return await self._write(secrets.replace_sealed, where, rows, key)

    # templates

    async def put_templates(self, records: Sequence[TemplateRecord]) -> list[bool]:
        return await self._write(templates.put_templates, records)

    async def list_templates(self, tenant: str) -> list[TemplateRecord]:
        return await self._read(templates.list_templates, tenant)

    async def list_template_versions(self, tenant: str, name: str) -> list[TemplateRecord]:
        return await self._read(templates.list_template_versions, tenant, name)

    async def set_template(
        self, tenant: str, name: str, *, current: int | None = None, shared_with: tuple[str, ...] | None = None
    ) -> bool:
        return await self._write(templates.set_template, tenant, name, current, shared_with)

    async def delete_template(self, tenant: str, name: str) -> bool:
        return await self._write(templates.delete_template, tenant, name)

    # audit

    async def append_audit(self, contents: Sequence[tuple[str, bytes]]) -> None:
        await self._write(audit.append_audit, contents)

    async def list_audit(self, tenant: str, *, after: int, limit: int) -> list[AuditEntry]:
        return await self._read(audit.list_audit, tenant, after, limit)


async def _count_partitions(tx: Tx) -> int:
    ((count,),) = await tx.fetch("count_partitions")
    return int(count)
