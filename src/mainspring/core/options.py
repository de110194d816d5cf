"""What a user may say about a job, checked: `JobOptions` and the one function that makes it.

The same options come from `@app.job(...)`, from `.options(...)`, from a stored schedule and from the command line; whoever comes
later overrides, field by field. Each check names its field. Relative times stay relative until the job is submitted.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from msgspec import UNSET, Struct, UnsetType, structs

from mainspring.core.duration import parse_duration
from mainspring.core.job import DEFAULT_QUEUE, DEFAULT_TENANT, MAX_NAME, MAX_PRIORITY, MAX_TAGS, MIN_PRIORITY, Resources
from mainspring.core.retry import Backoff
from mainspring.core.secret import MAX_SECRETS, check_local_name
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
    cache_s: float | UnsetType = UNSET
    result_ttl_s: float | UnsetType = UNSET
    limit_key: str | UnsetType = UNSET
    secrets: dict[str, str] | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    labels: frozenset[str] | UnsetType = UNSET
    resources: Resources | UnsetType = UNSET


NO_OPTIONS = JobOptions()


class GivenOptions(TypedDict, total=False):
    """Options as a user gives them. None means: not said.

    queue, tenant, client: names. priority: 1-10, 10 first. complexity: 1-10, 10 the heaviest.
    retries: further tries after a failure. backoff: the first wait; it doubles. timeout: of one attempt, from its start.
    delay, at: when it may start, from now on or as a time. start_by: if it has not started by then, it is cancelled.
    deadline: when it should have ended: raises its urgency, and a miss is recorded.
    key: one job per tenant and key. unique: one job with the same arguments within this period. cache: the same, unless that job
    failed, was cancelled, or its result is gone. result_ttl: how long its result and files are kept, from its end on.
    limit_key: counts against the kind's limits apart from jobs with another key.
    secrets: names of the job's own, and the secrets of its tenant that they stand for: {"TOKEN": "api-token"}.
    tags: for people. labels: a worker must have all of them. cpu, memory_mb, gpu: what it needs of a worker.
    """

    queue: str | None
    tenant: str | None
    client: str | None
    priority: int | None
    complexity: int | None
    retries: int | None
    backoff: Duration | Backoff | None
    timeout: Duration | None
    delay: Duration | None
    at: datetime | None
    deadline: Duration | datetime | None
    start_by: Duration | datetime | None
    key: str | None
    unique: Duration | None
    cache: Duration | None
    result_ttl: Duration | None
    limit_key: str | None
    secrets: Mapping[str, str] | None
    tags: Iterable[str] | None
    labels: Iterable[str] | None
    cpu: float | None
    memory_mb: int | None
    gpu: int | None


def parse_options(**given: Unpack[GivenOptions]) -> JobOptions:
    """Check what a user said about a job; what is wrong is an `InvalidError` that names the option."""
    said: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in said:
        if name not in GivenOptions.__annotations__:
            raise InvalidError(name, f"is no option; there are {', '.join(GivenOptions.__annotations__)}")
    for one, other in (("delay", "at"), ("unique", "key"), ("cache", "key"), ("cache", "unique")):
        if one in said and other in said:
            raise InvalidError(one, f"cannot be used together with {other}; use one of them")
    checked: dict[str, Any] = {}
    for name, value in said.items():
        if name in _CHECKS:
            field, check = _CHECKS[name]
            checked[field] = check(name, value)
    if _RESOURCES & said.keys():
        checked["resources"] = _resources(said)
    return JobOptions(**checked)


def merged(base: JobOptions, over: JobOptions) -> JobOptions:
    """`over` where it says something, else `base`. Of key, unique and cache only one counts."""
    said = {name: value for name, value in structs.asdict(over).items() if value is not UNSET}
    if claims(over):
        said = dict.fromkeys(_CLAIMS, UNSET) | said
    return structs.replace(base, **said) if said else base


def claims(options: JobOptions) -> bool:
    """May a job that is there already be the answer to a submit?"""
    return not (options.key is UNSET and options.unique_s is UNSET and options.cache_s is UNSET)


def refuse_once(options: JobOptions, why: str, *, unique: bool = False) -> None:
    """Refuse what can be said of a single job only; `unique` lets a period of uniqueness, or of caching, pass."""
    for field, name in (("key", "key"), ("due", "delay/at"), ("unique_s", "unique"), ("cache_s", "cache")):
        if getattr(options, field) is not UNSET and not (unique and name in ("unique", "cache")):
            raise InvalidError(name, why)


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


def check_tenant(field: str, value: object) -> str:
    """A name that a tenant may have."""
    name = check_name(field, value)
    if "/" in name:
        raise InvalidError(field, f"{name!r} holds a '/', which parts a tenant from a name")
    if name == "*":
        raise InvalidError(field, "'*' means all tenants; name one")
    return name


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
        if field == "delay":
            raise InvalidError(field, "is how long to wait, such as '10m'; for a time use at")
        return Moment(at=to_micros(field, value))
    return Moment(after_s=parse_duration(field, value))


def _time(field: str, value: object) -> Moment:
    return Moment(at=to_micros(field, value))


def check_labels(value: object) -> frozenset[str]:
    """The labels of a worker, or those that a job asks for."""
    return _labels("labels", value)


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


def _secrets(field: str, value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidError(field, f"expected names like {{'TOKEN': 'api-token'}}, got {type(value).__name__}")
    if len(value) > MAX_SECRETS:
        raise InvalidError(field, f"has {len(value)} entries; at most {MAX_SECRETS} are allowed")
    return {check_local_name(field, own): check_name(f"{field}.{own}", name) for own, name in value.items()}


def _resources(said: dict[str, Any]) -> Resources:
    return Resources(
        cpu=_cores("cpu", said["cpu"]) if "cpu" in said else 0.0,
        memory_mb=whole_number("memory_mb", said["memory_mb"], 1, _MAX_MEMORY_MB) if "memory_mb" in said else 0,
        gpu=whole_number("gpu", said["gpu"], 0, 1024) if "gpu" in said else 0,
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


_CLAIMS = ("key", "unique_s", "cache_s")
_RESOURCES = {"cpu", "memory_mb", "gpu"}
_CHECKS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "queue": ("queue", check_name),
    "tenant": ("tenant", check_tenant),
    "client": ("client", check_name),
    "priority": ("priority", _scale),
    "complexity": ("complexity", _scale),
    "retries": ("retries", _retries),
    "backoff": ("backoff", _backoff),
    "timeout": ("timeout_s", _positive_duration),
    "delay": ("due", _moment),
    "at": ("due", _time),
    "deadline": ("deadline", _moment),
    "start_by": ("start_by", _moment),
    "key": ("key", check_name),
    "unique": ("unique_s", _positive_duration),
    "cache": ("cache_s", _positive_duration),
    "result_ttl": ("result_ttl_s", _positive_duration),
    "limit_key": ("limit_key", check_name),
    "secrets": ("secrets", _secrets),
    "tags": ("tags", _tags),
    "labels": ("labels", _labels),
}


def queue_of(options: JobOptions) -> str:
    return DEFAULT_QUEUE if options.queue is UNSET else options.queue


def tenant_of(options: JobOptions) -> str:
    return DEFAULT_TENANT if options.tenant is UNSET else options.tenant
