"""What the store should do, in the simplest words: a dict of jobs, no tables, no batches, no concurrency."""

from dataclasses import dataclass, field

from msgspec import json

from mainspring.core.job import NewJobs, Options
from mainspring.core.lifecycle import ENDED, LIVE, MAX_LOSSES, WAITING, State
from mainspring.core.rank import rank_of
from mainspring.core.timer import HOUR, Micros
from mainspring.store.contract import UNCHANGED, Change, Inserted, Ready, Settlement

CLAIM_LIFE = 24 * HOUR


@dataclass
class Job:
    """One job as it should be."""

    id: bytes
    state: str
    priority: int
    due_at: Micros
    created_at: Micros
    rank: Micros
    retries: int
    start_by: Micros | None
    queue: str
    lane: int
    arguments: bytes
    deadline_at: Micros | None = None
    may_expire: bool = False
    ripe: bool = False  # in `ready`, not in `timer`
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    cancelling: bool = False
    asked: str = "requested"  # why it shall stop
    session: bytes | None = None
    finished_at: Micros | None = None
    reason: str | None = None
    result: bytes | None = None
    schedule: str | None = None
    failed_attempts: list[int] = field(default_factory=list)


@dataclass
class Schedule:
    version: int
    watermark_at: Micros
    runs: int


class Oracle:
    """`now` is set by whoever drives it; every method is one verb of the store."""

    def __init__(self, now: Micros) -> None:
        self.now = now
        self.jobs: dict[bytes, Job] = {}
        self.claims: dict[str, tuple[bytes, bytes, Micros | None]] = {}
        self.sessions: dict[bytes, bool] = {}  # open?
        self.schedules: dict[str, Schedule] = {}
        self.occurrences: dict[tuple[str, Micros], bytes] = {}
        self.active: dict[bytes, str] = {}
        self.parents: dict[bytes, set[bytes]] = {}

    # jobs

    def insert(self, batch: NewJobs, parents: set[bytes] | None = None) -> list[Inserted]:
        claim, options = batch.claim, batch.template.options
        if claim is not None:
            taken = self.claims.get(claim.key)
            if taken is not None and (taken[2] is None or taken[2] > self.now):
                return [Inserted(taken[0], existed=True, conflict=taken[1] != claim.digest)]
            self.claims[claim.key] = (batch.ids[0], claim.digest, claim.expires_at)
        for place, id_ in enumerate(batch.ids):
            due_at = self.now if batch.template.due_at is None else batch.template.due_at
            job = self.jobs[id_] = Job(
                id_,
                State.PENDING,
                batch.template.priority,
                due_at,
                self.now,
                rank_of(due_at, batch.template.priority, options.deadline_at) + place,
                options.retries,
                options.start_by,
                batch.template.queue,
                batch.template.lane,
                batch.arguments[place],
                options.deadline_at,
                may_expire=options.start_by is not None,
                ripe=due_at <= self.now,
                schedule=options.schedule,
            )
            if parents:
                self.parents[id_] = set(parents)
                job.state, job.ripe = State.BLOCKED, False
        return [Inserted(id_) for id_ in batch.ids]

    def cancel(self, id_: bytes, reason: str = "requested") -> str | None:
        job = self.jobs.get(id_)
        if job is None:
            return None
        if job.state in WAITING:
            self._end(job, State.CANCELLED, reason)
            return "cancelled"
        if job.state in LIVE:
            job.asked = job.asked if job.cancelling else reason
            job.cancelling = True
            return "requested"
        return "ended"

    def change(self, change: Change) -> str | None:
        job = self.jobs.get(change.job)
        if job is None:
            return None
        wanted = (State.FAILED, State.CANCELLED) if change.replay else (State.PENDING,)
        if job.state not in wanted or change.attempt not in (None, job.attempt):
            return UNCHANGED if job.state == State.PENDING else job.state
        if change.replay:
            job.failures = job.losses = 0
            if job.schedule is not None:
                self.active[job.id] = job.schedule
        job.priority = job.priority if change.priority is None else change.priority
        job.arguments = job.arguments if change.arguments is None else change.arguments
        if change.lane is not None:
            job.lane, job.queue = change.lane.number(), change.lane.queue
        if change.options is not None:
            self._must_start_by(job, json.decode(change.options, type=Options).start_by)
        unsaid = self.now if change.replay else job.due_at
        self._requeue(job, unsaid if change.due_at is None else change.due_at)
        return "pending"

    def _must_start_by(self, job: Job, start_by: Micros | None) -> None:
        if start_by != job.start_by:
            job.start_by, job.may_expire = start_by, start_by is not None

    # timers

    def ripen(self) -> None:
        for job in self.jobs.values():
            if job.state == State.PENDING and job.due_at <= self.now:
                job.ripe = True
        for job in list(self.jobs.values()):
            if job.may_expire and job.start_by is not None and job.start_by <= self.now:
                job.may_expire = False
                if job.state in WAITING and job.attempt == 0:
                    self._end(job, State.CANCELLED, "expired")

    def prune(self, before: Micros) -> int:
        claimed = {claim[0] for claim in self.claims.values()}
        old = [
            job.id
            for job in self.jobs.values()
            if job.finished_at is not None
            and job.finished_at < before
            and (job.id not in claimed or job.created_at < self.now - CLAIM_LIFE)
        ]
        for id_ in old:
            del self.jobs[id_]
        self.claims = {key: claim for key, claim in self.claims.items() if claim[0] in self.jobs}
        self.occurrences = {at: job for at, job in self.occurrences.items() if job in self.jobs}
        return len(old)

    # attempts

    def ready(self) -> list[Job]:
        waiting = (job for job in self.jobs.values() if job.state == State.PENDING and job.ripe)
        return sorted(waiting, key=lambda job: (job.rank, job.id))

    def assign(self, session: bytes, entry: Ready) -> bool:
        job = self.jobs.get(entry.job)
        if not self.sessions[session] or job is None or job.state != State.PENDING:
            return False
        if not job.ripe or (job.attempt, job.lane) != (entry.attempt, entry.lane):
            return False
        job.state, job.session, job.ripe = State.ASSIGNED, session, False
        job.attempt += 1
        return True

    def mark_running(self, id_: bytes, attempt: int) -> None:
        job = self.jobs.get(id_)
        if job is not None and job.state == State.ASSIGNED and job.attempt == attempt:
            job.state = State.RUNNING

    def settle(self, session: bytes, settled: Settlement) -> bool:
        job = self.jobs.get(settled.job)
        if job is None or job.session != session or job.attempt != settled.attempt:
            return False
        job.failures += settled.counts == "failure"
        job.losses += settled.counts == "loss"
        if settled.failure is not None:
            job.failed_attempts.append(settled.attempt)
        asked = job.asked if job.cancelling else "requested"
        if settled.state != State.PENDING:
            job.result = settled.result
            stopped = settled.state == State.CANCELLED and settled.reason == "requested"
            self._end(job, settled.state, asked if stopped else settled.reason)
        elif job.cancelling:
            self._end(job, State.CANCELLED, asked)
        elif settled.counts == "loss" and job.losses >= MAX_LOSSES:
            self._end(job, State.FAILED, "lost")
        else:
            self._requeue(job, self.now if settled.due_at is None else settled.due_at)
        return True

    def rescue(self) -> int:
        lost = [job for job in self.jobs.values() if job.session is not None and not self.sessions[job.session]]
        for job in lost:
            assert job.session is not None
            self.settle(job.session, Settlement(job.id, job.attempt, State.PENDING, counts="loss"))
        return len(lost)

    # schedules

    def put_schedule(self, id_: str, version: int) -> bool:
        stored = self.schedules.get(id_)
        if (stored.version if stored else 0) != version:
            return False
        self.schedules[id_] = Schedule(version + 1, self.now, stored.runs if stored else 0)
        return True

    def may_fire(self, id_: str, version: int) -> bool:
        return id_ in self.schedules and self.schedules[id_].version == version

    def chain_ends(self, schedule: str) -> set[bytes]:
        """The jobs of a schedule that no other one waits for."""
        return {job for job, owner in self.active.items() if owner == schedule}.difference(*self.parents.values())

    # the two ways on

    def _requeue(self, job: Job, due_at: Micros) -> None:
        job.state, job.session, job.due_at, job.cancelling = State.PENDING, None, due_at, False
        job.finished_at = job.reason = None
        job.ripe = due_at <= self.now
        job.rank = rank_of(due_at, job.priority, job.deadline_at)

    def _end(self, job: Job, state: str, reason: str | None) -> None:
        assert job.state not in ENDED
        job.state, job.session, job.ripe = state, None, False
        job.finished_at, job.reason = self.now, reason
        self.active.pop(job.id, None)
        self.parents.pop(job.id, None)
        for child, parents in list(self.parents.items()):
            parents.discard(job.id)
            if not parents:
                del self.parents[child]
                self._requeue(self.jobs[child], max(self.jobs[child].due_at, self.now))
