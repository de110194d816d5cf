"""The SQLite store: one file, one writer thread with group commit, readers apart.

`SqliteStore` keeps every promise of `mainspring.store.contract`; each verb is one line here and its statements live in the
module of its theme. Quick reads run in the event loop on a connection of their own, because a thread would only add waiting
for the interpreter; listings and counts for people run in a thread.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from mainspring.core.job import JobRecord, Limit, NewJobs
from mainspring.core.lane import Lane
from mainspring.core.timer import Micros
from mainspring.errors import InvalidError, StoreUnavailableError
from mainspring.runtime.clock import Clock, SystemClock
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
from mainspring.store.owner import Owner
from mainspring.store.service import (
    AuditEntry,
    KeyRecord,
    SealedIn,
    SealedRow,
    SecretRecord,
    TemplateRecord,
    TenantRecord,
)
from mainspring.store.sqlite import (
    attempts,
    audit,
    catalog,
    changes,
    dispatch,
    history,
    jobs,
    keys,
    schedules,
    secrets,
    sessions,
    templates,
    tenants,
    timers,
)
from mainspring.store.sqlite.database import connect, mapped_errors, migrate, refuse_network_filesystem
from mainspring.store.sqlite.hub import Hub
from mainspring.store.sqlite.refusals import refusal
from mainspring.store.sqlite.transaction import SqliteTransaction, Transactions
from mainspring.store.sqlite.turnstile import Turnstile
from mainspring.store.sqlite.writer import Tx, Writer
from mainspring.wire import Progress, WorkerInfo

T = TypeVar("T")


class SqliteStore:
    """See `mainspring.store.contract.Store`, where every verb is specified."""

    def __init__(self, path: Path, clock: Clock, connection: apsw.Connection) -> None:
        self.path = path
        self.clock = clock
        self.partitions: int = connection.execute("select count(*) from partition").get
        self._owner = Owner()
        self._connection = connection
        self._hub = Hub(path)
        self._turnstile = Turnstile(self._hub.folder)
        self._writer = Writer(connection, path, clock, self.partitions, self._turnstile, self._hub.publish)
        self._transactions = Transactions(path, clock, self.partitions, self._hub.folder, self._hub.publish)
        self._reader = connect(path, readonly=True)
        self._lister = connect(path, readonly=True)
        self._listing = asyncio.Lock()
        self._specs: dict[bytes, Spec] = {}  # of the jobs assigned last: whoever assigned them asks for them next

    @classmethod
    async def open(cls, path: Path, clock: Clock | None = None) -> "SqliteStore":
        refuse_network_filesystem(path)
        connection = connect(path)
        await asyncio.to_thread(migrate, connection, path)
        return cls(path, clock or SystemClock(), connection)

    def subscribe(self, listener: Callable[[Hint], None]) -> Callable[[], None]:
        return self._hub.subscribe(listener)

    async def close(self) -> None:
        await self._transactions.close()  # before the writer, which waits for the lock that one may hold
        await self._writer.close()
        self._turnstile.close()
        self._hub.close()
        self._reader.close()
        async with self._listing:
            self._lister.close()
        self._connection.close()  # the last to close, because only a writer can tidy up the write-ahead log

    async def _write(self, operation: Callable[..., T], *arguments: Any) -> T:
        self._owner.check()
        self._transactions.refuse_inside()
        return await self._writer.run(partial(_apply, operation, arguments))

    def _read(self, query: Callable[..., T], *arguments: Any) -> T:
        self._owner.check()
        with mapped_errors(self.path):
            return query(self._reader, *arguments)

    async def _list(self, query: Callable[..., T], *arguments: Any) -> T:
        self._owner.check()
        async with self._listing:
            with mapped_errors(self.path):
                return await asyncio.to_thread(query, self._lister, *arguments)

    # jobs

    async def insert_jobs(self, batches: Sequence[NewJobs], lanes: Sequence[Lane]) -> list[list[Inserted]]:
        return await self._write(jobs.insert_jobs, batches, lanes)

    def transaction(self) -> AbstractAsyncContextManager[SqliteTransaction]:
        self._owner.check()
        return self._transactions.begin()

    async def insert_within(
        self, connection: object, batches: Sequence[NewJobs], lanes: Sequence[Lane], *, blocking: bool = False
    ) -> list[list[Inserted]]:
        self._owner.check()
        if not isinstance(connection, SqliteTransaction):
            raise refusal(connection)
        if connection.owner is not self._transactions:
            raise InvalidError("within", "this transaction is of another app: its jobs are in another file")
        return await self._transactions.insert(connection, batches, lanes)

    async def read_jobs(self, ids: Sequence[bytes]) -> list[JobRecord | None]:
        return self._read(jobs.read_jobs, ids)

    async def list_jobs(
        self, which: JobFilter, *, before: bytes | None, limit: int, ended_at: Micros | None = None
    ) -> list[JobRecord]:
        return await self._list(jobs.list_jobs, which, before, limit, ended_at)

    async def read_ended(self, ids: Sequence[bytes]) -> list[Ended | None]:
        return self._read(jobs.read_ended, ids)

    async def read_failures(self, job: bytes) -> list[AttemptFailure]:
        return self._read(jobs.read_failures, job)

    async def list_parents(self, job: bytes, limit: int) -> list[bytes]:
        return self._read(jobs.list_parents, job, limit)

    async def cancel_jobs(self, ids: Sequence[bytes]) -> list[str | None]:
        return await self._write(jobs.cancel_jobs, ids)

    async def change_jobs(self, wanted: Sequence[Change]) -> list[str | None]:
        return await self._write(changes.change_jobs, wanted)

    async def count_jobs(self, tenant: str | None = None) -> dict[tuple[str, str], int]:
        return await self._list(history.count_jobs, tenant)

    async def list_ended(self, tenants: Sequence[str], since: Micros, limit: int) -> list[EndedJob]:
        return await self._list(history.list_ended, tenants, since, limit)

    async def tally_ended(self, tenant: str, since: Micros, until: Micros, step: Micros) -> list[Tally]:
        return await self._list(history.tally_ended, tenant, since, until, step)

    async def tally_usage(
        self, tenant: str, since: Micros, until: Micros, limit: int
    ) -> tuple[list[UsageTally], Micros]:
        return await self._list(history.tally_usage, tenant, since, until, limit)

    async def read_progress(self, ids: Sequence[bytes]) -> list[Progress | None]:
        return self._read(attempts.read_progress, ids)

    # timers

    async def ripen_timers(self, partitions: Sequence[int], limit: int) -> tuple[int, Micros | None]:
        return await self._write(timers.ripen_timers, partitions, limit)

    async def list_expired(self, limit: int) -> list[tuple[bytes, bool]]:
        return self._read(timers.list_expired, self.clock.now(), limit)

    async def expire_results(self, jobs: Sequence[bytes]) -> int:
        return await self._write(timers.expire_results, jobs)

    async def prune_jobs(self, ended_before: dict[str, Micros], limit: int) -> int:
        return await self._write(timers.prune_jobs, ended_before, limit)

    # dispatch

    async def list_streams(self, partitions: Sequence[int]) -> list[tuple[int, int, int, Micros]]:
        return self._read(dispatch.list_streams, partitions)

    async def read_ready(self, wanted: Sequence[tuple[Stream, Place | None]], limit: int) -> list[list[Ready]]:
        return self._read(dispatch.read_ready, wanted, limit)

    async def assign_jobs(self, picks: Sequence[Pick]) -> list[Assigned]:
        answers, specs = await self._write(dispatch.assign_jobs, picks)
        for answer in answers:
            for job in answer.won:
                if job.attempt:
                    self._specs.pop(job.job, None)  # of an attempt before; arguments may be others since
        self._specs.update(specs)
        return answers

    async def read_specs(self, ids: Sequence[bytes]) -> list[Spec]:
        found = [spec for id_ in ids if (spec := self._specs.pop(id_, None)) is not None]
        if len(found) == len(ids):
            return found
        known = {spec.job for spec in found}
        unknown = [id_ for id_ in ids if id_ not in known]
        return found + self._read(dispatch.read_specs, unknown)

    # attempts

    async def settle_attempts(self, session: bytes, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._write(attempts.settle_attempts, session, settlements)

    async def mark_running(self, running: Sequence[tuple[bytes, int]], progress: Sequence[Progress] = ()) -> None:
        await self._write(attempts.mark_running, running, progress)

    async def rescue_attempts(self, limit: int) -> int:
        return await self._write(attempts.rescue_attempts, limit)

    async def list_cancelling(self, session: bytes) -> list[bytes]:
        return self._read(attempts.list_cancelling, session)

    # sessions

    async def insert_node(self, node: bytes, name: str, lease_s: float, url: str | None = None) -> None:
        await self._write(sessions.insert_node, node, name, lease_s, url)

    def renew_lease(self, node: bytes, lease_s: float, done: Callable[[bool], None]) -> None:
        def answer(renewed: bool | None, error: BaseException | None) -> None:
            if error is None:
                done(bool(renewed))
            elif not isinstance(error, StoreUnavailableError):
                raise error

        self._writer.submit_direct(partial(_apply, sessions.renew_lease, (node, lease_s)), answer)

    async def end_nodes(self, leases: Mapping[bytes, Micros | None]) -> int:
        return await self._write(sessions.end_nodes, leases)

    async def claim_partitions(self, node: bytes, capacity: int) -> list[int]:
        return await self._write(sessions.claim_partitions, node, capacity)

    async def drain_nodes(self, nodes: Sequence[bytes]) -> int:
        return await self._write(sessions.drain_nodes, nodes)

    async def list_nodes(self) -> list[NodeRecord]:
        return self._read(sessions.list_nodes)

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
        return self._read(sessions.list_orphans)

    async def read_sessions(self, ids: Sequence[bytes]) -> list[SessionRecord | None]:
        return self._read(sessions.read_sessions, ids)

    async def list_sessions(self) -> list[SessionRecord]:
        return self._read(sessions.list_sessions)

    async def find_session(self, job: bytes) -> bytes | None:
        return self._read(sessions.find_session, job)

    async def end_sessions(self, ended: Sequence[bytes], node: bytes | None = None) -> None:
        await self._write(sessions.end_sessions, ended, node)

    # catalog

    async def agree(self, name: str, value: str | None) -> str | None:
        if value is not None:
            await self._write(catalog.agree, name, value)
        return self._read(catalog.read_setting, name)

    async def read_lanes(self, numbers: Sequence[int]) -> dict[int, Lane]:
        return self._read(catalog.read_lanes, numbers)

    async def put_queue(self, queue: QueueRecord) -> None:
        await self._write(catalog.put_queue, queue)

    async def list_queues(self) -> list[QueueRecord]:
        return self._read(catalog.list_queues)

    async def put_kinds(self, kinds: Sequence[KindRecord], limits: dict[str, Limit]) -> None:
        await self._write(catalog.put_kinds, kinds, limits)

    async def add_kinds(self, kinds: Sequence[KindRecord]) -> None:
        await self._write(catalog.add_kinds, kinds)

    async def list_kinds(self) -> list[KindRecord]:
        return self._read(catalog.list_kinds)

    async def list_limits(self) -> dict[str, Limit]:
        return self._read(catalog.list_limits)

    async def read_limit_uses(self, limits: Sequence[tuple[str, str]]) -> list[LimitUse]:
        return self._read(dispatch.read_limit_uses, limits, self.clock.now())

    # schedules

    async def put_schedules(self, puts: Sequence[ScheduleRecord]) -> list[bool]:
        return await self._write(schedules.put_schedules, puts)

    async def delete_schedules(self, ids: Sequence[str]) -> int:
        return await self._write(schedules.delete_schedules, ids)

    async def list_schedules(self, tenant: str | None = None) -> list[ScheduleRecord]:
        return self._read(schedules.list_schedules, tenant)

    async def read_schedules(self, ids: Sequence[str]) -> list[ScheduleRecord | None]:
        return self._read(schedules.read_schedules, ids)

    async def due_schedules(self, limit: int) -> tuple[list[ScheduleRecord], Micros | None]:
        return self._read(schedules.due_schedules, self.clock.now(), limit)

    async def fire_schedules(self, firings: Sequence[Firing]) -> list[bool]:
        return await self._write(schedules.fire_schedules, firings)

    async def read_claims(self, schedule: ScheduleRecord, keys: Sequence[str]) -> list[bytes | None]:
        return self._read(schedules.read_claims, schedule, keys)

    async def list_missed(self, schedule: str, limit: int) -> list[MissedRecord]:
        return self._read(schedules.list_missed, schedule, limit)

    # tenants

    async def put_tenants(self, puts: Sequence[TenantRecord]) -> list[bool]:
        return await self._write(tenants.put_tenants, puts)

    async def seal_tenant(self, name: str, sealed: bool) -> bool:
        return await self._write(tenants.seal_tenant, name, sealed)

    async def list_tenants(self) -> list[TenantRecord]:
        return self._read(tenants.list_tenants)

    async def erase_tenant(self, name: str, limit: int) -> int:
        return await self._write(tenants.erase_tenant, name, limit)

    async def count_waiting(self) -> dict[int, int]:
        return await self._list(history.count_waiting)

    # keys

    async def insert_keys(self, new: Sequence[KeyRecord], *, spend: str | None = None) -> bool:
        return await self._write(keys.insert_keys, new, spend)

    async def read_keys(self, ids: Sequence[str]) -> list[KeyRecord | None]:
        return self._read(keys.read_keys, ids)

    async def list_keys(self, tenant: str | None = None) -> list[KeyRecord]:
        return self._read(keys.list_keys, tenant)

    async def revoke_keys(self, ids: Sequence[str]) -> int:
        return await self._write(keys.revoke_keys, ids)

    # secrets

    async def put_secrets(self, puts: Sequence[SecretRecord]) -> None:
        await self._write(secrets.put_secrets, puts)

    async def read_secrets(self, wanted: Sequence[tuple[str, str]]) -> list[SecretRecord | None]:
        return self._read(secrets.read_secrets, wanted)

    async def list_secrets(self, tenant: str | None = None) -> list[SecretRecord]:
        return self._read(secrets.list_secrets, tenant)

    async def delete_secrets(self, names: Sequence[tuple[str, str]]) -> int:
        return await self._write(secrets.delete_secrets, names)

    async def list_sealed(
        self, where: SealedIn, mark: bytes, after: str, limit: int
    ) -> tuple[list[SealedRow], str | None]:
        return await self._list(secrets.list_sealed, where, mark, after, limit)

    async def replace_sealed(self, where: SealedIn, rows: Sequence[tuple[SealedRow, bytes]], key: str) -> int:
        return await self._write(secrets.replace_sealed, where, rows, key)

    # templates

    async def put_templates(self, records: Sequence[TemplateRecord]) -> list[bool]:
        return await self._write(templates.put_templates, records)

    async def list_templates(self, tenant: str) -> list[TemplateRecord]:
        return self._read(templates.list_templates, tenant)

    async def list_template_versions(self, tenant: str, name: str) -> list[TemplateRecord]:
        return self._read(templates.list_template_versions, tenant, name)

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
        return await self._list(audit.list_audit, tenant, after, limit)


def _apply(operation: Callable[..., T], arguments: tuple[Any, ...], tx: Tx) -> T:
    return operation(tx, *arguments)
