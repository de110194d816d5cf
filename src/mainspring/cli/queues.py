"""`mainspring queues`: how much waits where, and stopping a queue for a while."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import json

from mainspring.app import App
from mainspring.cli.documents import Document, limit_document
from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, StoreUrl, Tenant
from mainspring.cli.output import Output, table, text
from mainspring.core.job import DEFAULT_TENANT, Limit
from mainspring.core.lifecycle import State
from mainspring.core.options import JobOptions, check_name, queue_of
from mainspring.core.words import duration, listed
from mainspring.errors import NotFoundError
from mainspring.store.contract import JobFilter, QueueRecord

if TYPE_CHECKING:
    from rich.console import RenderableType

queues_app = typer.Typer(help="Look at queues, pause and resume them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.", show_default=False)]

_SHOWN = (State.PENDING, State.BLOCKED, State.ASSIGNED, State.RUNNING, State.COMPLETED, State.FAILED, State.CANCELLED)


@queues_app.command("list")
def list_queues(tenant: Tenant = DEFAULT_TENANT, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """List queues: their jobs, limits and pauses.

    Jobs are counted per state over all tenants; limits and pauses are those of one tenant.
    """
    check_name("tenant", tenant)

    async def work() -> None:
        async with opened(store) as app:
            settings = {queue.name: queue for queue in await app.store.list_queues() if queue.tenant == tenant}
            counts = await app.store.count_jobs()
            names = sorted(settings.keys() | {queue for queue, _ in counts} | await _declared(app))
        found = [_document(name, settings.get(name), counts) for name in names]
        Output(as_json).show({"queues": found}, lambda: _view(found, settings))

    perform(work())


def _document(name: str, setting: QueueRecord | None, counts: dict[tuple[str, str], int]) -> Document:
    depth = Counter({state: counts.get((name, state), 0) for state in State})
    limit = setting.limit if setting else Limit()
    return {"name": name, "paused": bool(setting and setting.paused), "jobs": depth, "limit": limit_document(limit)}


def _view(found: list[Document], settings: dict[str, QueueRecord]) -> "Iterable[RenderableType]":
    if not found:
        yield "no queues yet"
        return
    rows = [
        (
            queue["name"],
            "paused" if queue["paused"] else "open",
            *(f"{queue['jobs'][state]:,}" for state in _SHOWN),
            limit_words(settings[queue["name"]].limit) if queue["name"] in settings else "",
        )
        for queue in found
    ]
    yield table(("queue", "", *_SHOWN, "limit"), rows, right=_SHOWN)


def limit_words(limit: Limit) -> str:
    """`5 at once, 100 per 1 m`; empty without a limit."""
    parts = []
    if limit.concurrency is not None:
        parts.append(f"{limit.concurrency:,} at once")
    if limit.rate is not None:
        parts.append(f"{limit.burst:,} per {duration(limit.burst / limit.rate)}")
    return ", ".join(parts)


@queues_app.command()
def pause(name: Name, tenant: Tenant = DEFAULT_TENANT, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Start no more jobs of a queue; those that run go on."""
    perform(_set_paused(name, tenant, True, store, Output(as_json)))


@queues_app.command()
def resume(name: Name, tenant: Tenant = DEFAULT_TENANT, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Start jobs of a queue again."""
    perform(_set_paused(name, tenant, False, store, Output(as_json)))


async def _set_paused(name: str, tenant: str, paused: bool, store: str | None, output: Output) -> None:
    check_name("tenant", tenant)
    check_name("queue", name)
    async with opened(store) as app:
        known = {queue.name: queue for queue in await app.store.list_queues() if queue.tenant == tenant}
        if name not in known:
            await _refuse_unknown(app, name, tenant, known)
        limit = known[name].limit if name in known else Limit()
        await app.store.put_queue(QueueRecord(tenant, name, paused, limit))
    document = {"name": name, "tenant": tenant, "paused": paused}
    output.show(document, lambda: [text(f"{name} is {'paused' if paused else 'open'}")])


async def _refuse_unknown(app: App, name: str, tenant: str, known: Iterable[str]) -> None:
    """A mistyped name must not look like a paused queue."""
    declared = await _declared(app)
    if name in declared:
        return
    if await app.store.list_jobs(JobFilter(tenant=tenant, queue=name), before=None, limit=1):
        return
    names = sorted(declared | set(known))
    raise NotFoundError(
        f"there is no queue {name!r}; known are {listed(names)}" if names else f"there is no queue {name!r}"
    )


async def _declared(app: App) -> set[str]:
    """The queues that kinds go to unless a submit says otherwise."""
    return {queue_of(json.decode(kind.defaults, type=JobOptions)) for kind in await app.store.list_kinds()}
