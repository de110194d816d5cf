"""Every error a user of Mainspring can meet.

    MainspringError
    ├── InvalidError (ValueError)       what you gave is wrong; `.field` names the part, the message says what to do
    │   └── CronError                   a cron expression; `.field` is the cron field
    ├── NotFoundError (LookupError)     no such job, schedule, queue or kind
    ├── ConflictError                   the key belongs to another job, or the state does not allow the action
    ├── StoreError                      the store cannot be used as asked
    │   ├── StoreVersionError           the store needs a newer Mainspring, or its migrations were altered
    │   ├── StoreUnavailableError       full, read-only or unreachable for now: nothing was written, try again
    │   └── StoreUncertainError         the database went away during a commit and has not come back: written or not
    ├── SecretsError                    secrets cannot be used here: no keys, not the right ones, or a value that was altered
    ├── JobError                        a job did not end with a result
    │   ├── JobFailedError              it failed for good; `.reason` and `.traceback` tell why
    │   └── JobCancelledError           it was cancelled or expired
    ├── SessionEndedError               a worker's session is over; the worker registers anew by itself
    ├── UnknownKeyError                 a server does not know the key, or it was revoked or has expired
    ├── ForbiddenError                  the key is good, but its role or tenant does not allow this
    ├── LimitedError                    too much at once: a rate or a quota; `.retry_after_s` says when to try again
    ├── ServerError                     a server cannot be reached, or answered something that is no answer; `.uncertain` says
    │                                   whether it may have carried out what was asked
    └── NotRunningError                 the app is not open: use `async with app`

Signals that a job raises on purpose (`Retry`, `Snooze`, `Cancel`) are not errors; they live in `mainspring.execute.signals`.
"""


class MainspringError(Exception):
    """The root: catching it catches everything Mainspring raises on purpose."""


class InvalidError(MainspringError, ValueError):
    """A value was refused before anything was written."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class CronError(InvalidError):
    """A cron expression that cannot be read; `field` is one of second, minute, hour, day, month, weekday or expression."""


class NotFoundError(MainspringError, LookupError):
    """Nothing by that name or id exists (or it belongs to another tenant)."""


class ConflictError(MainspringError):
    """The request contradicts what is stored."""


class StoreError(MainspringError):
    """The store cannot be used as asked."""


class StoreVersionError(StoreError):
    """The schema is not one this version can work with."""


class StoreUnavailableError(StoreError):
    """Nothing was written; the same call may succeed later."""


class StoreUncertainError(StoreError):
    """Whether it was written is not known; look, or try again with a `key`, which makes that safe."""


class SecretsError(MainspringError):
    """What is sealed cannot be opened here, or nothing can be sealed. Never says what is in it."""


class JobError(MainspringError):
    """A job ended without a result."""

    def __init__(self, message: str, *, reason: str | None = None, traceback: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.traceback = traceback


class JobFailedError(JobError):
    """The job failed for good."""


class JobCancelledError(JobError):
    """The job was cancelled before it produced a result."""


class SessionEndedError(MainspringError):
    """The node does not know this session any more."""


class UnknownKeyError(MainspringError):
    """Who asks is not known."""


class ForbiddenError(MainspringError):
    """Who asks is known, and may not."""


class LimitedError(MainspringError):
    """Nothing was written; the same call may succeed later. `field` names the limit."""

    def __init__(self, field: str, problem: str, retry_after_s: float) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem
        self.retry_after_s = retry_after_s


class ServerError(MainspringError):
    """Where `uncertain`, nobody knows whether the request was carried out; else it certainly was not."""

    def __init__(self, message: str, *, uncertain: bool = True) -> None:
        super().__init__(message)
        self.uncertain = uncertain


class NotRunningError(MainspringError, RuntimeError):
    """The app is not open."""
