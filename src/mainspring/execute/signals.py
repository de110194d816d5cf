"""What a job raises on purpose: `Retry`, `Snooze`, `Cancel`.

Raised by users' functions, read by `execute.steps`. They say how the attempt ends; they are not errors of Mainspring,
so catching `MainspringError` never catches one.

They are plain `Exception`s, so `except Exception` does catch them. That is the safer of two evils: code which rolls
back a transaction or removes a file `except Exception` must run when a job leaves through `Retry`, and as a
`BaseException` the signal would slip past it and leave the half-done work behind, unseen. A handler that catches
everything and raises nothing also ends the signal: put `except Signal: raise` above it.
"""

from datetime import datetime, timedelta

from mainspring.core.duration import parse_duration
from mainspring.core.timer import Micros, seconds, to_micros


class Signal(Exception):  # noqa: N818  (a signal is not an error)
    """The common parent of `Retry`, `Snooze` and `Cancel`."""


class Retry(Signal):
    """Try again, after `after` or the job's backoff. Counts as a failure; `raise Retry() from error` keeps why."""

    def __init__(
        self, after: str | float | timedelta | None = None, reason: str = "the job asked to be tried again"
    ) -> None:
        super().__init__(reason)
        self.after_s = None if after is None else parse_duration("after", after)


class Snooze(Signal):
    """Run later: at an aware datetime, or after a duration. Counts as nothing, so a job may snooze for ever."""

    def __init__(self, until: datetime | str | float | timedelta) -> None:
        super().__init__(f"snoozed until {until}")
        self._at: Micros | None = to_micros("until", until) if isinstance(until, datetime) else None
        self._after_s = 0.0 if isinstance(until, datetime) else parse_duration("until", until)

    def until(self, now: Micros) -> Micros:
        """The time asked for; a duration counts from `now`."""
        return now + seconds(self._after_s) if self._at is None else self._at


class Cancel(Signal):
    """End this job as cancelled, for good. `reason` is kept for people to read."""

    def __init__(self, reason: str = "the job cancelled itself") -> None:
        super().__init__(reason)
