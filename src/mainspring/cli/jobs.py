"""`mainspring jobs`: look at jobs, wait for them, steer them."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainspring.app import App
from mainspring.cli.documents import job_document, job_summary
from mainspring.cli.explain import explain
from mainspring.cli.failures import SilentError, complain
from mainspring.cli.jobview import job_view, jobs_table
from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, JobId, JobIds, StoreUrl, WaitTimeout
from mainspring.cli.output import Output
from mainspring.cli.waiting import await_end, end_line, raise_unless_completed
from mainspring.core.duration import parse_duration
from mainspring.core.job import DEFAULT_TENANT, MAX_PRIORITY, MIN_PRIORITY
from mainspring.core.lifecycle import State
from mainspring.core.options import whole_number
from mainspring.core.partition import format_id, parse_id
from mainspring.errors import InvalidError, NotFoundError
from mainspring.store.contract import UNCHANGED, Change, JobFilter

if TYPE_CHECKING:
    from rich.console import RenderableType

jobs_app = typer.Typer(help="Look at jobs, wait for them, steer them.", no_args_is_help=True)
jobs_app.command("explain")(explain)

MAX_LISTED = 1000

_Verb = Callable[[App, list[bytes]], Any]


def _filter(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help, show_default=False)


@jobs_app.command("list")
def list_jobs(
    state: Annotated[str | None, _filter("STATE", f"Only jobs in this state: {', '.join(State)}.")] = None,
    queue: Annotated[str | None, _filter("NAME", "Only jobs of this queue.")] = None,
    kind: Annotated[str | None, _filter("KIND", "Only jobs of this kind.")] = None,
    tag: Annotated[str | None, _filter("TEXT", "Only jobs with this tag.")] = None,
    schedule: Annotated[str | None, _filter("NAME", "Only jobs of this schedule.")] = None,
    tenant: Annotated[str | None, _filter("NAME", "Only jobs of this tenant.")] = None,
    limit: Annotated[int, typer.Option(metavar="NUMBER", help=f"How many, up to {MAX_LISTED}.")] = 20,
    before: Annotated[str | None, _filter("ID", "Go on behind this job of an earlier listing.")] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    if state is not None and state not in set(State):
        raise InvalidError("state", f"{state!r} is none of {', '.join(State)}")
    whole_number("limit", limit, 1, MAX_LISTED)
    start = None if before is None else parse_id(before)
    fired_by = None if schedule is None else f"{tenant or DEFAULT_TENANT}/{schedule}"
    which = JobFilter(tenant=tenant, state=state, queue=queue, kind=kind, tag=tag, schedule=fired_by)
    perform(_list(which, limit, start, store, Output(as_json)))


async def _list(which: JobFilter, limit: int, before: bytes | None, store: str | None, output: Output) -> None:
    async with opened(store) as app:
        records = await app.store.list_jobs(which, before=before, limit=limit)
        now = app.store.clock.now()
    last = format_id(records[-1].id) if len(records) == limit else None
    document = {"jobs": [job_summary(record) for record in records], "before": last}
    output.show(document, lambda: jobs_table(records, now, last))


@jobs_app.command()
def show(job: JobId, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Show everything about a job.

    Its options, times, arguments and result, and the error of every failed attempt.
    """
    perform(_show(parse_id(job), store, Output(as_json)))


async def _show(job: bytes, store: str | None, output: Output) -> None:
    async with opened(store) as app:
        (record,) = await app.store.read_jobs([job])
        if record is None:
            raise NotFoundError(f"there is no job {format_id(job)}")
        (ended,) = await app.store.read_ended([job])
        failures = await app.store.read_failures(job)
        now = app.store.clock.now()
    output.show(job_document(record, ended, failures), lambda: job_view(record, ended, failures, now))


@jobs_app.command()
def wait(job: JobId, timeout: WaitTimeout = None, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Wait for a job to end and print its result.

    Exit code 1 if it failed or was cancelled.
    """
    within_s = None if timeout is None else parse_duration("timeout", timeout)
    perform(_wait(parse_id(job), within_s, store, Output(as_json)))


async def _wait(job: bytes, within_s: float | None, store: str | None, output: Output) -> None:
    async with opened(store) as app:
        document, ended = await await_end(app, job, within_s)
    output.show(document, lambda: [end_line(ended)])
    raise_unless_completed(job, ended)


@jobs_app.command()
def cancel(jobs: JobIds, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Cancel jobs.

    Waiting ones end at once, running ones are asked to stop.
    """
    said = {State.CANCELLED: "cancelled", "requested": "asked to stop"}
    perform(_steer(jobs, store, lambda app, ids: app.store.cancel_jobs(ids), said, _not_cancelled, Output(as_json)))


@jobs_app.command()
def retry(jobs: JobIds, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Run failed and cancelled jobs again, from the start."""
    said = {State.PENDING: "will run"}

    def change(app: App, ids: list[bytes]) -> Any:
        return app.store.change_jobs([Change(id_, replay=True) for id_ in ids])

    perform(_steer(jobs, store, change, said, _not_retried, Output(as_json)))


@jobs_app.command()
def reprioritise(
    jobs: JobIds,
    priority: Annotated[int, typer.Option(metavar="1-10", help="10 comes first.", show_default=False)],
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Give waiting jobs another priority."""
    whole_number("priority", priority, MIN_PRIORITY, MAX_PRIORITY)
    said = {State.PENDING: f"has priority {priority}"}

    def change(app: App, ids: list[bytes]) -> Any:
        return app.store.change_jobs([Change(id_, priority=priority) for id_ in ids])

    perform(_steer(jobs, store, change, said, _not_moved, Output(as_json)))


def _not_cancelled(answer: str) -> str:
    return "has ended already"


def _not_retried(answer: str) -> str:
    return f"is {_state(answer)}: only failed and cancelled jobs can be run again"


def _not_moved(answer: str) -> str:
    return f"is {answer}: only pending jobs have a place in the order"


async def _steer(
    given: Sequence[str],
    store: str | None,
    verb: _Verb,
    said: dict[Any, str],
    refused: Callable[[str], str],
    output: Output,
) -> None:
    """Do one thing to many jobs, say what became of each, and fail if it could not be done to all."""
    ids = list(dict.fromkeys(parse_id(text) for text in given))
    async with opened(store) as app:
        answers = dict(zip(ids, await verb(app, ids), strict=True))
    document = {
        "jobs": [
            {"id": format_id(job), "done": answer in said, "state": _state(answer)} for job, answer in answers.items()
        ]
    }

    def view() -> "Iterable[RenderableType]":
        return [f"{format_id(job)}  {said[answer]}" for job, answer in answers.items() if answer in said]

    output.show(document, view)
    failed = {job: answer for job, answer in answers.items() if answer not in said}
    for job, answer in failed.items():
        complain(f"there is no job {format_id(job)}" if answer is None else f"job {format_id(job)} {refused(answer)}")
    if failed:
        raise SilentError


def _state(answer: str | None) -> str | None:
    """What the document says of the job: None where there is no such job."""
    if answer == UNCHANGED:
        return State.PENDING
    return None if answer is None else str(answer)
