"""What every store decides about one job, written once: pure, no SQL, no clock.

A store reads a job as a `Row`, asks here what becomes of it, and writes that.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, json

from mainspring.core.job import JobRecord, Options
from mainspring.core.lifecycle import MAX_LOSSES, Reason, State
from mainspring.core.rank import band_of, rank_of
from mainspring.core.timer import HOUR, Micros, seconds
from mainspring.store.contract import UNCHANGED, Change, Settlement
from mainspring.store.service import KeyRecord, Quota, SecretRecord, TenantRecord

CLAIM_LIFE: Micros = 24 * HOUR  # a job with a claim stays for so long, whatever retention says

NO_RESULT = b"null"  # the data of a result row that is there for its outputs

REPLAYABLE = frozenset({State.FAILED, State.CANCELLED})

decode_options = json.Decoder(Options).decode
_decode_quota = json.Decoder(Quota).decode


class Row(Struct):
    """What a change of one job is decided by, in the order of the query `read_row`."""

    id: bytes
    state: str
    attempt: int
    failures: int
    losses: int
    cancelling: int
    priority: int
    band: int
    lane: int
    rank: Micros
    due_at: Micros
    tenant: str
    created_at: Micros
    finished_at: Micros | None
    usage: bytes | None
    options: Options


def row_of(columns: Sequence[Any]) -> Row:
    """The last column is the job's options as JSON."""
    return Row(*columns[:-1], options=decode_options(columns[-1]))  # type: ignore[misc]


def record_of(columns: Sequence[Any]) -> JobRecord:
    """The columns in the order of the record's fields, options as JSON."""
    *plain, options = columns
    fields = dict(zip(JobRecord.__struct_fields__[:-1], plain, strict=True))
    fields["cancelling"] = bool(fields["cancelling"])
    return JobRecord(**fields, options=decode_options(options))


def tenant_of(columns: Sequence[Any]) -> TenantRecord:
    """The columns in the order of the record's fields, quota as JSON."""
    name, quota, created_at, erased_at, sealed = columns
    return TenantRecord(name, _decode_quota(quota), created_at, erased_at, bool(sealed))


def key_of(columns: Sequence[Any]) -> KeyRecord:
    """The columns in the order of the record's fields."""
    return KeyRecord(**dict(zip(KeyRecord.__struct_fields__, columns, strict=True)))


def secret_of(columns: Sequence[Any]) -> SecretRecord:
    """The columns in the order of the record's fields."""
    return SecretRecord(**dict(zip(SecretRecord.__struct_fields__, columns, strict=True)))


def rank_for(due_at: Micros, priority: int, options: Options) -> Micros:
    expected = seconds(options.timeout_s) if options.timeout_s else 0
    return rank_of(due_at, priority, options.deadline_at, expected)


def band_for(priority: int, options: Options) -> int:
    return int(band_of(priority, options.complexity))


def count_settled(row: Row, settlement: Settlement) -> None:
    """The counter that this end of an attempt raises, and what the attempt used."""
    row.usage = settlement.usage
    row.failures += settlement.counts == "failure"
    row.losses += settlement.counts == "loss"


def ending_of(row: Row, settlement: Settlement, asked: str | None) -> tuple[str, str | None] | None:
    """The state and reason this job ends with; None where it is tried again. `asked`: why somebody wanted it to stop, if so."""
    wanted = asked or Reason.REQUESTED
    if settlement.state == State.CANCELLED and settlement.reason == Reason.REQUESTED:
        return State.CANCELLED, wanted
    if settlement.state != State.PENDING:
        return settlement.state, settlement.reason
    if row.cancelling:
        return State.CANCELLED, wanted
    if settlement.counts == "loss" and row.losses >= MAX_LOSSES:
        return State.FAILED, Reason.LOST
    return None


def wait_from(row: Row, due_at: Micros) -> None:
    """Its place in the order from then on."""
    row.due_at = due_at
    row.rank = rank_for(due_at, row.priority, row.options)


def reusable(state: str, finished_at: Micros | None, options: bytes, now: Micros) -> bool:
    """May this job be the answer to a submit that would reuse it? Not one that failed or was cancelled, nor one whose result is
    gone."""
    if state in REPLAYABLE:
        return False
    ttl_s = decode_options(options).result_ttl_s
    return ttl_s is None or finished_at is None or finished_at + seconds(ttl_s) > now


def refused_change(row: Row, change: Change) -> str | None:
    """The answer where the change is not made; None where it is."""
    able = row.state in REPLAYABLE if change.replay else row.state == State.PENDING
    if able and change.attempt in (None, row.attempt):
        return None
    return UNCHANGED if row.state == State.PENDING else row.state


def change_row(row: Row, change: Change, now: Micros) -> None:
    """The row as it shall be; whoever needs its old place has looked before."""
    if change.replay:
        row.failures = row.losses = 0
    if change.options is not None:
        row.options = decode_options(change.options)
    if change.priority is not None:
        row.priority = change.priority
    if change.band is not None:
        row.band = change.band
    elif change.priority is not None or change.options is not None:
        row.band = band_for(row.priority, row.options)
    if change.lane is not None:
        row.lane = change.lane.number()
    unsaid = now if change.replay else row.due_at
    wait_from(row, unsaid if change.due_at is None else change.due_at)
