"""The named steps at which a process can end, found in the code itself: a new verb of the store is covered by itself.

Production code has no hooks for this. A child process replaces the seam of one step by one that ends the process there.
"""

import inspect
import os
from collections.abc import Callable
from typing import Any

from mainspring.execute import runner
from mainspring.execute.session import Session
from mainspring.store.contract import Store
from mainspring.store.sqlite import SqliteStore, database
from mainspring.store.sqlite.writer import Writer

CRASHED = 86  # exit code: the step was reached

#: Of every verb that writes: before its transaction, after its statements, after the commit and before the answer.
STORE_POINTS = ("before", "written", "committed")
JOB_POINTS = ("before its function", "after its function", "before the report", "after the report")
OPEN_POINTS = ("before migrating", "migrated, not committed", "after migrating")


def writing_verbs() -> list[str]:
    """Every verb of the contract that goes through the writer."""
    verbs = [name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")]
    return [name for name in verbs if name != "close" and _writes(getattr(SqliteStore, name))]


def _writes(verb: Callable[..., Any]) -> bool:
    return bool({"_write", "_writer"} & set(verb.__code__.co_names))


def end_at(step: str, point: str, nth: int = 1) -> None:
    """From now on, end this process when it reaches a point for the nth time."""
    crash = _Countdown(nth)
    if step == "job":
        _end_at_job(point, crash)
    elif step == "open":
        _end_at_open(point, crash)
    else:
        _end_at_verb(step, point, crash)


class _Countdown:
    def __init__(self, nth: int) -> None:
        self._left = nth

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            os._exit(CRASHED)


def _end_at_verb(verb: str, point: str, crash: _Countdown) -> None:
    real_commit, real_apply = Writer._commit, Writer._apply

    def name_of(operation: Any) -> str:
        return str(operation.args[0].__name__)

    def commit(self: Writer, group: list[tuple[Any, Any]]) -> Any:
        concerned = any(name_of(operation) == verb for operation, _ in group)
        if concerned and point == "before":
            crash()
        answers = real_commit(self, group)
        if concerned and point == "committed":
            crash()
        return answers

    def apply(self: Writer, tx: Any, operation: Any) -> Any:
        answer = real_apply(self, tx, operation)
        if point == "written" and name_of(operation) == verb:
            crash()
        return answer

    Writer._commit, Writer._apply = commit, apply  # type: ignore[method-assign]


def _end_at_job(point: str, crash: _Countdown) -> None:
    """Around the function of a job: in the event loop, in a thread, and where its outcome is reported."""
    if point == "before its function":
        _around(runner, "prepare", crash, before=False)
    elif point == "after its function":
        _around(runner, "conclude_value", crash, before=True)
        _around(runner, "call", crash, before=False)
    else:
        real = Session._report

        async def report(self: Session) -> None:
            outcomes = bool(self._runner.outcomes)
            if outcomes and point == "before the report":
                crash()
            await real(self)
            if outcomes and point == "after the report":
                crash()

        Session._report = report  # type: ignore[method-assign]


def _end_at_open(point: str, crash: _Countdown) -> None:
    match point:
        case "before migrating":
            _around(database, "_apply_missing", crash, before=True)
        case "migrated, not committed":
            _around(database, "_apply_missing", crash, before=False)
        case _:
            _around(SqliteStore, "__init__", crash, before=True)


def _around(place: Any, name: str, crash: _Countdown, *, before: bool) -> None:
    real = getattr(place, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before:
            crash()
        answer = real(*args, **kwargs)
        if not before:
            crash()
        return answer

    setattr(place, name, wrapped)
