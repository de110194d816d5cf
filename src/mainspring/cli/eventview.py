"""One event as one line for people: time, what happened, which job, and what is worth knowing."""

from datetime import datetime
from typing import TYPE_CHECKING

from mainspring.cli.jobview import took
from mainspring.cli.output import COLOURS
from mainspring.cli.watching import Event
from mainspring.core.lifecycle import State
from mainspring.core.partition import format_id
from mainspring.core.timer import SECOND, from_micros
from mainspring.core.words import clean, relative, shortened
from mainspring.verbs.shown import summary_of

if TYPE_CHECKING:
    from rich.text import Text

_EVENT_COLOURS = COLOURS | {"started": "cyan", "retrying": "yellow"}


def event_line(event: Event) -> "Text":
    from rich.text import Text

    line = Text(f"{_local(from_micros(event.at))}  ", style="dim", end="")
    line.append(f"{event.name:<9}", style=_EVENT_COLOURS.get(event.name, ""))
    line.append(f"  {clean(event.job.kind, one_line=True):<14}")
    line.append(f"  {format_id(event.job.id)}", style="dim")
    detail = _detail(event)
    if detail:
        line.append(f"  {clean(detail, one_line=True)}")
    line.end = "\n"
    return line


def _local(at: datetime) -> str:
    return f"{at.astimezone():%H:%M:%S}"


def _detail(event: Event) -> str:
    job, failure = event.job, event.failure
    error = shortened(f"{failure.type}: {failure.message}", 80) if failure else ""
    match event.name:
        case "submitted":
            later = job.due_at - job.created_at
            return f"due {relative(job.due_at, job.created_at)}" if later > SECOND // 10 and not job.failures else ""
        case "started":
            return f"attempt {job.attempt}" if job.attempt > 1 else ""
        case "completed":
            return f"in {took(summary_of(job))}{_result(event.result)}"
        case "retrying":
            again = f"; again {relative(job.due_at, event.at)}" if job.state == State.PENDING else ""
            return f"{error}{again}"
        case "failed":
            return f"{error} ({job.reason})"
    return job.reason or ""


def _result(data: bytes | None) -> str:
    return "" if data is None else f" → {shortened(data.decode(), 60)}"
