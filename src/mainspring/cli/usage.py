"""`mainspring usage`: who used how much."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli.opening import opened, perform, verbs_of
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl, Tenant
from mainspring.cli.output import Output, table, text
from mainspring.core.duration import parse_duration
from mainspring.core.timer import read_time
from mainspring.core.words import duration, size, stamp
from mainspring.verbs import documents as d

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = ("jobs", "attempts", "cpu", "peak", "read", "written", "received", "sent")


def usage(
    since: Annotated[
        str, typer.Option(metavar="DURATION|TIME", help="From so long ago, or from this time (ISO 8601), on.")
    ] = "1d",
    until: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION|TIME", help="Up to so long ago, or up to this time; else now.", show_default=False
        ),
    ] = None,
    by: Annotated[str, typer.Option(metavar="WHAT", help="client,kind or client or kind.")] = "client,kind",
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Sum what jobs used that ended lately, by client and kind."""
    now = datetime.now(UTC)
    first, last = _time("since", since, now), None if until is None else _time("until", until, now)

    async def work() -> None:
        async with opened(store, server) as app:
            found = await verbs_of(app, tenant).system.usage(first, last, by)  # type: ignore[arg-type]  # checked there
        Output(as_json).show(found, lambda: _view(found, last or now))

    perform(work())


def _time(field: str, said: str, now: datetime) -> datetime:
    """So long ago, or a time."""
    if said[4:5] == "-":
        return read_time(field, said)
    return now - timedelta(seconds=parse_duration(field, said))


def _view(found: d.UsageReport, asked: datetime) -> "Iterable[RenderableType]":
    if not found.total.jobs:
        yield f"nothing ended since {stamp(found.since)}"
        return
    rows = [(each.client or "", each.kind or "", *_figures(each)) for each in found.sums]
    yield table(("client", "kind", *_COLUMNS), [*rows, ("", "in all", *_figures(found.total))], right=_COLUMNS)
    if found.more:
        yield text(f"{found.more:,} more are in the sum and not shown", style="dim")
    if found.until < asked - timedelta(minutes=1):
        yield text(
            f"counted up to {stamp(found.until)}; go on with --since {found.until:%Y-%m-%dT%H:%M:%S.%fZ}", style="dim"
        )


def _figures(each: d.UsageSum) -> tuple[str, ...]:
    peak = "" if each.peak_mb is None else f"{each.peak_mb:,.0f} MB"
    moved = (each.read_bytes, each.written_bytes, each.received_bytes, each.sent_bytes)
    return (
        f"{each.jobs:,}",
        f"{each.attempts:,}",
        duration(each.cpu_s),
        peak,
        *("" if count is None else size(count) for count in moved),
    )
