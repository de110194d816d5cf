"""One store over many: proof that nothing in the contract keeps jobs in one database. Used by the tests only.

Every shard is a whole store of its own; it has the jobs of its share of the slots, and with them what is decided about them in
one transaction: claims, and schedules with their occurrences. A partition is a range of slots, so its number belongs to one
shard and means the same there: each shard just never sees jobs in the partitions of the others.

What is global has its home in the first shard: nodes, leases, sessions, who owns which partition. The other shards have copies
of nodes and sessions, because assigning looks at the session in its own transaction. They begin and end at home first. If a
process dies between the writes, then what is open in a copy and not at home has ended: `rescue_attempts` says so to the copy.
Limits, queues and kinds are in a store apart (`places.py`).

A verb is one transaction in each shard, not over all of them.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import groupby
from typing import TypeVar

from msgspec import structs

from contract.places import Places
from mainspring.core.job import JobRecord, Limit, NewJobs
from mainspring.core.lane import Lane
from mainspring.core.lifecycle import ENDED, LIVE
from mainspring.core.partition import SLOTS, slot_for, slot_of
from mainspring.core.timer import Micros
from mainspring.errors import StoreError
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
    Store,
    Stream,
    Tally,
    Transaction,
    UsageTally,
)
from mainspring.store.service import (
    AuditEntry,
    KeyRecord,
    SealedIn,
    SealedRow,
    SecretRecord,
    TemplateRecord,
    TenantRecord,
)
from mainspring.store.usage import add_usage
from mainspring.wire import Progress, WorkerInfo

T = TypeVar("T")
A = TypeVar("A")


class ShardedStore:
    """Keeps the contract over stores with a share of the slots each; `limits` is one more, for what is counted over all."""

    def __init__(self, shards: Sequence[Store], limits: Store) -> None:
        self.shards = list(shards)
        self.limits = limits
        self.places = Places(limits)
        self.home, *self.copies = self.shards
        self.clock = self.home.clock
        self.partitions = self.home.partitions

    def subscribe(self, listener: Callable[[Hint], None]) -> Callable[[], None]:
        """Nodes are heard of at home only; what is said of places is about limits, and nobody dispatches them."""

        def about_jobs(hint: Hint) -> None:
            if hint.topic != "node":
                listener(hint)

        def about_limits(hint: Hint) -> None:
            if hint.topic in ("queue", "settled", "tenant"):
                listener(hint)

        leave = [self.home.subscribe(listener), self.limits.subscribe(about_limits)]
        leave += [copy.subscribe(about_jobs) for copy in self.copies]

        def unsubscribe() -> None:
            for each in leave:
                each()

        return unsubscribe

    async def close(self) -> None:
        for store in (*self.shards, self.limits):
            await store.close()

    # routing

    def shard_of(self, job: bytes) -> int:
        return slot_of(job) * len(self.shards) // SLOTS

    def _shard_of_partition(self, number: int) -> int:
        return number * len(self.shards) // self.partitions

    def _shard_of_schedule(self, schedule: str) -> int:
        return slot_for("schedule", schedule) * len(self.shards) // SLOTS

    async def _routed(
        self, items: Sequence[T], shard_of: Callable[[T], int], ask: Callable[[Store, list[T]], Awaitable[list[A]]]
    ) -> list[A]:
        """An answer per item, in order; each shard that has some of them is asked once."""
        places: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            places.setdefault(shard_of(item), []).append(place)
        asked = (ask(self.shards[shard], [items[place] for place in own]) for shard, own in places.items())
        found = dict(zip(places, await asyncio.gather(*asked), strict=True))
        answers = {
            place: answer for shard, own in places.items() for place, answer in zip(own, found[shard], strict=True)
        }
        return [answers[place] for place in range(len(items))]

    def _split(self, items: Sequence[T], shard_of: Callable[[T], int]) -> list[tuple[Store, list[T]]]:
        """The shards that have some of these, with those that they have."""
        parts = [(shard, [item for item in items if shard_of(item) == n]) for n, shard in enumerate(self.shards)]
        return [(shard, own) for shard, own in parts if own]

    # jobs

    async def insert_jobs(self, batches: Sequence[NewJobs], lanes: Sequence[Lane]) -> list[list[Inserted]]:
        runs = [(place, run) for place, batch in enumerate(batches) for run in self._runs(batch)]

        async def ask(shard: Store, own: list[tuple[int, NewJobs]]) -> list[list[Inserted]]:
            return await shard.insert_jobs([run for _, run in own], lanes)

        answers: list[list[Inserted]] = [[] for _ in batches]
        found = await self._routed(runs, lambda item: self.shard_of(item[1].ids[0]), ask)
        for (place, _), answer in zip(runs, found, strict=True):
            answers[place] += answer
        return answers

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        raise StoreError("jobs are spread over many databases here, and no transaction spans them")

    async def insert_within(
        self, connection: object, batches: Sequence[NewJobs], lanes: Sequence[Lane], *, blocking: bool = False
    ) -> list[list[Inserted]]:
        raise StoreError("jobs are spread over many databases here, and no transaction spans them")

    def _runs(self, batch: NewJobs) -> list[NewJobs]:
        """A batch in parts that are one shard's, each with its place in the whole, so that order is kept."""
        runs = []
        for shard, run in groupby(range(len(batch.ids)), lambda place: self.shard_of(batch.ids[place])):
            if any(self.shard_of(parent) != shard for parent in batch.after):
                raise StoreError("after: a job and those it waits for must have the same slot")
            places = list(run)
            runs.append(_cut(batch, places[0], places[-1]))
        return runs

    async def read_jobs(self, ids: Sequence[bytes]) -> list[JobRecord | None]:
        return await self._routed(ids, self.shard_of, lambda shard, own: shard.read_jobs(own))

    async def list_jobs(
        self, which: JobFilter, *, before: bytes | None, limit: int, ended_at: Micros | None = None
    ) -> list[JobRecord]:
        if ended_at is None:
            pages = [self._page(number, which, before, limit) for number in range(len(self.shards))]
        else:
            pages = [s.list_jobs(which, before=before, limit=limit, ended_at=ended_at) for s in self.shards]
        found = [record for page in await asyncio.gather(*pages) for record in page]
        return sorted(found, key=_end if which.state in ENDED else _id, reverse=True)[:limit]

    async def _page(self, number: int, which: JobFilter, before: bytes | None, limit: int) -> list[JobRecord]:
        """One shard's part of a listing. Where it is by end, a place in it is a time, and only the shard of the job before
        knows that: the others are read from their start up to there."""
        shard = self.shards[number]
        if before is None or which.state not in ENDED or self.shard_of(before) == number:
            return await shard.list_jobs(which, before=before, limit=limit)
        (last,) = await self.read_jobs([before])
        found: list[JobRecord] = []
        page = await shard.list_jobs(which, before=None, limit=limit)
        while page and len(found) < limit:
            found += [record for record in page if last is None or _end(record) < _end(last)]
            page = await shard.list_jobs(which, before=page[-1].id, limit=limit)
        return found

    async def read_ended(self, ids: Sequence[bytes]) -> list[Ended | None]:
        return await self._routed(ids, self.shard_of, lambda shard, own: shard.read_ended(own))

    async def read_failures(self, job: bytes) -> list[AttemptFailure]:
        return await self.shards[self.shard_of(job)].read_failures(job)

    async def list_parents(self, job: bytes, limit: int) -> list[bytes]:
        return await self.shards[self.shard_of(job)].list_parents(job, limit)

    async def cancel_jobs(self, ids: Sequence[bytes]) -> list[str | None]:
        return await self._routed(ids, self.shard_of, lambda shard, own: shard.cancel_jobs(own))

    async def change_jobs(self, changes: Sequence[Change]) -> list[str | None]:
        def shard_of(change: Change) -> int:
            return self.shard_of(change.job)

        return await self._routed(changes, shard_of, lambda shard, own: shard.change_jobs(own))

    async def count_jobs(self, tenant: str | None = None) -> dict[tuple[str, str], int]:
        total: Counter[tuple[str, str]] = Counter()
        for shard in self.shards:
            total.update(await shard.count_jobs(tenant))
        return dict(total)

    async def list_ended(self, tenants: Sequence[str], since: Micros, limit: int) -> list[EndedJob]:
        found = [ended for shard in self.shards for ended in await shard.list_ended(tenants, since, limit)]
        return sorted(found, key=lambda ended: (ended.finished_at, ended.job))[:limit]

    async def tally_usage(
        self, tenant: str, since: Micros, until: Micros, limit: int
    ) -> tuple[list[UsageTally], Micros]:
        """Up to where the shard stops that has the most."""
        until = min([(await shard.tally_usage(tenant, since, until, limit))[1] for shard in self.shards])
        parts = [await shard.tally_usage(tenant, since, until, limit) for shard in self.shards]
        return add_usage(tally for tallies, _ in parts for tally in tallies), until

    async def tally_ended(self, tenant: str, since: Micros, until: Micros, step: Micros) -> list[Tally]:
        return _summed([t for shard in self.shards for t in await shard.tally_ended(tenant, since, until, step)])

    async def read_progress(self, ids: Sequence[bytes]) -> list[Progress | None]:
        return await self._routed(ids, self.shard_of, lambda shard, own: shard.read_progress(own))

    # timers

    async def ripen_timers(self, partitions: Sequence[int], limit: int) -> tuple[int, Micros | None]:
        moved, times = 0, []
        for shard, own in self._split(partitions, self._shard_of_partition):
            count, next_at = await shard.ripen_timers(own, limit - moved)
            moved += count
            times += [] if next_at is None else [next_at]
        return moved, min(times, default=None)

    async def list_expired(self, limit: int) -> list[tuple[bytes, bool]]:
        found = [each for shard in self.shards for each in await shard.list_expired(limit)]
        return found[:limit]

    async def expire_results(self, jobs: Sequence[bytes]) -> int:
        parts = self._split(jobs, self.shard_of)
        return sum([await shard.expire_results(own) for shard, own in parts])

    async def prune_jobs(self, ended_before: dict[str, Micros], limit: int) -> int:
        pruned = 0
        for shard in self.shards:
            pruned += await shard.prune_jobs(ended_before, limit - pruned)
        await self.limits.prune_jobs(ended_before, limit)
        return pruned

    # dispatch

    async def list_streams(self, partitions: Sequence[int]) -> list[tuple[int, int, int, Micros]]:
        parts = self._split(partitions, self._shard_of_partition)
        return [stream for shard, own in parts for stream in await shard.list_streams(own)]

    async def read_ready(self, wanted: Sequence[tuple[Stream, Place | None]], limit: int) -> list[list[Ready]]:
        def shard_of(wish: tuple[Stream, Place | None]) -> int:
            return self._shard_of_partition(wish[0][0])

        return await self._routed(wanted, shard_of, lambda shard, own: shard.read_ready(own, limit))

    async def assign_jobs(self, picks: Sequence[Pick]) -> list[Assigned]:
        """First a place under each limit, then the job; who has a place and does not get the job gives it back."""
        taken = await self.places.take(picks)
        answers = await self._assign([structs.replace(p, jobs=t.won) for p, t in zip(picks, taken, strict=True)])
        for pick, answer in zip(picks, answers, strict=True):
            if pick.limits and answer.lost:
                await self.places.give_back(pick.session, [(job.job, job.attempt + 1) for job in answer.lost])
        return [
            Assigned(answer.won, [*place.lost, *answer.lost], place.held, place.held_until)
            for answer, place in zip(answers, taken, strict=True)
        ]

    async def _assign(self, picks: list[Pick]) -> list[Assigned]:
        async def ask(number: int) -> list[Assigned]:
            own = [[job for job in pick.jobs if self.shard_of(job.job) == number] for pick in picks]
            cut = [structs.replace(pick, jobs=jobs, limits=()) for pick, jobs in zip(picks, own, strict=True)]
            return await self.shards[number].assign_jobs(cut)

        parts = await asyncio.gather(*(ask(number) for number in range(len(self.shards))))
        return [_joined(pick, answers) for pick, *answers in zip(picks, *parts, strict=True)]

    async def read_specs(self, ids: Sequence[bytes]) -> list[Spec]:
        return [spec for shard, own in self._split(ids, self.shard_of) for spec in await shard.read_specs(own)]

    # attempts

    async def settle_attempts(self, session: bytes, settlements: Sequence[Settlement]) -> list[bool]:
        """An outcome that is not accepted is not live any more: its place goes too, if it is still there after a failure."""

        def shard_of(settlement: Settlement) -> int:
            return self.shard_of(settlement.job)

        accepted = await self._routed(settlements, shard_of, lambda shard, own: shard.settle_attempts(session, own))
        await self.places.give_back(session, [(s.job, s.attempt) for s in settlements])
        return accepted

    async def mark_running(self, attempts: Sequence[tuple[bytes, int]], progress: Sequence[Progress] = ()) -> None:
        for number, shard in enumerate(self.shards):
            running = [attempt for attempt in attempts if self.shard_of(attempt[0]) == number]
            await shard.mark_running(running, [said for said in progress if self.shard_of(said.job) == number])

    async def rescue_attempts(self, limit: int) -> int:
        """Places go last: only of what had ended in all shards before, and only when nothing of it is live there any more."""
        for copy in self.copies:
            await _end_all(copy, await _ended(copy, [self.home]))
        over = await _ended(self.limits, self.shards)
        rescued = 0
        for shard in self.shards:
            rescued += await shard.rescue_attempts(limit - rescued)
        if rescued < limit:
            await _end_all(self.limits, over)
            while await self.limits.rescue_attempts(limit) == limit:
                pass
        return rescued

    async def list_cancelling(self, session: bytes) -> list[bytes]:
        return [job for shard in self.shards for job in await shard.list_cancelling(session)]

    # sessions

    async def insert_node(self, node: bytes, name: str, lease_s: float, url: str | None = None) -> None:
        for store in (*self.shards, self.limits):
            await store.insert_node(node, name, lease_s, url)

    def renew_lease(self, node: bytes, lease_s: float, done: Callable[[bool], None]) -> None:
        self.home.renew_lease(node, lease_s, done)

    async def end_nodes(self, leases: Mapping[bytes, Micros | None]) -> int:
        """One by one, because the lease decides at home, and the copies end only what has ended there."""
        ended = 0
        for node, lease_until in leases.items():
            if await self.home.end_nodes({node: lease_until}):
                ended += 1
                for copy in self.copies:
                    await copy.end_nodes({node: None})
        return ended

    async def claim_partitions(self, node: bytes, capacity: int) -> list[int]:
        return await self.home.claim_partitions(node, capacity)

    async def drain_nodes(self, nodes: Sequence[bytes]) -> int:
        return await self.home.drain_nodes(nodes)

    async def list_nodes(self) -> list[NodeRecord]:
        return await self.home.list_nodes()

    async def insert_session(
        self,
        session: bytes,
        node: bytes,
        name: str,
        info: WorkerInfo | None = None,
        tenant: str | None = None,
        remote: bool = False,
    ) -> None:
        for store in (*self.shards, self.limits):
            await store.insert_session(session, node, name, info, tenant, remote)

    async def adopt_session(self, session: bytes, node: bytes) -> list[LiveJob] | None:
        """At home last: what is broken off before is done again, by whoever adopts it then."""
        live: list[LiveJob] = []
        for copy in self.copies:
            live += await copy.adopt_session(session, node) or []
        own = await self.home.adopt_session(session, node)
        return None if own is None else own + live

    async def list_orphans(self) -> dict[bytes, bytes]:
        return await self.home.list_orphans()

    async def read_sessions(self, ids: Sequence[bytes]) -> list[SessionRecord | None]:
        return await self.home.read_sessions(ids)

    async def list_sessions(self) -> list[SessionRecord]:
        records = await self.home.list_sessions()
        live: Counter[bytes] = Counter()
        for copy in self.copies:
            live.update({record.id: record.live for record in await copy.list_sessions()})
        return [structs.replace(record, live=record.live + live[record.id]) for record in records]

    async def find_session(self, job: bytes) -> bytes | None:
        return await self.shards[self.shard_of(job)].find_session(job)

    async def end_sessions(self, sessions: Sequence[bytes], node: bytes | None = None) -> None:
        for shard in self.shards:
            await shard.end_sessions(sessions, node)

    # catalog

    async def agree(self, name: str, value: str | None) -> str | None:
        return await self.limits.agree(name, value)

    async def read_lanes(self, numbers: Sequence[int]) -> dict[int, Lane]:
        return {number: lane for shard in self.shards for number, lane in (await shard.read_lanes(numbers)).items()}

    async def put_queue(self, queue: QueueRecord) -> None:
        await self.limits.put_queue(queue)

    async def list_queues(self) -> list[QueueRecord]:
        return await self.limits.list_queues()

    async def put_kinds(self, kinds: Sequence[KindRecord], limits: dict[str, Limit]) -> None:
        await self.limits.put_kinds(kinds, limits)

    async def add_kinds(self, kinds: Sequence[KindRecord]) -> None:
        await self.limits.add_kinds(kinds)

    async def list_kinds(self) -> list[KindRecord]:
        return await self.limits.list_kinds()

    async def list_limits(self) -> dict[str, Limit]:
        return await self.limits.list_limits()

    async def read_limit_uses(self, limits: Sequence[tuple[str, str]]) -> list[LimitUse]:
        return await self.limits.read_limit_uses(limits)

    # schedules

    async def put_schedules(self, schedules: Sequence[ScheduleRecord]) -> list[bool]:
        def shard_of(schedule: ScheduleRecord) -> int:
            return self._shard_of_schedule(schedule.id)

        return await self._routed(schedules, shard_of, lambda shard, own: shard.put_schedules(own))

    async def delete_schedules(self, ids: Sequence[str]) -> int:
        parts = self._split(ids, self._shard_of_schedule)
        return sum([await shard.delete_schedules(own) for shard, own in parts])

    async def list_schedules(self, tenant: str | None = None) -> list[ScheduleRecord]:
        found = [record for shard in self.shards for record in await shard.list_schedules(tenant)]
        return sorted(found, key=lambda record: record.id)

    async def read_schedules(self, ids: Sequence[str]) -> list[ScheduleRecord | None]:
        return await self._routed(ids, self._shard_of_schedule, lambda shard, own: shard.read_schedules(own))

    async def due_schedules(self, limit: int) -> tuple[list[ScheduleRecord], Micros | None]:
        answers = [await shard.due_schedules(limit) for shard in self.shards]
        due = sorted((record for records, _ in answers for record in records), key=lambda record: record.next_at or 0)
        return due[:limit], min((at for _, at in answers if at is not None), default=None)

    async def fire_schedules(self, firings: Sequence[Firing]) -> list[bool]:
        def shard_of(firing: Firing) -> int:
            shard = self._shard_of_schedule(firing.schedule)
            if any(self.shard_of(job) != shard for batch in firing.jobs for job in batch.ids):
                raise StoreError("jobs: the jobs of a schedule must have its slot")
            return shard

        return await self._routed(firings, shard_of, lambda shard, own: shard.fire_schedules(own))

    async def read_claims(self, schedule: ScheduleRecord, keys: Sequence[str]) -> list[bytes | None]:
        return await self.shards[self._shard_of_schedule(schedule.id)].read_claims(schedule, keys)

    async def list_missed(self, schedule: str, limit: int) -> list[MissedRecord]:
        return await self.shards[self._shard_of_schedule(schedule)].list_missed(schedule, limit)

    # tenants, with what they may have running where limits are; the rest of the service at home

    async def put_tenants(self, tenants: Sequence[TenantRecord]) -> list[bool]:
        return await self.limits.put_tenants(tenants)

    async def seal_tenant(self, name: str, sealed: bool) -> bool:
        return await self.limits.seal_tenant(name, sealed)

    async def list_tenants(self) -> list[TenantRecord]:
        return await self.limits.list_tenants()

    async def erase_tenant(self, name: str, limit: int) -> int:
        """Places under limits of others may be kept for its live jobs, so those are noted before. Home goes last."""
        live = await self._live_of(name, limit)
        erased = 0
        for shard in (*self.copies, self.home):
            erased += await shard.erase_tenant(name, limit - erased)
        gone = await self.read_jobs([job for _, job, _ in live])
        for (session, job, attempt), record in zip(live, gone, strict=True):
            if record is None:
                await self.places.give_back(session, [(job, attempt)])
        await self.limits.erase_tenant(name, limit if erased < limit else 0)
        return erased

    async def _live_of(self, tenant: str, limit: int) -> list[tuple[bytes, bytes, int]]:
        """Session, job and attempt."""
        found = []
        for state in LIVE:
            for record in await self.list_jobs(JobFilter(tenant=tenant, state=state), before=None, limit=limit):
                session = await self.find_session(record.id)
                found += [] if session is None else [(session, record.id, record.attempt)]
        return found

    async def count_waiting(self) -> dict[int, int]:
        total: Counter[int] = Counter()
        for shard in self.shards:
            total.update(await shard.count_waiting())
        return dict(total)

    async def insert_keys(self, keys: Sequence[KeyRecord], *, spend: str | None = None) -> bool:
        return await self.home.insert_keys(keys, spend=spend)

    async def read_keys(self, ids: Sequence[str]) -> list[KeyRecord | None]:
        return await self.home.read_keys(ids)

    async def list_keys(self, tenant: str | None = None) -> list[KeyRecord]:
        return await self.home.list_keys(tenant)

    async def revoke_keys(self, ids: Sequence[str]) -> int:
        return await self.home.revoke_keys(ids)

    async def put_secrets(self, secrets: Sequence[SecretRecord]) -> None:
        await self.home.put_secrets(secrets)

    async def read_secrets(self, wanted: Sequence[tuple[str, str]]) -> list[SecretRecord | None]:
        return await self.home.read_secrets(wanted)

    async def list_secrets(self, tenant: str | None = None) -> list[SecretRecord]:
        return await self.home.list_secrets(tenant)

    async def delete_secrets(self, names: Sequence[tuple[str, str]]) -> int:
        return await self.home.delete_secrets(names)

    async def list_sealed(
        self, where: SealedIn, mark: bytes, after: str, limit: int
    ) -> tuple[list[SealedRow], str | None]:
        """One shard after the other: a place says by its beginning in which one it lies."""
        if where == "secret":
            return await self.home.list_sealed(where, mark, after, limit)
        number, _, behind = after.rpartition(" ")
        shard = int(number or 0)
        found, following = await self.shards[shard].list_sealed(where, mark, behind, limit)
        if following is None and shard + 1 < len(self.shards):
            return found, f"{shard + 1} "
        return found, None if following is None else f"{shard} {following}"

    async def replace_sealed(self, where: SealedIn, rows: Sequence[tuple[SealedRow, bytes]], key: str) -> int:
        if where == "secret":
            return await self.home.replace_sealed(where, rows, key)
        parts = self._split(rows, lambda item: self.shard_of(bytes.fromhex(item[0].place)))
        return sum([await shard.replace_sealed(where, own, key) for shard, own in parts])

    async def put_templates(self, records: Sequence[TemplateRecord]) -> list[bool]:
        return await self.home.put_templates(records)

    async def list_templates(self, tenant: str) -> list[TemplateRecord]:
        return await self.home.list_templates(tenant)

    async def list_template_versions(self, tenant: str, name: str) -> list[TemplateRecord]:
        return await self.home.list_template_versions(tenant, name)

    async def set_template(
        self, tenant: str, name: str, *, current: int | None = None, shared_with: tuple[str, ...] | None = None
    ) -> bool:
        return await self.home.set_template(tenant, name, current=current, shared_with=shared_with)

    async def delete_template(self, tenant: str, name: str) -> bool:
        return await self.home.delete_template(tenant, name)

    async def append_audit(self, contents: Sequence[tuple[str, bytes]]) -> None:
        await self.home.append_audit(contents)

    async def list_audit(self, tenant: str, *, after: int, limit: int) -> list[AuditEntry]:
        return await self.home.list_audit(tenant, after=after, limit=limit)


def _cut(batch: NewJobs, first: int, last: int) -> NewJobs:
    ids, arguments = batch.ids[first : last + 1], batch.arguments[first : last + 1]
    return structs.replace(batch, ids=ids, arguments=arguments, first=batch.first + first)


def _joined(pick: Pick, answers: Sequence[Assigned]) -> Assigned:
    """The answers of all shards to one pick, in its order."""
    won = Counter(job for answer in answers for job in answer.won)
    whole = Assigned([], [])
    for job in pick.jobs:
        (whole.won if won[job] > 0 else whole.lost).append(job)
        won[job] -= 1
    return whole


def _summed(tallies: Sequence[Tally]) -> list[Tally]:
    sums: dict[tuple[str, str, Micros, int], Tally] = {}
    for t in tallies:
        key = (t.kind, t.state, t.from_at, t.bin)
        s = sums.get(key, Tally(*key, 0, 0, 0))
        sums[key] = Tally(*key, s.count + t.count, s.wait + t.wait, s.run + t.run)
    return list(sums.values())


def _id(record: JobRecord) -> bytes:
    return record.id


def _end(record: JobRecord) -> tuple[Micros, bytes]:
    return record.finished_at or 0, record.id


Open = tuple[set[bytes], set[bytes]]  # nodes, sessions


async def _open(store: Store) -> Open:
    return {node.id for node in await store.list_nodes()}, {session.id for session in await store.list_sessions()}


async def _ended(copy: Store, originals: Sequence[Store]) -> Open:
    """What a copy has open and none of its originals has. The copy is read first: what it has, they had before."""
    nodes, sessions = await _open(copy)
    for original in originals:
        open_nodes, open_sessions = await _open(original)
        nodes, sessions = nodes - open_nodes, sessions - open_sessions
    return nodes, sessions


async def _end_all(copy: Store, ended: Open) -> None:
    nodes, sessions = ended
    if nodes:
        await copy.end_nodes(dict.fromkeys(nodes))
    if sessions:
        await copy.end_sessions(sorted(sessions))
