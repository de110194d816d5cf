"""`mainspring nodes`: who works on this store, asking one to leave, and forgetting one that stopped."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli.jobview import ago
from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl
from mainspring.cli.output import Output, table, text
from mainspring.core.timer import Micros
from mainspring.runtime.clock import SystemClock
from mainspring.verbs.documents import NodeDocument

if TYPE_CHECKING:
    from rich.console import RenderableType

nodes_app = typer.Typer(help="Look at the nodes of a store, and ask them to leave.", no_args_is_help=True)

Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Nodes, by name or by the start of an id.", show_default=False)
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A node, by name or by the start of its id.", show_default=False)
]

_SHOWN_ID = 8
_NUMBERS = ("slots", "partitions", "workers", "running")


@nodes_app.command("list")
def list_nodes(store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """List nodes: what they own, what their workers can run and run now.

    A node that stopped without leaving is listed until another one has taken over.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            found = await app.verbs().nodes.list()
        Output(as_json).show({"nodes": found}, lambda: _view(found, SystemClock().now()))

    perform(work())


def _view(found: Sequence[NodeDocument], now: Micros) -> "Iterable[RenderableType]":
    if not found:
        yield "no nodes: start one with `mainspring worker MODULE:APP`"
        return
    rows = [
        (
            node.name,
            node.id[:_SHOWN_ID],
            _state(node, now),
            *(f"{number:,}" for number in (node.capacity, node.partitions, node.workers, node.live)),
            ago(node.started_at, now),
        )
        for node in found
    ]
    yield table(("node", "id", "", *_NUMBERS, "started"), rows, right=_NUMBERS)


def _state(node: NodeDocument, now: Micros) -> str:
    if not node.alive:
        return f"stopped {ago(node.lease_until, now)}"
    return "leaving" if node.draining else "works"


@nodes_app.command()
def drain(names: Names, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """Ask nodes to leave, as SIGTERM would.

    A node that was asked takes nothing new, lets its partitions go at once, finishes what it runs within its grace, hands the rest
    back, and ends.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            found = await app.verbs().nodes.drain(names)
        document = {"nodes": [{"id": node.id, "name": node.name} for node in found]}
        Output(as_json).show(document, lambda: [text(f"{node.name} was asked to leave") for node in found])

    perform(work())


@nodes_app.command()
def remove(name: Name, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """End a node that has stopped without leaving.

    Other nodes do that by themselves; this is for a store where none runs.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            await app.verbs().nodes.remove(name)
        Output(as_json).show({"name": name, "removed": True}, lambda: [text(f"{name} is removed")])

    perform(work())
