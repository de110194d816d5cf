"""What a store promises. The docstrings are the specification; `tests/contract` holds every backend to them.

Rules for every verb: it takes and returns many; it is one transaction (in each database, where slots are spread over many) and
is durable when it returns; a change is conditional on the state and attempt it expects, and what lost is an answer, never an
exception; `now` is the store's own clock. A verb that cannot write at all raises `StoreUnavailableError` and has written
nothing; one that cannot find out whether it has written raises `StoreUncertainError`.

Jobs move between narrow tables: `timer` (due later), `ready` (due), `live` (assigned), `finished` (ended). Whoever inserts into
`ready` or `timer` sends a `Hint` when the insert has committed, so that nobody has to poll.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from msgspec import Struct

from mainspring.core.job import JobRecord, Limit, NewJobs, Options
from mainspring.core.lane import Lane
from mainspring.core.timer import Micros
from mainspring.runtime.clock import Clock
from mainspring.store.service import ServiceStore
from mainspring.wire import Failure, Progress, WorkerInfo

Stream = tuple[int, int, int]  # partition, band, lane: ready jobs in one order
Place = tuple[Micros, bytes]  # rank, job: a place in that order


class Hint(Struct, frozen=True, array_like=True, omit_defaults=True):
    """Something that other parts, perhaps in other processes, should look at now.

    topic: "ready" (a stream has jobs from `at` = rank on), "timer" (`at` = earliest due time), "settled" (jobs ended),
    "cancel" (a running job was asked to stop), "schedule", "queue", "tenant", "secret" (definitions), "key" (one was revoked),
    "node" (one came, went, was asked to leave, can do more or less than before, or let partitions go).
    """

    topic: str
    streams: list[tuple[int, int, int, Micros]] = []  # ready: partition, band, lane, lowest rank
    at: Micros = 0


class Inserted(Struct, frozen=True, gc=False):
    """One answer per job: its id (of the existing job, where the key was taken), or the conflict."""

    id: bytes
    existed: bool = False
    conflict: bool = False


class Ready(Struct, frozen=True, gc=False):
    """A ready job in the order of its stream, whose lane says what it needs and which limits it falls under."""

    rank: Micros
    job: bytes
    attempt: int
    lane: int


class Pick(Struct, frozen=True):
    """The wish to assign jobs to a session. `limits`: (name, key) of the limits that all of them fall under. `node`: who wishes;
    the session must still be his. All picks of one call have the same."""

    session: bytes
    jobs: list[Ready]
    limits: tuple[tuple[str, str], ...] = ()
    node: bytes | None = None


class Assigned(Struct, frozen=True):
    """The answer to a pick: the jobs won, those lost to somebody else, and those a limit holds back (until when, if known)."""

    won: list[Ready]
    lost: list[Ready] = []
    held: list[Ready] = []
    held_until: Micros | None = None


class Spec(Struct, frozen=True, gc=False):
    """What a worker must know of a job beside its lane."""

    job: bytes
    arguments: bytes
    options: bytes  # JSON of core.job.Options, often the same bytes for many jobs
    failures: int


class Settlement(Struct, frozen=True, gc=False):
    """The end of one attempt, as decided by the settler: the wanted state and what goes with it.

    `pending` needs `due_at`; a job whose cancel was requested becomes `cancelled` instead. `counts` says which counter rises:
    "failure", "loss" or none. `usage` (JSON of `wire.Usage`) is what the attempt used. `completed` only: `outputs` is the list
    of its files (JSON of `wire.Stored`), `expires_at` when they and the result go, if that is before the job does.
    """

    job: bytes
    attempt: int
    state: str
    result: bytes | None = None
    failure: Failure | None = None
    due_at: Micros | None = None
    reason: str | None = None
    counts: str | None = None
    usage: bytes | None = None
    outputs: bytes | None = None
    expires_at: Micros | None = None


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which jobs to list; None means any."""

    tenant: str | None = None
    state: str | None = None
    queue: str | None = None
    kind: str | None = None
    tag: str | None = None
    schedule: str | None = None


UNCHANGED = "unchanged"  # the answer about a job that is pending, and not because of the change


class Change(Struct, frozen=True):
    """What shall be different about one job; None: as it is.

    Without `replay` it must be pending; with it failed or cancelled, and it becomes pending, failures and losses 0, due now
    unless `due_at` says otherwise. `attempt`: as it was read; None: whichever. `options` and `lane` are complete, not parts;
    they keep the job's tenant, key, schedule and occurrence. `band` None: where priority or options change, what they make it.
    """

    job: bytes
    replay: bool = False
    attempt: int | None = None
    arguments: bytes | None = None
    due_at: Micros | None = None
    priority: int | None = None
    band: int | None = None
    options: bytes | None = None
    lane: Lane | None = None


class EndedJob(Struct, frozen=True, gc=False):
    """A job that has ended, as much as events and rates need of it."""

    job: bytes
    tenant: str
    queue: str
    kind: str
    state: str
    reason: str | None
    attempt: int
    finished_at: Micros


class Tally(Struct, frozen=True, gc=False):
    """Jobs of one kind and state that ended in one period and ran for about the same time.

    Both are of the last attempt. `bin`: floor(4 * log2(running time in microseconds, at least 1)), -1 where it did not run; so
    bins are 19 % wide. `wait` (from due to start) and `run` are sums, 0 where it did not run.
    """

    kind: str
    state: str
    from_at: Micros
    bin: int
    count: int
    wait: Micros
    run: Micros


class UsageTally(Struct, frozen=True, gc=False):
    """What the attempts of jobs that ended used, summed; `peak_mb` is the highest. None: of none of them is it known."""

    client: str | None
    kind: str
    jobs: int
    attempts: int
    cpu_s: float
    peak_mb: float | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    received_bytes: int | None = None
    sent_bytes: int | None = None


class AttemptFailure(Struct, frozen=True):
    attempt: int
    at: Micros
    failure: Failure
    usage: bytes | None = None


EXPIRED = b""  # instead of a result whose time was over


class Ended(Struct, frozen=True):
    """How a job ended, for those who wait for it. `result` is b"null" where there are only `outputs`, `EXPIRED` where it has
    been removed before its job."""

    state: str
    reason: str | None
    result: bytes | None
    failure: Failure | None
    tenant: str
    kind: str
    outputs: bytes | None = None
    expires_at: Micros | None = None


class Transaction(Protocol):
    """A transaction on the store's own database, for your tables and your submits together: what `app.transaction()` gives.

        async with app.transaction() as tx:
            await tx.execute("insert into orders (number, total) values ($1, $2)", 7, 1250)
            await confirm_order.within(tx).submit(7)

    Everything in it becomes visible and durable together when the block ends, and nothing if the block raises. Use it from the
    block only, and keep it short: on SQLite nobody else can write meanwhile. Errors of your statements are the driver's own
    (apsw's or asyncpg's).
    """

    async def execute(self, sql: str, /, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement of yours; its rows, if it has any.

        Parameters are `$1`, `$2` and so on on every store; SQLite also takes its own `?`. Mainspring's tables are not yours to
        change, and the end of the transaction is the end of the block: SQLite refuses both here, PostgreSQL trusts you.
        """

    @property
    def connection(self) -> Any:
        """The driver's connection for what `execute` cannot do: an `apsw.Connection` or an `asyncpg.Connection`. Do not end the
        transaction with it, and do not keep it."""


class Jobs(Protocol):
    """Submitting, reading and steering jobs."""

    async def insert_jobs(self, batches: Sequence[NewJobs], lanes: Sequence[Lane]) -> list[list[Inserted]]:
        """Insert all jobs of all batches, pending, into `timer` or `ready` by due time; one answer per job.

        A claim that another job holds is answered with that job (`existed`), or with `conflict` where the digest differs; other
        batches are not affected. One that would reuse a job gets the claim itself where that job failed, was cancelled, is gone, or
        has kept its result for as long as it should. Inserting an id that is there already changes nothing and is answered as
        inserted.
        """

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction for a caller's own statements and inserts: committed and durable when the block ends, rolled back when it
        raises or is cancelled. Hints of its inserts go out after the commit. Waiting for it never blocks the event loop.

        Where the database has one writer (SQLite), whatever else the code in the block writes would wait for itself: it is
        refused (`StoreError`). So is a transaction where slots are spread over many databases: none spans them.
        """

    async def insert_within(
        self, connection: object, batches: Sequence[NewJobs], lanes: Sequence[Lane], *, blocking: bool = False
    ) -> list[list[Inserted]]:
        """As `insert_jobs`, inside a transaction that the caller has open: visible and hinted at when he commits, gone if he does
        not. One that fails leaves the transaction as it was, where the database can (SQLite) or else aborted (PostgreSQL).

        `connection`: what `transaction` gave, or a connection or session of a driver that the backend knows; what it does not
        know, what has no transaction open and what belongs to another database is refused (`InvalidError`, field `within`).
        `blocking`: the caller has no event loop; `connection` then is one whose calls block, it is used on the caller's thread
        only, and this coroutine never waits for anything else. The driver's errors are passed on as they are.
        """

    async def read_jobs(self, ids: Sequence[bytes]) -> list[JobRecord | None]:
        """In the order asked; None where there is no such job."""

    async def list_jobs(
        self, which: JobFilter, *, before: bytes | None, limit: int, ended_at: Micros | None = None
    ) -> list[JobRecord]:
        """Newest first, by id; where an ended state is asked for, latest end first. `before` continues a listing behind that job;
        `ended_at` is when that one ended, as it was listed (None: as it is stored now, if it still is)."""

    async def read_ended(self, ids: Sequence[bytes]) -> list[Ended | None]:
        """In the order asked; None while a job has not ended."""

    async def read_failures(self, job: bytes) -> list[AttemptFailure]:
        """Every failed attempt of a job, oldest first."""

    async def list_parents(self, job: bytes, limit: int) -> list[bytes]:
        """Up to `limit` of the jobs that this one waits for."""

    async def cancel_jobs(self, ids: Sequence[bytes]) -> list[str | None]:
        """End waiting jobs at once (`cancelled`), ask running ones to stop (`requested`); `ended` where it was over before,
        None where there is no such job. After the answer no new attempt starts."""

    async def change_jobs(self, changes: Sequence[Change]) -> list[str | None]:
        """Change waiting jobs, replay ended ones (`pending`). Otherwise the state they keep (`UNCHANGED` where that is pending),
        None where there is no such job. At most one change per job. One that is due later moves to `timer`, one that is due to
        `ready`, with the rank that it would have had from the start."""

    async def count_jobs(self, tenant: str | None = None) -> dict[tuple[str, str], int]:
        """Jobs per (queue, state), counted now: for people, not for loops."""

    async def list_ended(self, tenants: Sequence[str], since: Micros, limit: int) -> list[EndedJob]:
        """Jobs of these tenants that ended at or after `since`, the earliest `limit` of them by (end, id). Jobs that end at
        the same time may become visible in another order: look a little further back, and at none twice."""

    async def tally_ended(self, tenant: str, since: Micros, until: Micros, step: Micros) -> list[Tally]:
        """Jobs that ended from `since` on and before `until`, counted by periods of `step` from `since` on: for people."""

    async def tally_usage(
        self, tenant: str, since: Micros, until: Micros, limit: int
    ) -> tuple[list[UsageTally], Micros]:
        """What jobs used that ended from `since` on and before `until`, by client and kind: their last attempts, and those before
        that failed. About `limit` jobs of each end are looked at, the earliest; answers also up to when all are in it, which is
        later than `since` (`until` where that is all): go on from there."""

    async def read_progress(self, ids: Sequence[bytes]) -> list[Progress | None]:
        """What the current attempt said last; in the order asked."""


class Timers(Protocol):
    """The passage from later to due, and from finished to gone."""

    async def ripen_timers(self, partitions: Sequence[int], limit: int) -> tuple[int, Micros | None]:
        """Move up to `limit` due timers of these partitions to `ready`, the earliest of each first; cancel jobs whose `start_by`
        has passed. Answers how many moved and when the next is due."""

    async def list_expired(self, limit: int) -> list[tuple[bytes, bool]]:
        """Up to `limit` jobs whose result has `expires_at` behind it and is still there, the earliest first; has it `outputs`?"""

    async def expire_results(self, jobs: Sequence[bytes]) -> int:
        """Remove the results of those among them that `list_expired` would list; how many. They are `EXPIRED` then."""

    async def prune_jobs(self, ended_before: dict[str, Micros], limit: int) -> int:
        """Delete up to `limit` jobs that ended in a state before its time, with all that belongs to them. A job with a
        claim stays for at least 24 h after it was created."""


class Dispatch(Protocol):
    """Reading the ready order and assigning from it."""

    async def list_streams(self, partitions: Sequence[int]) -> list[tuple[int, int, int, Micros]]:
        """Every stream with ready jobs, and its lowest rank. Costs a step per stream, not per job."""

    async def read_ready(self, wanted: Sequence[tuple[Stream, Place | None]], limit: int) -> list[list[Ready]]:
        """The next ready jobs of each stream in order, up to `limit` of each, after a place in it or from its start."""

    async def assign_jobs(self, picks: Sequence[Pick]) -> list[Assigned]:
        """pending -> assigned for every job that is still pending with the attempt and the lane named; the attempt number rises by
        one, the ready row goes, a live row comes. A session that has ended, or that another node has adopted, wins nothing. Limits
        are counted and taken here."""

    async def read_specs(self, ids: Sequence[bytes]) -> list[Spec]:
        """What workers must know of assigned jobs; any order."""


class Attempts(Protocol):
    """The end of attempts."""

    async def settle_attempts(self, session: bytes, settlements: Sequence[Settlement]) -> list[bool]:
        """Apply each settlement whose job is live in this session with exactly that attempt; False where it is not (a late or
        repeated outcome, another session's job): such a one changes nothing. The job's `usage` is that of the attempt that ended
        last, None where that one's is not known; a failure has its attempt's."""

    async def mark_running(self, attempts: Sequence[tuple[bytes, int]], progress: Sequence[Progress] = ()) -> None:
        """assigned -> running for attempts that outlive a report interval. `progress` is kept where its attempt is live, the
        last of each job; it goes when the attempt has ended."""

    async def rescue_attempts(self, limit: int) -> int:
        """Settle up to `limit` live rows of ended sessions as lost: pending again, or failed after too many losses."""

    async def list_cancelling(self, session: bytes) -> list[bytes]:
        """Live jobs of a session that were asked to stop."""


class NodeRecord(Struct, frozen=True):
    """A node; `capacity` is what its workers can run at once, `partitions` how many it owns. `url`: where its API is."""

    id: bytes
    name: str
    started_at: Micros
    lease_until: Micros
    capacity: int = 1
    draining: bool = False
    partitions: int = 0
    url: str | None = None


class SessionRecord(Struct, frozen=True):
    """A worker's session; `info` None where the worker did not say what it can do. `live`: the jobs it has. `tenant`: the only
    one it serves; None: all. `remote`: the worker is not in its node's process, and may outlive it."""

    id: bytes
    node: bytes
    name: str
    started_at: Micros
    info: WorkerInfo | None
    live: int
    tenant: str | None = None
    remote: bool = False


class LiveJob(Struct, frozen=True, gc=False):
    """A job that is live in a session."""

    job: bytes
    attempt: int
    lane: int
    options: Options


class Sessions(Protocol):
    """Nodes, their leases and partitions, and the sessions of their workers."""

    async def insert_node(self, node: bytes, name: str, lease_s: float, url: str | None = None) -> None:
        """Register a node with a lease from now; `url`: where other nodes reach its API."""

    def renew_lease(self, node: bytes, lease_s: float, done: Callable[[bool], None]) -> None:
        """Extend a lease from any thread, without an event loop; `done(False)` where the node has been ended."""

    async def end_nodes(self, leases: Mapping[bytes, Micros | None]) -> int:
        """End each of these nodes whose lease still ends when it is said to (None: whenever); how many. A node that has ended
        lets go of its partitions, and the sessions of its own workers end with it; those of remote workers are orphans until
        they are adopted or ended. It ends once and never revives."""

    async def claim_partitions(self, node: bytes, capacity: int) -> list[int]:
        """Give this node its fair share of the partitions and answer it: unowned ones are taken, surplus ones let go. Shares
        are by capacity, which is noted where it has changed; a node that drains has no share."""

    async def drain_nodes(self, nodes: Sequence[bytes]) -> int:
        """Ask nodes to take nothing new, finish what they run and leave; how many of them had not ended."""

    async def list_nodes(self) -> list[NodeRecord]:
        """Nodes that have not ended."""

    async def insert_session(
        self,
        session: bytes,
        node: bytes,
        name: str,
        info: WorkerInfo | None = None,
        tenant: str | None = None,
        remote: bool = False,
    ) -> None:
        """Start a session; refused (`StoreError`) where the node has ended. `info` is kept for those who explain, `tenant` is the
        only one whose jobs it gets, `remote`: it may outlive its node."""

    async def adopt_session(self, session: bytes, node: bytes) -> list[LiveJob] | None:
        """Make an orphan the session of this node; what is live in it. Repeating it repeats the answer. None where it has ended or
        is no remote worker's, where another node that has not ended has it, and where this node itself has ended."""

    async def list_orphans(self) -> dict[bytes, bytes]:
        """Sessions that have not ended although their node has, and that node."""

    async def read_sessions(self, ids: Sequence[bytes]) -> list[SessionRecord | None]:
        """In the order asked; None where there is none, or it has ended. `live` is not counted here."""

    async def list_sessions(self) -> list[SessionRecord]:
        """Sessions that have not ended, oldest first. Whether their node still lives is its lease's question."""

    async def find_session(self, job: bytes) -> bytes | None:
        """The session in which a job is live; None where it is in none."""

    async def end_sessions(self, sessions: Sequence[bytes], node: bytes | None = None) -> None:
        """End sessions, with `node` only those that are still that node's; ended ones stay ended. Their live rows wait for
        `rescue_attempts`."""


class QueueRecord(Struct, frozen=True):
    tenant: str
    name: str
    paused: bool
    limit: Limit


class KindRecord(Struct, frozen=True):
    """A kind as the application that runs it declares it; `defaults` is JSON for those who submit without the code."""

    name: str
    defaults: bytes


class LimitUse(Struct, frozen=True):
    """How much of a limit is used: the live jobs it counts, and when its rate lets the next one start (None: now)."""

    held: int
    next_start_at: Micros | None


class Catalog(Protocol):
    """Small definitions: lanes, queues, kinds, limits."""

    async def agree(self, name: str, value: str | None) -> str | None:
        """A setting of the whole installation: the first value that anybody gives it stays, and is the answer. None: only read."""

    async def read_lanes(self, numbers: Sequence[int]) -> dict[int, Lane]:
        """The lanes known by these numbers."""

    async def put_queue(self, queue: QueueRecord) -> None:
        """Insert or replace a queue's settings."""

    async def list_queues(self) -> list[QueueRecord]:
        """Every queue with settings."""

    async def put_kinds(self, kinds: Sequence[KindRecord], limits: dict[str, Limit]) -> None:
        """Insert or replace kinds and their limits; a kind without a limit loses the one it had."""

    async def add_kinds(self, kinds: Sequence[KindRecord]) -> None:
        """Insert those that nobody has declared; the others stay as they are."""

    async def list_kinds(self) -> list[KindRecord]:
        """Every kind an application has declared."""

    async def list_limits(self) -> dict[str, Limit]:
        """Every limit by name: `queue/TENANT/QUEUE`, `kind/KIND`, `tenant/TENANT`."""

    async def read_limit_uses(self, limits: Sequence[tuple[str, str]]) -> list[LimitUse]:
        """In the order asked, by the name and the key of each limit (as in `Pick`): for people, not for loops."""


class ScheduleRecord(Struct, frozen=True, kw_only=True):
    """A stored schedule. `version` rises with every change and firing; changes are conditional on it."""

    id: str  # tenant/name
    tenant: str
    name: str
    definition: bytes  # JSON: rule, kind, arguments, options
    origin: str  # "code" or "user"
    paused: bool
    watermark_at: Micros
    runs: int
    next_at: Micros | None
    version: int
    active: int = 0  # its jobs that have started or wait to retry
    queued: int = 0  # its jobs that wait for their first start


class MissedRecord(Struct, frozen=True):
    """Occurrences that did not fire, and why; `count` None where there were too many to count."""

    schedule: str
    first_at: Micros
    last_at: Micros
    count: int | None
    reason: str


class Firing(Struct, frozen=True):
    """One step of one schedule, conditional on `version`: the jobs of its occurrences, what was missed, where it stands after."""

    schedule: str
    version: int
    watermark_at: Micros
    next_at: Micros | None
    runs: int
    jobs: list[NewJobs] = []
    lanes: list[Lane] = []
    missed: list[MissedRecord] = []
    cancel_active: bool = False
    serial: bool = False  # each job waits until the one before it has ended


class Schedules(Protocol):
    """Stored schedules and their firing."""

    async def put_schedules(self, schedules: Sequence[ScheduleRecord]) -> list[bool]:
        """Insert where `version` is 0, else replace where the stored version is the one named; False where it is not."""

    async def delete_schedules(self, ids: Sequence[str]) -> int: ...

    async def list_schedules(self, tenant: str | None = None) -> list[ScheduleRecord]: ...

    async def read_schedules(self, ids: Sequence[str]) -> list[ScheduleRecord | None]:
        """With `active` and `queued` counted."""

    async def due_schedules(self, limit: int) -> tuple[list[ScheduleRecord], Micros | None]:
        """Schedules not paused whose `next_at` has come, and when the next one comes."""

    async def fire_schedules(self, firings: Sequence[Firing]) -> list[bool]:
        """Advance each schedule whose version still is the one named, and insert its jobs in the same transaction; False where
        somebody else was first, or another job has the claim of one of its jobs: then nothing of that firing was written."""

    async def read_claims(self, schedule: ScheduleRecord, keys: Sequence[str]) -> list[bytes | None]:
        """The jobs that firings of this schedule made with these claims, in the order asked; None where there is none."""

    async def list_missed(self, schedule: str, limit: int) -> list[MissedRecord]:
        """Newest first."""


class Store(Jobs, Timers, Dispatch, Attempts, Sessions, Catalog, Schedules, ServiceStore, Protocol):
    """All of it over one database, and the hints that make polling unnecessary."""

    clock: Clock
    partitions: int

    def subscribe(self, listener: Callable[[Hint], None]) -> Callable[[], None]:
        """Call `listener` in the event loop for every hint, from this process or another; answers the way to unsubscribe."""

    async def close(self) -> None: ...
