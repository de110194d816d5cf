"""Jobs as people see them: the table of `jobs list` and the page of `jobs show`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mainspring.cli.output import fields, pretty_json, table, text
from mainspring.core.job import JobRecord
from mainspring.core.lifecycle import State
from mainspring.core.partition import format_id
from mainspring.core.timer import SECOND, Micros
from mainspring.core.words import duration, listed, moment_and_relative, needs, relative
from mainspring.store.contract import AttemptFailure, Ended

if TYPE_CHECKING:
    from rich.console import RenderableType


def jobs_table(records: Sequence[JobRecord], now: Micros, last: str | None) -> "Iterable[RenderableType]":
    """`last` is where the next listing goes on, if there may be more."""
    if not records:
        yield "no jobs"
        return
    rows = [
        (format_id(r.id), r.kind, r.queue, r.state, r.priority, r.attempt, relative(r.created_at, now), note(r, now))
        for r in records
    ]
    columns = ("id", "kind", "queue", "state", "priority", "attempt", "submitted", "note")
    yield table(columns, rows, right=("priority", "attempt"))
    if last is not None:
        yield text(f"older ones: --before {last}", style="dim")


def note(record: JobRecord, now: Micros) -> str:
    """What is most worth knowing beside the state."""
    if record.state == State.PENDING and record.due_at > now:
        again = "tries again" if record.failures else "due"
        return f"{again} {relative(record.due_at, now)}"
    if record.finished_at is not None and record.state == State.COMPLETED:
        return f"took {took(record)}"
    if record.cancelling:
        return "asked to stop"
    return record.reason or ""


def took(record: JobRecord) -> str:
    """From the last start to the end."""
    if record.started_at is None or record.finished_at is None:
        return "no time"
    return duration(max(0, record.finished_at - record.started_at) / SECOND)


def job_view(
    record: JobRecord, ended: Ended | None, failures: Sequence[AttemptFailure], now: Micros
) -> "Iterator[RenderableType]":
    yield fields(_pairs(record, now))
    yield text("\narguments", style="bold")
    yield text(pretty_json(record.arguments))
    if ended is not None and ended.state == State.COMPLETED:
        yield text("\nresult", style="bold")
        yield text(pretty_json(ended.result))
    for failed in failures:
        told = failed.failure
        at = moment_and_relative(failed.at, now)
        yield text(f"\nattempt {failed.attempt} failed ({told.reason}), {at}", style="bold")
        yield text(told.traceback.rstrip() or f"{told.type}: {told.message}")


def _pairs(record: JobRecord, now: Micros) -> Iterator[tuple[str, object]]:
    options = record.options
    state = f"{record.state} ({record.reason})" if record.reason else record.state
    yield "id", format_id(record.id)
    yield "kind", record.kind
    yield "state", f"{state}, asked to stop" if record.cancelling and record.finished_at is None else state
    yield "queue", record.queue
    yield "tenant", record.tenant
    yield "client", options.client
    yield "priority", record.priority
    yield "complexity", options.complexity
    yield "attempt", f"{record.attempt} ({record.failures} failed, {record.losses} lost with their worker)"
    yield "retries", f"{options.retries}, the first after up to {duration(options.backoff.base_s)}"
    yield "timeout", None if options.timeout_s is None else duration(options.timeout_s)
    yield "submitted", moment_and_relative(record.created_at, now)
    yield "due", moment_and_relative(record.due_at, now)
    yield "started", _maybe(record.started_at, now)
    yield "ended", _maybe(record.finished_at, now)
    yield "took", took(record) if record.state == State.COMPLETED else None
    missed = ", missed" if record.missed_deadline else ""
    yield "deadline", None if options.deadline_at is None else f"{_maybe(options.deadline_at, now)}{missed}"
    yield "start by", _maybe(options.start_by, now)
    yield "key", options.key
    yield "limit key", options.limit_key
    yield "tags", listed(options.tags, 32) or None
    yield "labels", listed(sorted(options.labels), 32) or None
    yield "needs", needs(options.resources) or None
    yield "schedule", options.schedule
    yield "occurrence", _maybe(options.occurrence_at, now)


def _maybe(at: Micros | None, now: Micros) -> str | None:
    return None if at is None else moment_and_relative(at, now)
