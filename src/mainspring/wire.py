"""What a node and a worker say to each other, whether in one process or over a network.

A worker registers (`WorkerInfo`), then loops on two calls: `pull` ("I can take this much") answers `Assignment`s, and `report`
takes `Outcome`s and answers `ReportReply`. An outcome names the job and the attempt; the attempt is the fencing token, so
an outcome of an attempt that is no longer current is answered "rejected" and changes nothing.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.job import Options, Resources
from mainspring.core.timer import Micros

_Bytes = Annotated[int, Meta(ge=0, le=1 << 50)]

PROTOCOL = 1  # of these calls over a network; what is added later is a feature that both sides name


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """What a worker is and can take."""

    name: str
    slots: int
    kinds: frozenset[str]
    resources: Resources = Resources()
    labels: frozenset[str] = frozenset()


class Assignment(Struct, frozen=True, gc=False):
    """One attempt at one job, handed to one worker."""

    job: bytes
    attempt: int
    tenant: str
    queue: str
    kind: str
    arguments: bytes  # a JSON object: parameter name -> value
    options: Options
    failures: int = 0
    lane: int = 0
    secrets: dict[str, str] = {}  # by the names that its option `secrets` gives them

    def __repr__(self) -> str:
        """Without what may be nobody's business: logs and tracebacks show assignments."""
        return f"Assignment(job={self.job.hex()}, attempt={self.attempt}, tenant={self.tenant!r}, kind={self.kind!r})"


class PullReply(Struct, frozen=True):
    """What a worker far away gets for a pull. `cancel` and `drain`: as in `ReportReply`."""

    assignments: list[Assignment]
    cancel: list[bytes] = []
    drain: bool = False


class OutcomeType(StrEnum):
    """The closed set of ways an attempt ends."""

    COMPLETED = "completed"
    FAILED = "failed"  # raised, timed out, bad arguments: counts against `retries`
    SNOOZED = "snoozed"  # the job asked to be run later: counts as nothing
    CANCELLED = "cancelled"  # by request, or the job raised `Cancel`
    RETURNED = "returned"  # handed back unfinished by a worker that stops: counts as nothing


class Failure(Struct, frozen=True):
    """Why an attempt failed. `reason` is one of `core.lifecycle.Reason`."""

    reason: str
    type: str
    message: str
    traceback: str = ""


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt used, as far as that can be known where it ran. None: it cannot. Bounded, so that sums are."""

    cpu_s: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    peak_mb: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    read_bytes: _Bytes | None = None
    written_bytes: _Bytes | None = None
    received_bytes: _Bytes | None = None
    sent_bytes: _Bytes | None = None


class Stored(Struct, frozen=True):
    """A file of an attempt among the objects. The one named "result" is the result, as JSON."""

    name: str
    size: int
    sha256: str  # hexadecimal
    media: str = "application/octet-stream"


class Outcome(Struct, frozen=True, gc=False):
    """How one attempt ended."""

    job: bytes
    attempt: int
    type: OutcomeType
    result: bytes | None = None  # JSON; None where the function returned None
    failure: Failure | None = None
    retry: bool = True  # failed: False where the exception's type says that trying again is useless
    retry_after_s: float | None = None  # failed: wait this long instead of the backoff
    until: Micros | None = None  # snoozed
    reason: str | None = None  # cancelled
    usage: Usage | None = None
    outputs: tuple[Stored, ...] = ()  # completed
    result_ttl_s: float | None = (
        None  # completed: how long result and outputs are kept; said by the node, not by the worker
    )


class Progress(Struct, frozen=True):
    """How far an attempt says it is."""

    job: bytes
    attempt: int
    percent: float
    message: str = ""
    at: Micros = 0  # when the store took it


class Report(Struct, frozen=True):
    """What a worker says at least every heartbeat. `running` None: a mere sign of life."""

    outcomes: list[Outcome]
    running: list[tuple[bytes, int]] | None = None  # attempts that have run for longer than one report interval
    progress: list[Progress] = []


class ReportReply(Struct, frozen=True):
    """`rejected`: outcomes that were not current. `cancel`: attempts to stop. `drain`: take nothing new, finish and leave."""

    rejected: list[bytes] = []
    cancel: list[bytes] = []
    drain: bool = False
