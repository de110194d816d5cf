"""What the verbs take and give: the documents of the HTTP API, of `--json` and of the Python face.

Ids are UUIDs as text, times are aware datetimes in UTC, durations are seconds (`_s`). Arguments and results are the stored JSON,
byte for byte: `Raw`, and `NULL` where there is none, because msgspec cannot read `Raw | None`. Requests refuse fields they do not
know; readers of answers must ignore those that they do not know.
"""

from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

from mainspring.core.job import Resources
from mainspring.core.schedule import Rule
from mainspring.core.template import Placeholder

NULL = Raw(b"null")


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody sends."""


class Answer(Struct, frozen=True, kw_only=True):
    """What somebody gets."""


# jobs


class SubmitRequest(Request, frozen=True, kw_only=True):
    """A job to submit. `options`: as in `core.options.GivenOptions`, with times as ISO 8601 and durations as `"10m"` or seconds."""

    kind: str
    arguments: dict[str, Any] = {}
    options: dict[str, Any] = {}


class RawSubmit(Request, frozen=True, kw_only=True):
    """The same, its JSON unread: what batches are made of. Nobody decodes what is only to be checked and stored."""

    kind: str
    arguments: Raw = Raw(b"{}")
    options: Raw = Raw(b"{}")


class Submitted(Answer, frozen=True, kw_only=True):
    """`existed`: a job with this key, or with the same arguments within the period, was there already."""

    id: str
    existed: bool = False


class Problem(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457. `field` names what is wrong; `title` says it in a few words, `detail` also what to do."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    retry_after_s: float | None = None


class SubmittedItem(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one job of many: `id` and `existed`, or `problem`."""

    id: str | None = None
    existed: bool = False
    problem: Problem | None = None


class Progress(Answer, frozen=True, kw_only=True):
    """How far a running job says it is."""

    percent: float
    message: str
    at: datetime


class JobSummary(Answer, frozen=True, kw_only=True):
    """What a listing shows of a job."""

    id: str
    kind: str
    queue: str
    tenant: str
    state: str
    reason: str | None
    priority: int
    attempt: int
    failures: int
    created_at: datetime
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    tags: tuple[str, ...]
    schedule: str | None
    cancel_requested: bool


class Usage(Answer, frozen=True, kw_only=True):
    """What an attempt used, as far as it was measured. None: not known."""

    cpu_s: float = 0.0
    peak_mb: float | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    received_bytes: int | None = None
    sent_bytes: int | None = None


class AttemptError(Answer, frozen=True, kw_only=True):
    """The end of one failed attempt."""

    attempt: int
    at: datetime
    reason: str
    type: str
    message: str
    traceback: str
    usage: Usage | None = None


class OutputDocument(Answer, frozen=True, kw_only=True):
    """A file of a job. The one named `result` is what it returned, as JSON, where that is too large to be with the job."""

    name: str
    size: int
    sha256: str
    media: str


class JobDocument(JobSummary, frozen=True, kw_only=True):
    """Everything that is known of a job. `usage`: of the attempt that ended last."""

    band: str
    losses: int
    retries: int
    backoff_s: float
    timeout_s: float | None
    deadline_at: datetime | None
    deadline_missed: bool
    start_by: datetime | None
    key: str | None
    limit_key: str | None
    secrets: dict[str, str] = {}
    client: str | None
    complexity: int
    labels: tuple[str, ...]
    resources: Resources
    occurrence_at: datetime | None
    progress: Progress | None
    arguments: Raw
    result: Raw
    errors: list[AttemptError]
    usage: Usage | None = None
    outputs: list[OutputDocument] = []
    expired: bool = False


class JobsPage(Answer, frozen=True, kw_only=True):
    """`next`: the cursor of the following page; None at the end."""

    jobs: list[JobSummary]
    next: str | None


class ErrorDocument(Answer, frozen=True, kw_only=True):
    reason: str
    type: str
    message: str
    traceback: str


class EndDocument(Answer, frozen=True, kw_only=True):
    """How a job ended, for those who waited. `result` is null where it is among the `outputs`, and where its time is over
    (`expired`)."""

    id: str
    kind: str
    state: str
    reason: str | None
    result: Raw
    error: ErrorDocument | None
    outputs: list[OutputDocument] = []
    expired: bool = False


class WaitRequest(Request, frozen=True, kw_only=True):
    """Answered when at least one of these jobs has ended, with all that have; at once where some are no jobs, with those; with
    none after `timeout_s`."""

    ids: list[str]
    timeout_s: float = 30.0


class WaitAnswer(Answer, frozen=True, kw_only=True):
    ended: list[EndDocument]
    unknown: list[str] = []  # ids of no job
    unreadable: dict[str, str] = {}  # ids of jobs that have ended and whose result cannot be opened, and why


class CauseDocument(Answer, frozen=True, kw_only=True):
    code: str
    text: str


class Explanation(Answer, frozen=True, kw_only=True):
    """Why a job is not running, or how it ended, in words."""

    id: str
    kind: str
    state: str
    causes: list[CauseDocument]


class JobChange(Request, frozen=True, kw_only=True):
    """What shall be different about a waiting job, or about one that is run again. What is left out stays as it is."""

    arguments: dict[str, Any] | UnsetType = UNSET
    at: datetime | UnsetType = UNSET
    delay: str | float | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    cpu: float | UnsetType = UNSET
    memory_mb: int | UnsetType = UNSET
    gpu: int | UnsetType = UNSET


class Variation(Request, frozen=True, kw_only=True):
    """How one clone differs: arguments by name, options by name."""

    arguments: dict[str, Any] = {}
    options: dict[str, Any] = {}


class CloneRequest(Request, frozen=True, kw_only=True):
    variations: list[Variation] = field(default_factory=lambda: [Variation()])


class JobQuery(Request, frozen=True, kw_only=True):
    """Which jobs; what is left out does not matter. `ids` alone names them one by one."""

    state: str | None = None
    queue: str | None = None
    kind: str | None = None
    tag: str | None = None
    schedule: str | None = None
    ids: list[str] | None = None


class BulkRequest(Request, frozen=True, kw_only=True):
    """Do one thing to many jobs. `priority` goes with reprioritise, and only there. `dry_run`: count, change nothing."""

    action: Literal["cancel", "retry", "reprioritise"]
    filter: JobQuery
    priority: int | None = None
    dry_run: bool = False
    limit: int = 1000


class BulkItem(Answer, frozen=True, kw_only=True):
    """What became of one job: `done`, and the state it has or keeps (None: there is no such job)."""

    id: str
    done: bool
    state: str | None


class BulkAnswer(Answer, frozen=True, kw_only=True):
    """`matched` jobs were found, up to the limit; `more` says that there are others. `changed` of them were changed."""

    matched: int
    changed: int
    more: bool
    jobs: list[BulkItem]


# schedules


class NewSchedule(Request, frozen=True, kw_only=True):
    """A schedule that no code declares. `rule`: cron, tz and so on, as in `core.schedule.parse_rule`."""

    name: str
    kind: str
    rule: dict[str, Any]
    arguments: dict[str, Any] = {}
    options: dict[str, Any] = {}


class MissedDocument(Answer, frozen=True, kw_only=True):
    """Occurrences that did not fire; `count` None where there were too many to count."""

    first_at: datetime
    last_at: datetime
    count: int | None
    reason: str


class ScheduleDocument(Answer, frozen=True, kw_only=True):
    """A schedule as it stood when it was read; nothing at or before `last_at` fires again."""

    name: str
    tenant: str
    kind: str
    rule: Rule
    arguments: Raw
    origin: str
    paused: bool
    runs: int
    active: int
    last_at: datetime
    next_at: datetime | None


class BackfillRequest(Request, frozen=True, kw_only=True):
    first: datetime
    last: datetime


# templates


class TemplateDefinition(Request, frozen=True, kw_only=True):
    """What a template makes. In `arguments` and `options` the value `{"$": "name"}` stands for the placeholder of that name;
    everything else is meant literally, braces in texts included."""

    kind: str
    arguments: dict[str, Any] = {}
    options: dict[str, Any] = {}
    placeholders: dict[str, Placeholder] = {}
    description: str = ""


class TemplateDocument(Answer, frozen=True, kw_only=True):
    """One version of a template. `current`: the version that a submit uses unless it names another."""

    name: str
    tenant: str
    version: int
    current: int
    definition: TemplateDefinition
    shared_with: list[str]
    created_at: datetime
    created_by: str


class TemplateSubmit(Request, frozen=True, kw_only=True):
    """Fill in a template and submit it; `options` are laid over the template's. `version` None: the current one."""

    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    version: int | None = None
    owner: str | None = None  # the tenant that shares it; None: one's own


class TemplateBundle(Request, frozen=True, kw_only=True):
    """Templates as they are carried from one place to another: name -> definition."""

    templates: dict[str, TemplateDefinition]


# queues, workers, nodes


class LimitDocument(Answer, frozen=True, kw_only=True):
    """`burst` starts in `burst / rate_per_s` seconds, `concurrency` at once; None: unlimited."""

    concurrency: int | None
    rate_per_s: float | None
    burst: int | None


class QueueDocument(Answer, frozen=True, kw_only=True):
    """`jobs`: how many in each state. `ended_per_s`: over the last minute."""

    name: str
    tenant: str
    paused: bool
    jobs: dict[str, int]
    ended_per_s: float
    limit: LimitDocument


class WorkerDocument(Answer, frozen=True, kw_only=True):
    """A session of a worker. `tenant` None: it serves all. `alive`: its node's lease holds."""

    id: str
    name: str
    node: str
    tenant: str | None
    slots: int | None
    live: int
    kinds: list[str]
    labels: list[str]
    resources: Resources | None
    alive: bool
    started_at: datetime


class NodeDocument(Answer, frozen=True, kw_only=True):
    id: str
    name: str
    url: str | None
    alive: bool
    draining: bool
    capacity: int
    partitions: int
    workers: int
    live: int
    started_at: datetime
    lease_until: datetime


# the system


class Health(Answer, frozen=True, kw_only=True):
    status: Literal["ok", "unavailable"]
    detail: str = ""


class Version(Answer, frozen=True, kw_only=True):
    version: str
    protocol: int
    store: str


class Statistics(Answer, frozen=True, kw_only=True):
    """Jobs in each state, and what there is beside them, now."""

    jobs: dict[str, int]
    queues: int
    schedules: int
    workers: int
    slots: int
    ended_per_s: float


class Period(Answer, frozen=True, kw_only=True):
    """What ended of one kind in one period. Percentiles are of running times, within 10 % of the exact value."""

    kind: str
    from_at: datetime
    ended: dict[str, int]
    mean_wait_s: float
    mean_run_s: float
    p50_s: float
    p95_s: float
    p99_s: float


class History(Answer, frozen=True, kw_only=True):
    since: datetime
    until: datetime
    step_s: float
    periods: list[Period]


UsageBy = Literal["client,kind", "client", "kind"]


class UsageSum(Answer, frozen=True, kw_only=True):
    """What jobs that ended used in all their attempts; `peak_mb` is the highest. `client`, `kind` None: none, or not by that."""

    tenant: str | None
    client: str | None
    kind: str | None
    jobs: int
    attempts: int
    cpu_s: float
    peak_mb: float | None
    read_bytes: int | None
    written_bytes: int | None
    received_bytes: int | None
    sent_bytes: int | None


class UsageReport(Answer, frozen=True, kw_only=True):
    """Who used most is first. `until`: up to when jobs were looked at; where that is before the time that was asked for, go on from
    there. `more`: how many sums were left out."""

    since: datetime
    until: datetime
    total: UsageSum
    sums: list[UsageSum]
    more: int = 0


# access


class NewKey(Request, frozen=True, kw_only=True):
    """`tenant` None: the caller's own; `"*"`: all of them. `expires_in`: a duration; None: never."""

    name: str
    role: str
    tenant: str | None = None
    expires_in: str | float | None = None
    requests_per_s: float | None = None


class KeyDocument(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A key without its secret; `key` is there once, in the answer that made it."""

    id: str
    name: str
    role: str
    tenant: str
    created_at: datetime
    created_by: str
    requests_per_s: float | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    key: str | None = None


class SecretDocument(Answer, frozen=True, kw_only=True):
    """A secret without its value, which nobody gets. `key`: the id of the master key that it is sealed with."""

    name: str
    tenant: str
    key: str
    changed_at: datetime
    changed_by: str


class SecretValue(Request, frozen=True, kw_only=True):
    """4 characters or more, so that it can be masked in logs."""

    value: str

    def __repr__(self) -> str:
        return "SecretValue(***)"


class RotationRequest(Request, frozen=True, kw_only=True):
    """`after`: the `next` of the step before; null: from the start."""

    after: str | None = None


class RotationStep(Answer, frozen=True, kw_only=True):
    """`changed`: what has the key `key` now. `unreadable`: what no key of the server opens. `next` null: that was all."""

    key: str
    changed: int
    unreadable: int
    next: str | None


class Quota(Request, frozen=True, kw_only=True):
    """None: unlimited. `submits_per_s`: jobs submitted, with bursts of ten seconds' worth."""

    queued: int | None = None
    running: int | None = None
    schedules: int | None = None
    submits_per_s: float | None = None


class NewTenant(Request, frozen=True, kw_only=True):
    name: str
    quota: Quota = Quota()


class SealedRequest(Request, frozen=True, kw_only=True):
    """Shall arguments and results of a tenant's jobs be stored encrypted from now on?"""

    sealed: bool


class TenantDocument(Answer, frozen=True, kw_only=True):
    """`sealed`: arguments and results of its jobs are stored encrypted."""

    name: str
    quota: Quota
    created_at: datetime
    erased_at: datetime | None
    sealed: bool = False


class AuditDocument(Answer, frozen=True, kw_only=True):
    """One record of a tenant's chain. After an erasure only number, time and hashes are left of it."""

    tenant: str
    number: int
    at: datetime
    digest: str
    hash: str
    actor: str | None
    action: str | None
    target: str | None
    origin: str | None
    before: Raw
    after: Raw


class Verification(Answer, frozen=True, kw_only=True):
    """`broken_at`: the number of the first record that does not fit; None where all of them do."""

    tenant: str
    records: int
    broken_at: int | None


# declarations and events


class KindDeclaration(Request, frozen=True, kw_only=True):
    name: str
    options: dict[str, Any] = {}
    limit: LimitDocument | None = None


class QueueDeclaration(Request, frozen=True, kw_only=True):
    """`tenant` None: the one that this is asked for."""

    name: str
    limit: LimitDocument
    tenant: str | None = None


class Declarations(Request, frozen=True, kw_only=True):
    """What an application's code says about its kinds, queues and schedules."""

    kinds: list[KindDeclaration] = []
    queues: list[QueueDeclaration] = []
    schedules: list[NewSchedule] = []


class LogPart(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt wrote at one time: one or more whole lines of a stream (`stdout`, `stderr`; `debug`, `info`, `warning`,
    `error` of a function; `note` of Mainspring itself), or a part of a line that is too long. `id`: to go on behind it; a note
    about what is missing has none."""

    id: str | None = None
    attempt: int
    at: datetime
    stream: str
    text: str


class PartialResult(Answer, frozen=True, kw_only=True):
    """What an attempt gave out while it ran. `id`: to go on behind it."""

    id: str
    attempt: int
    value: Raw


class JobEvent(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened to a job: `ended` everywhere; on a single job's stream first `state`, as it is now, and then also
    `started`, `retrying` and `progress`."""

    event: str
    id: str
    kind: str
    queue: str
    tenant: str
    state: str
    attempt: int
    at: datetime
    reason: str | None = None
    progress: Progress | None = None
