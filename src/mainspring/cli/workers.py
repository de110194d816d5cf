"""`mainspring workers`: who executes jobs, asking one to leave, ending one."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli.jobview import ago
from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl
from mainspring.cli.output import Output, table, text
from mainspring.core.timer import Micros
from mainspring.core.words import listed
from mainspring.runtime.clock import SystemClock
from mainspring.verbs.documents import WorkerDocument

if TYPE_CHECKING:
    from rich.console import RenderableType

workers_app = typer.Typer(help="Look at workers, and ask them to leave.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="The worker's id.", show_default=False)]

_KINDS_SHOWN = 5


@workers_app.command("list")
def list_workers(store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """List workers: what they can run and run now."""

    async def work() -> None:
        async with opened(store, server) as app:
            found = await app.verbs().workers.list()
        Output(as_json).show({"workers": found}, lambda: _view(found, SystemClock().now()))

    perform(work())


def _view(found: Sequence[WorkerDocument], now: Micros) -> "Iterable[RenderableType]":
    if not found:
        yield "no workers: start one with `mainspring worker MODULE:APP`"
        return
    rows = [
        (
            worker.id,
            worker.name,
            worker.node,
            "works" if worker.alive else "not heard of",
            worker.tenant or "all",
            "?" if worker.slots is None else f"{worker.slots:,}",
            f"{worker.live:,}",
            listed(worker.kinds, _KINDS_SHOWN),
            ago(worker.started_at, now),
        )
        for worker in found
    ]
    columns = ("id", "name", "node", "", "tenant", "slots", "running", "kinds", "started")
    yield table(columns, rows, right=("slots", "running"))


@workers_app.command()
def drain(worker: Id, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """Ask a worker to take nothing new, finish what it runs and leave.

    It is asked through the server that it works for.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            await app.verbs().workers.drain(worker)
        Output(as_json).show({"id": worker, "draining": True}, lambda: [text(f"{worker} was asked to leave")])

    perform(work())


@workers_app.command()
def remove(worker: Id, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """End a worker's session at once.

    What it runs is lost to it, and runs again elsewhere.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            await app.verbs().workers.remove(worker)
        Output(as_json).show({"id": worker, "removed": True}, lambda: [text(f"{worker} is removed")])

    perform(work())
