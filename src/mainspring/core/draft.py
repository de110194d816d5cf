"""From a wish to a row: a `Draft` becomes a `Template` and its `Lane`. Pure; `now` is an argument.

This is where a job is analysed and placed: its band from priority and complexity, its lane from what it needs, its times from
what the user said and the store's clock.
"""

import hashlib
from typing import TypeVar

from msgspec import UNSET, Struct, UnsetType, json

from mainspring.core.job import (
    DEFAULT_COMPLEXITY,
    DEFAULT_PRIORITY,
    DEFAULT_RETRIES,
    Claim,
    Options,
    Resources,
    Template,
)
from mainspring.core.lane import Lane, rounded
from mainspring.core.options import JobOptions, queue_of, tenant_of
from mainspring.core.partition import slot_for
from mainspring.core.rank import band_of
from mainspring.core.retry import Backoff
from mainspring.core.timer import Micros, seconds
from mainspring.errors import InvalidError

T = TypeVar("T")

_YEAR_9999: Micros = 253_402_300_799 * 1_000_000


class Draft(Struct, frozen=True, gc=False):
    """A job that has not been submitted: its arguments are encoded and checked, its options are merged."""

    kind: str
    arguments: bytes
    options: JobOptions


class Placed(Struct, frozen=True):
    """A draft's fixed part. `slot` None: a random one for each job."""

    template: Template
    lane: Lane
    slot: int | None


def place(
    kind: str, options: JobOptions, now: Micros, *, schedule: str | None = None, occurrence_at: Micros | None = None
) -> Placed:
    """The template and lane of jobs of this kind with these options, submitted now."""
    priority = _said(options.priority, DEFAULT_PRIORITY)
    fixed = _options(options, now, schedule, occurrence_at)
    due_at = None if options.due is UNSET else checked_time("at", options.due.resolve(now))
    lane = Lane(tenant_of(options), queue_of(options), kind, rounded(fixed.resources), fixed.labels, fixed.limit_key)
    band = band_of(priority, fixed.complexity)
    template = Template(lane.tenant, lane.queue, kind, priority, int(band), lane.number(), due_at, fixed)
    return Placed(template, lane, _slot(lane.tenant, fixed.key, schedule))


def claim_of(draft: Draft, now: Micros) -> Claim | None:
    """What keeps a second job with the same key, or the same arguments for a while, from being made."""
    options = draft.options
    if options.key is not UNSET:
        return Claim(options.key, _digest(draft))
    if options.unique_s is not UNSET:
        digest = _digest(draft)
        return Claim(f"unique:{digest.hex()}", digest, now + seconds(options.unique_s))
    if options.cache_s is not UNSET:
        digest = _digest(draft)
        return Claim(f"cache:{digest.hex()}", digest, now + seconds(options.cache_s), reuse=True)
    return None


def trigger_claim(schedule: str, key: str) -> Claim:
    """What keeps a second trigger of a schedule with the same key from making a second job. A name of that schedule alone, and in
    its slot: no schedule's id, no key and so no other claim has a line break. What the schedule made then may differ from what it
    would make now; it is the same wish."""
    return Claim(f"{schedule}\n{key}", b"")


def _options(options: JobOptions, now: Micros, schedule: str | None, occurrence_at: Micros | None) -> Options:
    return Options(
        client=_said(options.client, None),
        complexity=_said(options.complexity, DEFAULT_COMPLEXITY),
        retries=_said(options.retries, DEFAULT_RETRIES),
        backoff=_said(options.backoff, Backoff()),
        timeout_s=_said(options.timeout_s, None),
        deadline_at=None if options.deadline is UNSET else checked_time("deadline", options.deadline.resolve(now)),
        start_by=None if options.start_by is UNSET else checked_time("start_by", options.start_by.resolve(now)),
        resources=_said(options.resources, Resources()),
        labels=_said(options.labels, frozenset()),
        tags=_said(options.tags, ()),
        key=_said(options.key, None),
        limit_key=_said(options.limit_key, None),
        result_ttl_s=_said(options.result_ttl_s, None),
        secrets=_said(options.secrets, {}),
        schedule=schedule,
        occurrence_at=occurrence_at,
    )


def _said(value: T | UnsetType, default: T) -> T:
    return default if isinstance(value, UnsetType) else value


def checked_time(field: str, at: Micros) -> Micros:
    """A time that every store and every reader can have."""
    if not 0 <= at <= _YEAR_9999:
        raise InvalidError(field, "is outside the years 1970 to 9999")
    return at


def _slot(tenant: str, key: str | None, schedule: str | None) -> int | None:
    if schedule is not None:
        return slot_for("schedule", schedule)
    return None if key is None else slot_for("key", tenant, key)


def _digest(draft: Draft) -> bytes:
    """Of what a job does: its kind, its arguments, and the secrets it does it with."""
    wish = draft.kind.encode() + b"\0" + draft.arguments
    if secrets := _said(draft.options.secrets, {}):
        wish += b"\0" + json.encode(secrets, order="sorted")
    return hashlib.blake2b(wish, digest_size=16).digest()
