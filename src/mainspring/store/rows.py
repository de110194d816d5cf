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
from mainspring.store.contract import Settlement

CLAIM_LIFE: Micros = 24 * HOUR  # a job with a claim stays for so long, whatever retention says

decode_options = json.Decoder(Options).decode


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


def rank_for(due_at: Micros, priority: int, options: Options) -> Micros:
    expected = seconds(options.timeout_s) if options.timeout_s else 0
    return rank_of(due_at, priority, options.deadline_at, expected)


def band_for(priority: int, options: Options) -> int:
    return int(band_of(priority, options.complexity))


def count_settled(row: Row, settlement: Settlement) -> None:
    """The counter that this end of an attempt raises."""
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
