"""Settings of a process, each from an argument, else its environment variable, else its default.

store            MAINSPRING_STORE           sqlite:///mainspring.db
slots            MAINSPRING_SLOTS           100     jobs that one worker runs at once
grace            MAINSPRING_GRACE           30s     for running jobs when the process is asked to stop
retention        MAINSPRING_RETENTION       7d      how long completed and cancelled jobs are kept
failed_retention MAINSPRING_FAILED_RETENTION 30d    how long failed ones are
"""

import os
from collections.abc import Mapping

from msgspec import Struct

from mainspring.core.duration import parse_duration
from mainspring.core.options import Duration
from mainspring.errors import InvalidError

DEFAULT_STORE = "sqlite:///mainspring.db"
DEFAULT_SLOTS = 100
MAX_SLOTS = 100_000


class RunSettings(Struct, frozen=True):
    """What `app.run` works with."""

    slots: int
    grace_s: float
    keep_s: float
    keep_failed_s: float


def store_url(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    url = given if given is not None else environ.get("MAINSPRING_STORE", DEFAULT_STORE)
    if not isinstance(url, str) or not url.startswith("sqlite:///"):
        raise InvalidError("store", f"{url!r} is not a store; use sqlite:///FILE, for example {DEFAULT_STORE}")
    return url


def run_settings(
    *,
    slots: int | None = None,
    grace: Duration | None = None,
    retention: Duration | None = None,
    failed_retention: Duration | None = None,
    environ: Mapping[str, str] = os.environ,
) -> RunSettings:
    return RunSettings(
        slots=_slots(slots if slots is not None else environ.get("MAINSPRING_SLOTS", DEFAULT_SLOTS)),
        grace_s=_duration("grace", grace, environ, "30s"),
        keep_s=_duration("retention", retention, environ, "7d"),
        keep_failed_s=_duration("failed_retention", failed_retention, environ, "30d"),
    )


def _duration(field: str, given: Duration | None, environ: Mapping[str, str], default: str) -> float:
    value = given if given is not None else environ.get(f"MAINSPRING_{field.upper()}", default)
    return parse_duration(field, value)


def _slots(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if type(number) is not int or not 1 <= number <= MAX_SLOTS:
        raise InvalidError("slots", f"expected a whole number from 1 to {MAX_SLOTS}, got {value!r}")
    return number
