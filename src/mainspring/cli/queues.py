"""`mainspring queues`: how much waits where, and stopping a queue for a while."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli.opening import opened, perform, verbs_of
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl, Tenant
from mainspring.cli.output import Output, table, text
from mainspring.core.lifecycle import State
from mainspring.core.options import check_name
from mainspring.core.words import duration
from mainspring.verbs.documents import LimitDocument, QueueDocument

if TYPE_CHECKING:
    from rich.console import RenderableType

queues_app = typer.Typer(help="Look at queues, pause and resume them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.", show_default=False)]

_SHOWN = (State.PENDING, State.BLOCKED, State.ASSIGNED, State.RUNNING, State.COMPLETED, State.FAILED, State.CANCELLED)


@queues_app.command("list")
def list_queues(
    tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """List the queues of a tenant: their jobs, limits and pauses."""

    async def work() -> None:
        async with opened(store, server) as app:
            found = await verbs_of(app, tenant).queues.list()
        Output(as_json).show({"queues": found}, lambda: _view(found))

    perform(work())


def _view(found: Sequence[QueueDocument]) -> "Iterable[RenderableType]":
    if not found:
        yield "no queues yet"
        return
    rows = [
        (
            queue.name,
            "paused" if queue.paused else "open",
            *(f"{queue.jobs.get(state, 0):,}" for state in _SHOWN),
            limit_words(queue.limit),
        )
        for queue in found
    ]
    yield table(("queue", "", *_SHOWN, "limit"), rows, right=_SHOWN)


def limit_words(limit: LimitDocument) -> str:
    """`5 at once, 100 per 1 m`; empty without a limit."""
    parts = []
    if limit.concurrency is not None:
        parts.append(f"{limit.concurrency:,} at once")
    if limit.rate_per_s is not None:
        burst = limit.burst or 1
        parts.append(f"{burst:,} per {duration(burst / limit.rate_per_s)}")
    return ", ".join(parts)


@queues_app.command()
def pause(
    name: Name,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Start no more jobs of a queue; those that run go on."""
    perform(_set_paused(name, tenant, True, store, server, Output(as_json)))


@queues_app.command()
def resume(
    name: Name,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Start jobs of a queue again."""
    perform(_set_paused(name, tenant, False, store, server, Output(as_json)))


async def _set_paused(
    name: str, tenant: str | None, paused: bool, store: str | None, server: str | None, output: Output
) -> None:
    check_name("queue", name)
    async with opened(store, server) as app:
        queues = verbs_of(app, tenant).queues
        await (queues.pause(name) if paused else queues.resume(name))
        tenant = (await queues.read(name)).tenant
    document = {"name": name, "tenant": tenant, "paused": paused}
    output.show(document, lambda: [text(f"{name} is {'paused' if paused else 'open'}")])
