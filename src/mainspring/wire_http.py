"""The messages of `wire` as JSON, for workers on the other side of HTTP: the worker protocol, version 1.

Ids are UUIDs as text, arguments and results are JSON values inside the message, times are ISO 8601. A server ignores fields that it
does not know, and so must a worker: that is how the protocol grows without a new version. Both sides use the same structs; what a
worker sends is checked here, because it may not be one of ours. One outcome with a result that cannot be stored ends its job as
failed, and leaves the rest of the report alone.
"""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field
from msgspec.structs import asdict, replace

from mainspring.core.job import MAX_RESULT_BYTES, Options, Resources
from mainspring.core.lifecycle import Reason
from mainspring.core.objects import MAX_OUTPUTS, RESULT, check_checksum, check_media, output
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
    {Reason.ERROR, Reason.TIMEOUT, Reason.ARGUMENTS, Reason.UNKNOWN_KIND, Reason.RESULT, Reason.KILLED, Reason.SECRETS}
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
    """Why an attempt failed; `reason` is one of error, timeout, arguments, unknown_kind, result, killed, secrets."""

    reason: str = Reason.ERROR
    type: str = "Error"
    message: str = ""
    traceback: str = ""


class HttpOutcome(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """How an attempt ended: completed, failed, snoozed (until), cancelled, or returned unfinished. `outputs`: files that a
    completed one has put."""

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
    outputs: list[Stored] = []


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
    outcome = _outcome(given)
    return outcome if given.usage is None else replace(outcome, usage=_checked_usage(given.usage))


def _outcome(given: HttpOutcome) -> Outcome:
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
    try:
        outputs = _checked_outputs(given.outputs)
        data = _checked_result(bytes(given.result))
    except InvalidError as error:
        why = Failure(Reason.RESULT, "InvalidError", str(error))
        return Outcome(job, given.attempt, OutcomeType.FAILED, None, why, retry=False)
    return Outcome(job, given.attempt, given.type, data, outputs=outputs)


def _checked_result(data: bytes) -> bytes | None:
    if len(data) > MAX_RESULT_BYTES:
        raise InvalidError(
            "result",
            f"has {len(data):,} bytes; at most {MAX_RESULT_BYTES:,} are taken here: put it as the output `result`",
        )
    try:
        _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InvalidError("result", "is no JSON that can be read again") from None
    return None if data == b"null" else data


def _checked_outputs(given: list[Stored]) -> tuple[Stored, ...]:
    files = sum(each.name != RESULT for each in given)
    if files > MAX_OUTPUTS:
        raise InvalidError("outputs", f"has {files:,} files; {MAX_OUTPUTS:,} are allowed")
    for each in given:
        output(1, each.name)  # where it is, if it has such a name
        check_checksum(each.sha256)
        check_media(each.media)
        if not 0 <= each.size < 2**53:
            raise InvalidError("size", f"{each.size} is no size of an object")
    if len({each.name for each in given}) < len(given):
        raise InvalidError("outputs", "names one twice")
    return tuple(given)


def _checked_usage(given: Usage) -> Usage:
    for field_, value in asdict(given).items():
        if value is not None and not 0 <= value < 2**53:
            raise InvalidError(f"outcomes.usage.{field_}", f"expected a number from 0, got {value!r}")
    return given


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
        outputs=list(o.outputs),
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
