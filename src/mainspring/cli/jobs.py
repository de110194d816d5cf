"""`mainspring jobs`: look at jobs, wait for them, steer them."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mainspring.cli.explain import explain
from mainspring.cli.failures import SilentError, complain
from mainspring.cli.files import download, outputs
from mainspring.cli.joblogs import logs, partial
from mainspring.cli.jobview import job_view, jobs_table
from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, JobId, JobIds, JobTenant, ServerUrl, StoreUrl, WaitTimeout
from mainspring.cli.output import Output
from mainspring.cli.waiting import await_end, end_line, raise_unless_completed
from mainspring.core.duration import parse_duration
from mainspring.core.job import MAX_PRIORITY, MIN_PRIORITY
from mainspring.core.lifecycle import State
from mainspring.core.options import whole_number
from mainspring.core.partition import format_id, parse_id
from mainspring.errors import InvalidError
from mainspring.runtime.clock import SystemClock
from mainspring.verbs.cursors import make_cursor
from mainspring.verbs.documents import BulkItem, BulkRequest, JobQuery

if TYPE_CHECKING:
    from rich.console import RenderableType

jobs_app = typer.Typer(help="Look at jobs, wait for them, steer them.", no_args_is_help=True)
jobs_app.command("explain")(explain)
jobs_app.command("logs")(logs)
jobs_app.command("partial")(partial)
jobs_app.command("outputs")(outputs)
jobs_app.command("download")(download)

MAX_LISTED = 1000

Action = Literal["cancel", "retry", "reprioritise"]


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
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    if state is not None and state not in set(State):
        raise InvalidError("state", f"{state!r} is none of {', '.join(State)}")
    whole_number("limit", limit, 1, MAX_LISTED)
    which = JobQuery(state=state, queue=queue, kind=kind, tag=tag, schedule=schedule)
    after = None if before is None else make_cursor(which, parse_id(before), None)

    async def work() -> None:
        async with opened(store, server) as app:
            page = await app.verbs(tenant).jobs.list(which, after=after, limit=limit)
        last = page.jobs[-1].id if page.next is not None else None
        document = {"jobs": page.jobs, "before": last}
        Output(as_json).show(document, lambda: jobs_table(page.jobs, SystemClock().now(), last))

    perform(work())


@jobs_app.command()
def show(
    job: JobId, tenant: JobTenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """Show everything about a job.

    Its options, times, arguments and result, and the error of every failed attempt.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            found = await app.verbs(tenant).jobs.read(job)
        Output(as_json).show(found, lambda: job_view(found, SystemClock().now()))

    perform(work())


@jobs_app.command()
def wait(
    job: JobId,
    timeout: WaitTimeout = None,
    tenant: JobTenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Wait for a job to end and print its result.

    Exit code 1 if it failed or was cancelled.
    """
    within_s = None if timeout is None else parse_duration("timeout", timeout)

    async def work() -> None:
        async with opened(store, server) as app:
            ended = await await_end(app.verbs(tenant).jobs, job, within_s)
        Output(as_json).show(ended, lambda: [end_line(ended)])
        raise_unless_completed(ended)

    perform(work())


@jobs_app.command()
def cancel(
    jobs: JobIds, tenant: JobTenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """Cancel jobs.

    Waiting ones end at once, running ones are asked to stop.
    """
    _steer("cancel", jobs, tenant, store, server, Output(as_json), _cancelled, lambda state: "has ended already")


@jobs_app.command()
def retry(
    jobs: JobIds, tenant: JobTenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """Run failed and cancelled jobs again, from the start."""
    _steer("retry", jobs, tenant, store, server, Output(as_json), lambda state: "will run", _not_retried)


@jobs_app.command()
def reprioritise(
    jobs: JobIds,
    priority: Annotated[int, typer.Option(metavar="1-10", help="10 comes first.", show_default=False)],
    tenant: JobTenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Give waiting jobs another priority."""
    whole_number("priority", priority, MIN_PRIORITY, MAX_PRIORITY)
    done = f"has priority {priority}"
    _steer("reprioritise", jobs, tenant, store, server, Output(as_json), lambda state: done, _not_moved, priority)


def _cancelled(state: str | None) -> str:
    return "asked to stop" if state == "requested" else "cancelled"


def _not_retried(state: str | None) -> str:
    return f"is {state}: only failed and cancelled jobs can be run again"


def _not_moved(state: str | None) -> str:
    return f"is {state}: only pending jobs have a place in the order"


def _steer(
    action: Action,
    given: Sequence[str],
    tenant: str | None,
    store: str | None,
    server: str | None,
    output: Output,
    done: Callable[[str | None], str],
    refused: Callable[[str | None], str],
    priority: int | None = None,
) -> None:
    """Do one thing to many jobs, say what became of each, and fail if it could not be done to all."""
    ids = list(dict.fromkeys(format_id(parse_id(text)) for text in given))
    request = BulkRequest(action=action, filter=JobQuery(ids=ids), priority=priority)

    async def work() -> Sequence[BulkItem]:
        async with opened(store, server) as app:
            return (await app.verbs(tenant).jobs.bulk(request)).jobs

    items = perform(work())

    def view() -> "Iterable[RenderableType]":
        return [f"{item.id}  {done(item.state)}" for item in items if item.done]

    output.show({"jobs": items}, view)
    failed = [item for item in items if not item.done]
    for item in failed:
        complain(f"there is no job {item.id}" if item.state is None else f"job {item.id} {refused(item.state)}")
    if failed:
        raise SilentError
