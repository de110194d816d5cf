"""One attempt while a worker holds it: `Attempt`, and why one is stopped: `Stop`.

Made by the runner, shown to pools; touched by the event loop's thread only.
"""

import asyncio
from collections.abc import Callable
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from mainspring.core.lifecycle import Reason
from mainspring.execute.context import Context
from mainspring.execute.metering import cpu_usage
from mainspring.execute.registry import Kind
from mainspring.execute.services import Services
from mainspring.execute.steps import failed
from mainspring.execute.usage import together
from mainspring.wire import Assignment, Failure, Outcome, OutcomeType, Usage


class Stop(Enum):
    """Why a running attempt is made to end."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"  # somebody asked for it
    RETURN = "return"  # the worker stops, and the grace is over
    ABANDON = "abandon"  # the session is over: nobody wants the outcome


class Attempt(Struct, eq=False):
    """What the runner knows of one attempt."""

    assignment: Assignment
    kind: Kind | None
    started_at: float  # by the loop's clock; jobs of one batch share it
    task: asyncio.Task[None] | None = None
    context: Context | None = None
    services: Services | None = None  # of a function that takes a context, also in another process
    begun: bool = False  # its function may have been entered
    cpu_ns: int = 0  # of the steps of an async function
    told: bool = False  # it has said how far it is
    settled: bool = False  # its outcome is decided (or dropped); the function may still run
    stop: Stop | None = None
    concluded: Outcome | None = None  # its function has ended, and what it leaves is being put away
    outcome: Outcome | None = None  # set when settled before the end
    timer: asyncio.TimerHandle | None = None
    halt: Callable[[], bool] | None = None  # set by its pool: ask it to end; was there a way to ask?


def stopped(attempt: Attempt, ended: Outcome | None) -> Outcome:
    """The outcome of an attempt that was made to stop; `ended` is what its function made of that, if it has."""
    usage = _used_so_far(attempt) if ended is None else ended.usage
    return replace(_stopped(attempt, ended), usage=usage)


def _used_so_far(attempt: Attempt) -> Usage | None:
    return together(cpu_usage(attempt.cpu_ns), attempt.services.usage if attempt.services is not None else None)


def _stopped(attempt: Attempt, ended: Outcome | None) -> Outcome:
    assignment = attempt.assignment
    job, number = assignment.job, assignment.attempt
    match attempt.stop:
        case Stop.TIMEOUT:
            return _timed_out(attempt, ended)
        case Stop.CANCEL:
            return Outcome(job, number, OutcomeType.CANCELLED, reason=Reason.REQUESTED)
    return Outcome(job, number, OutcomeType.RETURNED)


def _timed_out(attempt: Attempt, ended: Outcome | None) -> Outcome:
    text = f"ran for longer than its timeout of {attempt.assignment.options.timeout_s:g} s"
    # Where it stood when it was stopped is what a person wants to know about a timeout.
    where = ended.failure.traceback if ended is not None and ended.failure is not None else ""
    retry = attempt.kind is None or attempt.kind.may_retry(TimeoutError(text))
    return failed(attempt.assignment, Failure(Reason.TIMEOUT, "TimeoutError", text, where), retry=retry)
