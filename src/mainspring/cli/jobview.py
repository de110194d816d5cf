"""Jobs as people see them: the table of `jobs list` and the page of `jobs show`."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mainspring.cli.output import fields, pretty_json, table, text
from mainspring.cli.waiting import shown_elsewhere
from mainspring.core.lifecycle import State
from mainspring.core.timer import Micros, to_micros
from mainspring.core.words import duration, listed, moment_and_relative, needs, relative, size
from mainspring.verbs.documents import JobDocument, JobSummary, Usage

if TYPE_CHECKING:
    from rich.console import RenderableType


def jobs_table(jobs: Sequence[JobSummary], now: Micros, last: str | None) -> "Iterable[RenderableType]":
    """`last` is where the next listing goes on, if there may be more."""
    if not jobs:
        yield "no jobs"
        return
    rows = [(j.id, j.kind, j.queue, j.state, j.priority, j.attempt, ago(j.created_at, now), note(j, now)) for j in jobs]
    columns = ("id", "kind", "queue", "state", "priority", "attempt", "submitted", "note")
    yield table(columns, rows, right=("priority", "attempt"))
    if last is not None:
        yield text(f"older ones: --before {last}", style="dim")


def ago(at: datetime, now: Micros) -> str:
    return relative(to_micros("at", at), now)


def note(job: JobSummary, now: Micros) -> str:
    """What is most worth knowing beside the state."""
    if job.state == State.PENDING and to_micros("due_at", job.due_at) > now:
        again = "tries again" if job.failures else "due"
        return f"{again} {ago(job.due_at, now)}"
    if job.finished_at is not None and job.state == State.COMPLETED:
        return f"took {took(job)}"
    if job.cancel_requested:
        return "asked to stop"
    return job.reason or ""


def took(job: JobSummary) -> str:
    """From the last start to the end."""
    if job.started_at is None or job.finished_at is None:
        return "no time"
    return duration(max(0.0, (job.finished_at - job.started_at).total_seconds()))


def usage_words(usage: Usage) -> str:
    """`1.5 s of CPU, 120 MB at most, 5 MB written`; what is not known is left out."""
    words = ("read", "written", "received", "sent")
    moved = (usage.read_bytes, usage.written_bytes, usage.received_bytes, usage.sent_bytes)
    parts = [f"{duration(usage.cpu_s)} of CPU"]
    if usage.peak_mb is not None:
        parts.append(f"{usage.peak_mb:,.0f} MB at most")
    return ", ".join([*parts, *(f"{size(count)} {word}" for count, word in zip(moved, words, strict=True) if count)])


def job_view(job: JobDocument, now: Micros) -> "Iterator[RenderableType]":
    yield fields(_pairs(job, now))
    yield text("\narguments", style="bold")
    yield text(pretty_json(bytes(job.arguments)))
    if job.state == State.COMPLETED:
        yield text("\nresult", style="bold")
        yield text(shown_elsewhere(job) or pretty_json(bytes(job.result)))
    if job.outputs:
        yield text("\noutputs", style="bold")
        yield text("\n".join(f"{each.name}  {size(each.size)}" for each in job.outputs))
    for failed in job.errors:
        yield text(f"\nattempt {failed.attempt} failed ({failed.reason}), {_when(failed.at, now)}", style="bold")
        if failed.usage is not None:
            yield text(f"used {usage_words(failed.usage)}")
        yield text(failed.traceback.rstrip() or f"{failed.type}: {failed.message}")


def _pairs(job: JobDocument, now: Micros) -> Iterator[tuple[str, object]]:
    state = f"{job.state} ({job.reason})" if job.reason else job.state
    yield "id", job.id
    yield "kind", job.kind
    yield "state", f"{state}, asked to stop" if job.cancel_requested and job.finished_at is None else state
    yield "progress", None if job.progress is None else f"{job.progress.percent:g} % {job.progress.message}".rstrip()
    yield "queue", job.queue
    yield "tenant", job.tenant
    yield "client", job.client
    yield "priority", job.priority
    yield "complexity", job.complexity
    yield "attempt", f"{job.attempt} ({job.failures} failed, {job.losses} lost with their worker)"
    yield "retries", f"{job.retries}, the first after up to {duration(job.backoff_s)}"
    yield "timeout", None if job.timeout_s is None else duration(job.timeout_s)
    yield "submitted", _when(job.created_at, now)
    yield "due", _when(job.due_at, now)
    yield "started", _when(job.started_at, now)
    yield "ended", _when(job.finished_at, now)
    yield "took", took(job) if job.state == State.COMPLETED else None
    yield "used", None if job.usage is None else usage_words(job.usage)
    missed = ", missed" if job.deadline_missed else ""
    yield "deadline", None if job.deadline_at is None else f"{_when(job.deadline_at, now)}{missed}"
    yield "start by", _when(job.start_by, now)
    yield "key", job.key
    yield "limit key", job.limit_key
    yield "secrets", ", ".join(f"{own} = {name}" for own, name in job.secrets.items())
    yield "tags", listed(job.tags, 32) or None
    yield "labels", listed(job.labels, 32) or None
    yield "needs", needs(job.resources) or None
    yield "schedule", job.schedule
    yield "occurrence", _when(job.occurrence_at, now)


def _when(at: datetime | None, now: Micros) -> str | None:
    return None if at is None else moment_and_relative(to_micros("at", at), now)
