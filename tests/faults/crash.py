"""The named steps at which a process can end, found in the code itself: a new verb of the store is covered by itself.

Production code has no hooks for this. A child process replaces the seam of one step by one that ends the process there; each
store has its own (`crash_sqlite`, `crash_postgres`).
"""

import inspect

from faults import crash_postgres, crash_sqlite
from faults.countdown import CRASHED, Countdown, around
from mainspring.execute import runner
from mainspring.execute.session import Session
from mainspring.store.contract import Store

__all__ = ["CRASHED", "JOB_POINTS", "OPEN_POINTS", "STORE_POINTS", "end_at", "writing_verbs"]

#: Of every verb that writes: before its transaction, after its statements and before the commit, after the commit and
#: before the answer.
STORE_POINTS = ("before", "written", "committed")
JOB_POINTS = ("before its function", "after its function", "before the report", "after the report")
OPEN_POINTS = ("before migrating", "migrated, not committed", "after migrating")


def writing_verbs(store: str) -> list[str]:
    """Every verb of the contract that a store runs in a transaction of its own."""
    writes = {"sqlite": crash_sqlite.writes, "postgres": crash_postgres.writes}[store]
    verbs = [name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")]
    return [name for name in verbs if name != "close" and writes(name)]


def end_at(step: str, point: str, nth: int = 1) -> None:
    """From now on, end this process when it reaches a point for the nth time, whichever store it works on."""
    crash = Countdown(nth)
    if step == "job":
        _end_at_job(point, crash)
        return
    for seams in (crash_sqlite, crash_postgres):
        if step == "open":
            seams.end_at_open(point, crash)
        else:
            seams.end_at_verb(step, point, crash)


def _end_at_job(point: str, crash: Countdown) -> None:
    """Around the function of a job: in the event loop, in a thread, and where its outcome is reported."""
    if point == "before its function":
        around(runner, "prepare", crash, before=False)
    elif point == "after its function":
        around(runner, "conclude_value", crash, before=True)
        around(runner, "call", crash, before=False)
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
