"""Mainspring: durable jobs, timers and cron for Python applications.

Start with `App`; the guides are in docs/. Names are loaded when they are first used, so that a process that only executes
jobs (or only reads cron rules) does not load a database driver.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mainspring.core.version import VERSION

if TYPE_CHECKING:
    from mainspring.app import App, Job, JobStatus, Transaction
    from mainspring.core.cron import Cron
    from mainspring.core.job import Resources
    from mainspring.core.lifecycle import State
    from mainspring.core.retry import Backoff
    from mainspring.errors import (
        ConflictError,
        CronError,
        InvalidError,
        JobCancelledError,
        JobFailedError,
        MainspringError,
        NotFoundError,
        StoreError,
        StoreUnavailableError,
        StoreUncertainError,
    )
    from mainspring.execute.context import Context
    from mainspring.execute.records import JobLogHandler
    from mainspring.execute.sandbox.limits import Limits
    from mainspring.execute.signals import Cancel, Retry, Snooze

__version__ = VERSION

__all__ = [
    "App",
    "Backoff",
    "Cancel",
    "ConflictError",
    "Context",
    "Cron",
    "CronError",
    "InvalidError",
    "Job",
    "JobCancelledError",
    "JobFailedError",
    "JobLogHandler",
    "JobStatus",
    "Limits",
    "MainspringError",
    "NotFoundError",
    "Resources",
    "Retry",
    "Snooze",
    "State",
    "StoreError",
    "StoreUnavailableError",
    "StoreUncertainError",
    "Transaction",
]

_ROOMS = {
    "app": ("App", "Job", "JobStatus", "Transaction"),
    "core.cron": ("Cron",),
    "core.job": ("Resources",),
    "core.lifecycle": ("State",),
    "core.retry": ("Backoff",),
    "execute.context": ("Context",),
    "execute.records": ("JobLogHandler",),
    "execute.sandbox.limits": ("Limits",),
    "execute.signals": ("Cancel", "Retry", "Snooze"),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'mainspring' has no attribute {name!r}")
    value = getattr(import_module(f"mainspring.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
