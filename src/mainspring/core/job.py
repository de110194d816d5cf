"""What a job is: the part that never changes (`Template`, `Options`), and the record a reader gets (`JobRecord`).

Jobs of one submit that share everything but their arguments share one `Template`; that is what makes bulk submits cheap.
Limits on sizes and names are here, because submit and CLI must refuse the same things.
"""

from msgspec import Struct

from mainspring.core.retry import Backoff
from mainspring.core.timer import Micros

MAX_ARGUMENTS_BYTES = 1_048_576
MAX_RESULT_BYTES = 1_048_576
MAX_NAME = 200
MAX_TAGS = 32
MIN_PRIORITY, DEFAULT_PRIORITY, MAX_PRIORITY = 1, 5, 10
DEFAULT_COMPLEXITY = 5
DEFAULT_RETRIES = 3
DEFAULT_TENANT = "default"
DEFAULT_QUEUE = "default"


class Resources(Struct, frozen=True):
    """What a job needs, or what a worker has. `memory_mb` 0 and `gpu` 0 mean: no claim; workers default to no bound."""

    cpu: float = 0.0
    memory_mb: int = 0
    gpu: int = 0


class Limit(Struct, frozen=True):
    """At most `concurrency` at once, and at most `rate` starts per second with bursts of `burst`."""

    concurrency: int | None = None
    rate: float | None = None
    burst: int = 1


class Options(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything about a job that its worker or a person may want to know and that never changes; stored once."""

    client: str | None = None
    complexity: int = DEFAULT_COMPLEXITY
    retries: int = DEFAULT_RETRIES
    backoff: Backoff = Backoff()
    timeout_s: float | None = None
    deadline_at: Micros | None = None
    start_by: Micros | None = None
    resources: Resources = Resources()
    labels: frozenset[str] = frozenset()
    tags: tuple[str, ...] = ()
    key: str | None = None
    limit_key: str | None = None
    result_ttl_s: float | None = None
    secrets: dict[str, str] = {}  # names of the job's own -> names of its tenant's secrets
    schedule: str | None = None
    occurrence_at: Micros | None = None


class Template(Struct, frozen=True):
    """What the jobs of one batch share. `due_at` None means: now, by the store's clock."""

    tenant: str
    queue: str
    kind: str
    priority: int
    band: int
    lane: int
    due_at: Micros | None
    options: Options


class Claim(Struct, frozen=True):
    """A name that one job may have. `digest` tells whether two submits with this key mean the same job; `expires_at` ends
    the claim early (unique within a period); without it the claim lives as long as the job's row. `reuse`: only a job that is
    under way or has completed, and whose result is still there, holds it against this one (see `reusable`)."""

    key: str
    digest: bytes
    expires_at: Micros | None = None
    reuse: bool = False


class NewJobs(Struct, frozen=True):
    """Jobs to insert that share a template. Ids are made before the first write, so a write can be repeated safely.

    `first` is the place of the first one in the batch it was submitted with, where a batch is split between databases: ranks
    go on from there, so that the parts keep the order of the whole.
    """

    template: Template
    ids: list[bytes]
    arguments: list[bytes]
    claim: Claim | None = None  # only with a single id
    after: tuple[bytes, ...] = ()  # jobs of the same slot that must have ended before these may start
    first: int = 0


class JobRecord(Struct, frozen=True, kw_only=True):
    """A job as a reader sees it: one row, at one moment."""

    id: bytes
    tenant: str
    queue: str
    kind: str
    state: str
    priority: int
    band: int
    lane: int
    rank: Micros
    due_at: Micros
    attempt: int
    failures: int
    losses: int
    cancelling: bool
    created_at: Micros
    started_at: Micros | None
    finished_at: Micros | None
    reason: str | None
    usage: bytes | None = None  # JSON: what the attempt that ended last used
    arguments: bytes
    options: Options

    @property
    def missed_deadline(self) -> bool:
        """Did it end after its deadline?"""
        deadline_at = self.options.deadline_at
        return deadline_at is not None and self.finished_at is not None and self.finished_at > deadline_at
