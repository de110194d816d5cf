"""What a user may say about a job, checked: `JobOptions` and the one function that makes it.

The same options come from `@app.job(...)`, from `.options(...)`, from a stored schedule and from the command line; whoever comes
later overrides, field by field. Each check names its field. Relative times stay relative until the job is submitted.
"""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import UNSET, Struct, UnsetType, structs

from mainspring.core.duration import parse_duration
from mainspring.core.job import DEFAULT_QUEUE, DEFAULT_TENANT, MAX_NAME, MAX_PRIORITY, MAX_TAGS, MIN_PRIORITY, Resources
from mainspring.core.retry import Backoff
from mainspring.core.timer import Micros, seconds, to_micros
from mainspring.errors import InvalidError

MAX_RETRIES = 1000
MAX_LABELS = 16
_MAX_MEMORY_MB = 1 << 40

Duration = str | float | timedelta


class Moment(Struct, frozen=True):
    """A time, or a time from the submit on."""

    at: Micros | None = None
    after_s: float | None = None

    def resolve(self, now: Micros) -> Micros:
        return self.at if self.at is not None else now + seconds(self.after_s or 0.0)


class JobOptions(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Checked options; UNSET where nothing was said. Make it with `parse_options`."""

    queue: str | UnsetType = UNSET
    tenant: str | UnsetType = UNSET
    client: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    complexity: int | UnsetType = UNSET
    retries: int | UnsetType = UNSET
    backoff: Backoff | UnsetType = UNSET
    timeout_s: float | UnsetType = UNSET
    due: Moment | UnsetType = UNSET
    deadline: Moment | UnsetType = UNSET
    start_by: Moment | UnsetType = UNSET
    key: str | UnsetType = UNSET
    unique_s: float | UnsetType = UNSET
    limit_key: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    labels: frozenset[str] | UnsetType = UNSET
    resources: Resources | UnsetType = UNSET


NO_OPTIONS = JobOptions()


def parse_options(
    *,
    queue: str | None = None,
    tenant: str | None = None,
    client: str | None = None,
    priority: int | None = None,
    complexity: int | None = None,
    retries: int | None = None,
    backoff: Duration | Backoff | None = None,
    timeout: Duration | None = None,
    delay: Duration | None = None,
    at: datetime | None = None,
    deadline: Duration | datetime | None = None,
    start_by: Duration | datetime | None = None,
    key: str | None = None,
    unique: Duration | None = None,
    limit_key: str | None = None,
    tags: Iterable[str] | None = None,
    labels: Iterable[str] | None = None,
    cpu: float | None = None,
    memory_mb: int | None = None,
    gpu: int | None = None,
) -> JobOptions:
    """Check what a user said about a job.

    queue, tenant, client: names. priority: 1-10, 10 first. complexity: 1-10, 10 the heaviest.
    retries: further tries after a failure. backoff: the first wait; it doubles. timeout: of one attempt, from its start.
    delay, at: when it may start, from now on or as a time. start_by: if it has not started by then, it is cancelled.
    deadline: when it should have ended: raises its urgency, and a miss is recorded.
    key: one job per tenant and key. unique: one job with the same arguments within this period.
    limit_key: counts against the kind's limits apart from jobs with another key.
    tags: for people. labels: a worker must have all of them. cpu, memory_mb, gpu: what it needs of a worker.
    """
    if delay is not None and at is not None:
        raise InvalidError("delay", "cannot be used together with at; use one of them")
    if key is not None and unique is not None:
        raise InvalidError("unique", "cannot be used together with key; use one of them")
    given = {
        "queue": _optional(check_name, "queue", queue),
        "tenant": _optional(check_name, "tenant", tenant),
        "client": _optional(check_name, "client", client),
        "priority": _optional(_scale, "priority", priority),
        "complexity": _optional(_scale, "complexity", complexity),
        "retries": _optional(_retries, "retries", retries),
        "backoff": _optional(_backoff, "backoff", backoff),
        "timeout_s": _optional(_positive_duration, "timeout", timeout),
        "due": _optional(_moment, "at" if at is not None else "delay", at if at is not None else delay),
        "deadline": _optional(_moment, "deadline", deadline),
        "start_by": _optional(_moment, "start_by", start_by),
        "key": _optional(check_name, "key", key),
        "unique_s": _optional(_positive_duration, "unique", unique),
        "limit_key": _optional(check_name, "limit_key", limit_key),
        "tags": _optional(_tags, "tags", tags),
        "labels": _optional(_labels, "labels", labels),
        "resources": _resources(cpu, memory_mb, gpu),
    }
    return JobOptions(**{name: value for name, value in given.items() if value is not UNSET})  # type: ignore[arg-type]


def merged(base: JobOptions, over: JobOptions) -> JobOptions:
    """`over` where it says something, else `base`."""
    said = {name: value for name, value in structs.asdict(over).items() if value is not UNSET}
    return structs.replace(base, **said) if said else base


def check_name(field: str, value: object) -> str:
    """A name that every store, log line and header can carry."""
    if not isinstance(value, str):
        raise InvalidError(field, f"expected a text, got {type(value).__name__}")
    if not 0 < len(value) <= MAX_NAME:
        raise InvalidError(field, f"has {len(value)} characters; 1 to {MAX_NAME} are allowed")
    if not value.isprintable():
        raise InvalidError(field, f"{value!a} holds characters that cannot be printed")
    return value


def whole_number(field: str, value: object, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InvalidError(field, f"expected a whole number from {least} to {most}, got {value!r}")
    return value


def _optional(check: object, field: str, value: object) -> object:
    return UNSET if value is None else check(field, value)  # type: ignore[operator]


def _scale(field: str, value: object) -> int:
    return whole_number(field, value, MIN_PRIORITY, MAX_PRIORITY)


def _retries(field: str, value: object) -> int:
    return whole_number(field, value, 0, MAX_RETRIES)


def _backoff(field: str, value: object) -> Backoff:
    return value if isinstance(value, Backoff) else Backoff(base_s=parse_duration(field, value))


def _positive_duration(field: str, value: object) -> float:
    duration_s = parse_duration(field, value)
    if duration_s <= 0:
        raise InvalidError(field, "must be longer than nothing")
    return duration_s


def _moment(field: str, value: object) -> Moment:
    if isinstance(value, datetime):
        return Moment(at=to_micros(field, value))
    return Moment(after_s=parse_duration(field, value))


def _tags(field: str, value: object) -> tuple[str, ...]:
    return _names(field, value, MAX_TAGS)


def _labels(field: str, value: object) -> frozenset[str]:
    return frozenset(_names(field, value, MAX_LABELS))


def _names(field: str, value: object, most: int) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidError(field, f"expected a list of texts, got {type(value).__name__}")
    names = tuple(check_name(f"{field}[{place}]", name) for place, name in enumerate(value))
    if len(names) > most:
        raise InvalidError(field, f"has {len(names)} entries; at most {most} are allowed")
    return names


def _resources(cpu: object, memory_mb: object, gpu: object) -> Resources | UnsetType:
    if cpu is None and memory_mb is None and gpu is None:
        return UNSET
    return Resources(
        cpu=0.0 if cpu is None else _cores("cpu", cpu),
        memory_mb=0 if memory_mb is None else whole_number("memory_mb", memory_mb, 1, _MAX_MEMORY_MB),
        gpu=0 if gpu is None else whole_number("gpu", gpu, 0, 1024),
    )


def _cores(field: str, value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 0 < value <= 4096
    ):
        raise InvalidError(field, f"expected a number of cores above 0, up to 4096, got {value!r}")
    return float(value)


def queue_of(options: JobOptions) -> str:
    return DEFAULT_QUEUE if options.queue is UNSET else options.queue


def tenant_of(options: JobOptions) -> str:
    return DEFAULT_TENANT if options.tenant is UNSET else options.tenant
