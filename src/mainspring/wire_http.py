"""The messages of `wire` as JSON, for workers on the other side of HTTP: the worker protocol, version 1.

Ids are UUIDs as text, arguments and results are JSON values inside the message, times are ISO 8601. A server ignores fields that it
does not know, and so must a worker: that is how the protocol grows without a new version. Both sides use the same structs; what a
worker sends is checked here, because it may not be one of ours. One outcome with a result that cannot be stored ends its job as
failed, and leaves the rest of the report alone.
"""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field, structs

from mainspring.core.job import MAX_RESULT_BYTES, Options, Resources
from mainspring.core.lifecycle import Reason
from mainspring.core.objects import MAX_OUTPUTS, output
from mainspring.core.partition import format_id, parse_id
from mainspring.core.timer import from_micros, to_micros
from mainspring.errors import InvalidError
from mainspring.wire import (
    Assignment,
    Failure,
    Outcome,
    OutcomeType,
    Progress,
    PullReply,
    Report,
    ReportReply,
    Stored,
    Usage,
)

PROTOCOL = 1
FEATURES = ("cancel", "drain", "objects", "progress", "wait")  # what beside pull and report this version can do

MAX_SLOTS = 100_000
MAX_KINDS = 10_000
MAX_MESSAGE = 2_048  # characters of an error's message, and of its type
MAX_TRACEBACK = 16_384
MAX_PROGRESS_MESSAGE = 1_000
MAX_WAIT_S = 3_600 * 24 * 366 * 10.0

_NULL = Raw(b"null")
_REASONS = frozenset(
    {Reason.ERROR, Reason.TIMEOUT, Reason.ARGUMENTS, Reason.UNKNOWN_KIND, Reason.RESULT, Reason.KILLED}
)
_decode = msgspec.json.Decoder().decode

AttemptNumber = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Registration(Struct, frozen=True, kw_only=True):
    """What a worker is. `features`: what it can do beside pull and report."""

    protocol: int
    name: str
    slots: int
    kinds: list[str]
    labels: list[str] = []
    resources: Resources = Resources()
    features: list[str] = []


class Registered(Struct, frozen=True, kw_only=True):
    """A session. It ends where no report comes for `lease_s`; one is due every `heartbeat_s`."""

    session: str
    protocol: int = PROTOCOL
    features: list[str] = []
    lease_s: float
    heartbeat_s: float
    long_poll_s: float


class Pull(Struct, frozen=True, kw_only=True):
    """Ask for up to `free` jobs. `number`: one more than in the last pull that was answered. `wait_s`: at most so long."""

    number: Annotated[int, Meta(ge=0, le=2**53)]
    free: Annotated[int, Meta(ge=0, le=MAX_SLOTS)]
    wait_s: Annotated[float, Meta(ge=0)] | None = None


class HttpAssignment(Struct, frozen=True, gc=False):
    """One attempt at one job. `options`: what it was submitted with; times in them are microseconds since 1970. `secrets`: values
    by the names that `options.secrets` gives them."""

    job: str
    attempt: int
    tenant: str
    queue: str
    kind: str
    arguments: Raw
    options: Options
    failures: int = 0
    secrets: dict[str, str] | UnsetType = UNSET

    def __repr__(self) -> str:
        """Without what may be nobody's business."""
        return f"HttpAssignment(job={self.job}, attempt={self.attempt}, tenant={self.tenant!r}, kind={self.kind!r})"


class PullAnswer(Struct, frozen=True, kw_only=True):
    assignments: list[HttpAssignment]
    cancel: list[str] = []
    drain: bool = False


class HttpFailure(Struct, frozen=True, omit_defaults=True):
    """Why an attempt failed; `reason` is one of error, timeout, arguments, unknown_kind, result, killed."""

    reason: str = Reason.ERROR
    type: str = "Error"
    message: str = ""
    traceback: str = ""


class HttpOutcome(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """How an attempt ended: completed, failed, snoozed (until), cancelled, or returned unfinished."""

    job: str
    attempt: AttemptNumber
    type: OutcomeType
    result: Raw = field(default_factory=lambda: _NULL)  # a plain default of this type has no JSON schema
    failure: HttpFailure | None = None
    retry: bool = True
    retry_after_s: Annotated[float, Meta(ge=0, le=MAX_WAIT_S)] | None = None
    until: Annotated[datetime, Meta(tz=True)] | None = None
    reason: str | None = None
    usage: Usage | None = None
    outputs: Annotated[tuple[Stored, ...], Meta(max_length=MAX_OUTPUTS)] = ()
    result_ttl_s: Annotated[float, Meta(gt=0, le=MAX_WAIT_S)] | None = None


class HttpProgress(Struct, frozen=True, omit_defaults=True):
    job: str
    attempt: AttemptNumber
    percent: Annotated[float, Meta(ge=0, le=100)]
    message: str = ""


class HttpReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has ended and what runs. `running`: every attempt that has run for longer than a heartbeat; null: nothing is said."""

    outcomes: list[HttpOutcome] = []
    running: list[tuple[str, AttemptNumber]] | None = None
    progress: list[HttpProgress] = []


class ReportAnswer(Struct, frozen=True, kw_only=True):
    """`rejected`: jobs whose outcome came too late. `cancel`: jobs to stop. `drain`: take nothing new, finish and leave."""

    rejected: list[str] = []
    cancel: list[str] = []
    drain: bool = False


# the server's side


def pull_answer(reply: PullReply) -> PullAnswer:
    return PullAnswer(
        assignments=[_http_assignment(assignment) for assignment in reply.assignments],
        cancel=[format_id(job) for job in reply.cancel],
        drain=reply.drain,
    )


def _http_assignment(a: Assignment) -> HttpAssignment:
    return HttpAssignment(
        *(format_id(a.job), a.attempt, a.tenant, a.queue, a.kind, Raw(a.arguments), a.options, a.failures),
        secrets=a.secrets or UNSET,
    )


def report_answer(reply: ReportReply) -> ReportAnswer:
    return ReportAnswer(
        rejected=[format_id(job) for job in reply.rejected],
        cancel=[format_id(job) for job in reply.cancel],
        drain=reply.drain,
    )


def read_report(report: HttpReport) -> Report:
    """A report as the desk takes it; InvalidError names what is wrong."""
    return Report(
        [_read_outcome(outcome) for outcome in report.outcomes],
        None if report.running is None else [(_job("running", job), attempt) for job, attempt in report.running],
        [
            Progress(_job("progress", p.job), p.attempt, p.percent, p.message[:MAX_PROGRESS_MESSAGE])
            for p in report.progress
        ],
    )


def _read_outcome(given: HttpOutcome) -> Outcome:
    return structs.replace(_read_end(given), usage=given.usage)


def _read_end(given: HttpOutcome) -> Outcome:
    job = _job("outcomes", given.job)
    match given.type:
        case OutcomeType.COMPLETED:
            return _completed(job, given)
        case OutcomeType.SNOOZED:
            if given.until is None:
                raise InvalidError("outcomes.until", "is missing: a snoozed job says when it shall run")
            return Outcome(job, given.attempt, given.type, until=to_micros("outcomes.until", given.until))
        case OutcomeType.CANCELLED:
            reason = Reason.REQUESTED if given.reason == Reason.REQUESTED else Reason.RAISED
            return Outcome(job, given.attempt, given.type, failure=_read_failure(given.failure), reason=reason)
        case OutcomeType.RETURNED:
            return Outcome(job, given.attempt, given.type)
    failure = _read_failure(given.failure or HttpFailure())
    return Outcome(job, given.attempt, given.type, None, failure, given.retry, given.retry_after_s)


def _completed(job: bytes, given: HttpOutcome) -> Outcome:
    data = bytes(given.result)
    for stored in given.outputs:
        _check_output(given.attempt, stored.name)
    kept = Outcome(job, given.attempt, given.type, outputs=given.outputs, result_ttl_s=given.result_ttl_s)
    if data == b"null":
        return kept
    problem = (
        f"has {len(data):,} bytes; at most {MAX_RESULT_BYTES:,} are stored" if len(data) > MAX_RESULT_BYTES else ""
    )
    try:
        _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        problem = "is no JSON that can be read again"
    if not problem:
        return structs.replace(kept, result=data)
    why = Failure(Reason.RESULT, "InvalidError", f"result: {problem}")
    return Outcome(job, given.attempt, OutcomeType.FAILED, None, why, retry=False)


def _check_output(attempt: int, name: str) -> None:
    try:
        output(attempt, name)
    except InvalidError as error:
        raise InvalidError("outcomes.outputs", error.problem) from None


def _read_failure(given: HttpFailure | None) -> Failure | None:
    if given is None:
        return None
    return Failure(
        given.reason if given.reason in _REASONS else Reason.ERROR,
        given.type[:MAX_MESSAGE],
        given.message[:MAX_MESSAGE],
        given.traceback[-MAX_TRACEBACK:],
    )


def _job(field: str, text: str) -> bytes:
    try:
        return parse_id(text)
    except InvalidError as error:
        raise InvalidError(f"{field}.job", error.problem) from None


# the worker's side


def http_report(report: Report) -> HttpReport:
    return HttpReport(
        outcomes=[_http_outcome(outcome) for outcome in report.outcomes],
        running=None if report.running is None else [(format_id(job), attempt) for job, attempt in report.running],
        progress=[HttpProgress(format_id(p.job), p.attempt, p.percent, p.message) for p in report.progress],
    )


def _http_outcome(o: Outcome) -> HttpOutcome:
    failure = o.failure
    return HttpOutcome(
        job=format_id(o.job),
        attempt=o.attempt,
        type=o.type,
        result=_NULL if o.result is None else Raw(o.result),
        failure=None
        if failure is None
        else HttpFailure(failure.reason, failure.type, failure.message, failure.traceback),
        retry=o.retry,
        retry_after_s=o.retry_after_s,
        until=None if o.until is None else from_micros(o.until),
        reason=o.reason,
        usage=o.usage,
        outputs=o.outputs,
        result_ttl_s=o.result_ttl_s,
    )


def read_pull_answer(answer: PullAnswer) -> PullReply:
    return PullReply(
        [
            Assignment(
                *(parse_id(a.job), a.attempt, a.tenant, a.queue, a.kind, bytes(a.arguments), a.options, a.failures),
                secrets={} if a.secrets is UNSET else a.secrets,
            )
            for a in answer.assignments
        ],
        [parse_id(job) for job in answer.cancel],
        answer.drain,
    )


def read_report_answer(answer: ReportAnswer) -> ReportReply:
    return ReportReply(
        [parse_id(job) for job in answer.rejected], [parse_id(job) for job in answer.cancel], answer.drain
    )
