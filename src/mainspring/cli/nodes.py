"""`mainspring nodes`: who works on this store, and asking one to leave."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.app import App
from mainspring.cli.documents import Document
from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, StoreUrl
from mainspring.cli.output import Output, table, text
from mainspring.core.partition import format_id
from mainspring.core.timer import Micros, from_micros
from mainspring.core.words import listed, relative
from mainspring.errors import ConflictError, NotFoundError
from mainspring.store.contract import NodeRecord, SessionRecord

if TYPE_CHECKING:
    from rich.console import RenderableType

nodes_app = typer.Typer(help="Look at the nodes of a store, and ask them to leave.", no_args_is_help=True)

Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Nodes, by name or by the start of an id.", show_default=False)
]

_SHOWN_ID = 8
_SHORTEST_ID = 4
_NUMBERS = ("slots", "partitions", "workers", "running")


@nodes_app.command("list")
def list_nodes(store: StoreUrl = None, as_json: AsJson = False) -> None:
    """List nodes: what they own, what their workers can run and run now.

    A node that stopped without leaving is listed until another one has taken over.
    """

    async def work() -> None:
        async with opened(store) as app:
            now = app.store.clock.now()
            nodes = await app.store.list_nodes()
            sessions = await app.store.list_sessions()
        found = [_document(node, sessions, now) for node in nodes]
        Output(as_json).show({"nodes": found}, lambda: _view(found, nodes, now))

    perform(work())


def _document(node: NodeRecord, sessions: Sequence[SessionRecord], now: Micros) -> Document:
    own = [session for session in sessions if session.node == node.id]
    return {
        "id": format_id(node.id),
        "name": node.name,
        "alive": node.lease_until >= now,
        "draining": node.draining,
        "capacity": node.capacity,
        "partitions": node.partitions,
        "workers": len(own),
        "live": sum(session.live for session in own),
        "started_at": from_micros(node.started_at),
        "lease_until": from_micros(node.lease_until),
    }


def _view(found: list[Document], nodes: list[NodeRecord], now: Micros) -> "Iterable[RenderableType]":
    if not found:
        yield "no nodes: start one with `mainspring worker MODULE:APP`"
        return
    rows = [
        (
            node.name,
            format_id(node.id)[:_SHOWN_ID],
            _state(node, now),
            *(f"{document[name]:,}" for name in ("capacity", "partitions", "workers", "live")),
            relative(node.started_at, now),
        )
        for document, node in zip(found, nodes, strict=True)
    ]
    yield table(("node", "id", "", *_NUMBERS, "started"), rows, right=_NUMBERS)


def _state(node: NodeRecord, now: Micros) -> str:
    if node.lease_until < now:
        return f"stopped {relative(node.lease_until, now)}"
    return "leaving" if node.draining else "works"


@nodes_app.command()
def drain(names: Names, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Ask nodes to leave, as SIGTERM would.

    A node that was asked takes nothing new, lets its partitions go at once, finishes what it runs within its grace, hands the rest
    back, and ends.
    """

    async def work() -> None:
        async with opened(store) as app:
            found = await _find(app, names)
            await app.store.drain_nodes([node.id for node in found])
        document = {"nodes": [{"id": format_id(node.id), "name": node.name} for node in found]}
        Output(as_json).show(document, lambda: [text(f"{node.name} was asked to leave") for node in found])

    perform(work())


async def _find(app: App, names: Iterable[str]) -> list[NodeRecord]:
    """The nodes meant, or nothing at all: none is asked where one of the names is wrong."""
    nodes, now = await app.store.list_nodes(), app.store.clock.now()
    return list({found.id: found for name in names for found in [_named(name, nodes, now)]}.values())


def _named(name: str, nodes: list[NodeRecord], now: Micros) -> NodeRecord:
    found = [node for node in nodes if node.name == name] or [node for node in nodes if _has_id(node, name)]
    if not found:
        known = listed(sorted(node.name for node in nodes))
        raise NotFoundError(f"there is no node {name!r}; {f'there are {known}' if nodes else 'there is none at all'}")
    if len(found) > 1:
        ids = listed(format_id(node.id)[:_SHOWN_ID] for node in found)
        raise ConflictError(f"{name!r} is not one node but {len(found)}: say which by its id: {ids}")
    if found[0].lease_until < now:
        raise ConflictError(f"{found[0].name} has stopped without leaving: a running node takes over by itself")
    return found[0]


def _has_id(node: NodeRecord, start: str) -> bool:
    return len(start) >= _SHORTEST_ID and format_id(node.id).startswith(start.lower())
