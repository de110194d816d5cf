"""The steps of one attempt that are the same wherever it runs: prepare, call, conclude.

Used by the runner in the event loop, by the thread pool in its threads and by the child of the process pool; in each
the exception is concluded where it is still an object. Guarantees: `call` and the `conclude_*` functions never raise,
and answer one of the closed set of outcomes in `mainspring.wire`.
"""

import inspect
import time
from collections.abc import Callable

from msgspec.structs import replace

from mainspring.core.lifecycle import Reason
from mainspring.core.timer import Micros
from mainspring.errors import InvalidError
from mainspring.execute.context import Context
from mainspring.execute.failure import failure
from mainspring.execute.masking import mask_for
from mainspring.execute.registry import Kind
from mainspring.execute.results import encode_result
from mainspring.execute.signals import Cancel, Retry, Snooze
from mainspring.execute.types import KilledError
from mainspring.wire import Assignment, Failure, Outcome, OutcomeType, Usage

Now = Callable[[], Micros]
Prepared = tuple[tuple[object, ...], dict[str, object], Context | None]

_COMPLETED = OutcomeType.COMPLETED


def wall_clock() -> Micros:
    return time.time_ns() // 1000


def prepare(assignment: Assignment, kind: Kind, make_context: Callable[[], Context]) -> Prepared:
    """The call to make; InvalidError if the stored arguments no longer fit the function."""
    args, kwargs = kind.decode(assignment.arguments)
    if kind.context_name is None:
        return args, kwargs, None
    context = kwargs[kind.context_name] = make_context()
    return args, kwargs, context


def call(assignment: Assignment, kind: Kind, function: Callable[[], object], now: Now) -> Outcome:
    """The call itself, and its conclusion; `function` is not async and has its arguments bound."""
    try:
        value = function()
    except BaseException as error:  # also SystemExit: a job that exits has failed, its worker has not
        return conclude_error(assignment, kind, error, now)
    return conclude_value(assignment, value)


def conclude_value(assignment: Assignment, value: object, usage: Usage | None = None) -> Outcome:
    job, attempt = assignment.job, assignment.attempt
    if value is None:
        return Outcome(job, attempt, _COMPLETED, usage=usage)
    try:
        return Outcome(job, attempt, _COMPLETED, encode_result(value), usage=usage)
    except InvalidError as error:
        if inspect.iscoroutine(value):
            value.close()  # or Python would warn, far from here, that nobody awaited it
        return replace(refused(assignment, Reason.RESULT, error), usage=usage)


def conclude_error(assignment: Assignment, kind: Kind, error: BaseException, now: Now) -> Outcome:
    job, attempt = assignment.job, assignment.attempt
    mask = mask_for(assignment.secrets)
    match error:
        case Snooze():
            return Outcome(job, attempt, OutcomeType.SNOOZED, until=error.until(now()))
        case Cancel():
            why = failure(Reason.RAISED, error, mask)
            return Outcome(job, attempt, OutcomeType.CANCELLED, failure=why, reason=Reason.RAISED)
        case Retry():
            return failed(assignment, failure(Reason.ERROR, error, mask), retry_after_s=error.after_s)
    reason = Reason.KILLED if isinstance(error, KilledError) else Reason.ERROR
    return failed(assignment, failure(reason, error, mask), retry=kind.may_retry(error))


def refused(assignment: Assignment, reason: Reason, error: Exception) -> Outcome:
    """Nothing that time would heal: trying the same again is of no use, a replay after a deploy is."""
    text = Failure(reason, type(error).__name__, failure(reason, error, mask_for(assignment.secrets)).message)
    return failed(assignment, text, retry=False)


def failed(assignment: Assignment, why: Failure, *, retry: bool = True, retry_after_s: float | None = None) -> Outcome:
    job, attempt = assignment.job, assignment.attempt
    return Outcome(job, attempt, OutcomeType.FAILED, failure=why, retry=retry, retry_after_s=retry_after_s)
