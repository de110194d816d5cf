"""Mainspring: durable jobs, timers and cron for Python applications.

Start with `App`; the guides are in docs/.
"""

from mainspring.app import App, Job, JobStatus
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
)
from mainspring.execute.context import Context
from mainspring.execute.signals import Cancel, Retry, Snooze

__version__ = "0.1.0"

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
    "JobStatus",
    "MainspringError",
    "NotFoundError",
    "Resources",
    "Retry",
    "Snooze",
    "State",
    "StoreError",
    "StoreUnavailableError",
]
