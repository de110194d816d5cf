"""`mainspring schedules`: look at stored schedules, pause and resume them, make jobs of them by hand."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer
from msgspec import structs

from mainspring.cli.opening import opened, perform, verbs_of
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl, Tenant
from mainspring.cli.output import Output, fields, pretty_json, table, text
from mainspring.core.options import whole_number
from mainspring.core.timer import Micros, read_time, to_micros
from mainspring.core.words import count, duration, relative, stamp
from mainspring.runtime.clock import SystemClock
from mainspring.verbs.documents import MissedDocument, ScheduleDocument
from mainspring.verbs.faces import Schedules

if TYPE_CHECKING:
    from rich.console import RenderableType

schedules_app = typer.Typer(help="Look at schedules and steer them.", no_args_is_help=True)

MAX_TIMES = 1000
_MISSED_SHOWN = 10

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.", show_default=False)]


@asynccontextmanager
async def _verbs(store: str | None, server: str | None, tenant: str | None) -> AsyncIterator[tuple[Schedules, Micros]]:
    async with opened(store, server) as app:
        yield verbs_of(app, tenant).schedules, SystemClock().now()


def _document(schedule: ScheduleDocument) -> dict[str, Any]:
    """With what most look for at hand."""
    return structs.asdict(schedule) | {"cron": schedule.rule.cron, "tz": schedule.rule.tz}


@schedules_app.command("list")
def list_schedules(
    tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """List schedules with their next times."""

    async def work() -> None:
        async with _verbs(store, server, tenant) as (verbs, now):
            found = await verbs.list()
        document = {"schedules": [_document(schedule) for schedule in found]}
        Output(as_json).show(document, lambda: _table(found, now))

    perform(work())


def _table(found: Sequence[ScheduleDocument], now: Micros) -> "Iterator[RenderableType]":
    if not found:
        yield "no schedules"
        return
    rows = [(s.name, s.rule.cron, s.rule.tz, s.kind, _next(s, now), s.runs) for s in found]
    yield table(("name", "cron", "zone", "kind", "next", "runs"), rows, right=("runs",))


def _next(schedule: ScheduleDocument, now: Micros) -> str:
    if schedule.paused:
        return "paused"
    if schedule.next_at is None:
        return "never again"
    return f"{stamp(schedule.next_at)} ({relative(to_micros('next', schedule.next_at), now)})"


@schedules_app.command()
def show(
    name: Name,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show a schedule: its rule, its times, what it missed."""

    async def work() -> None:
        async with _verbs(store, server, tenant) as (verbs, now):
            found, missed = await verbs.read(name), await verbs.missed(name, _MISSED_SHOWN)
        document = _document(found) | {"missed": list(missed)}
        Output(as_json).show(document, lambda: _view(found, missed, now))

    perform(work())


def _view(schedule: ScheduleDocument, missed: Sequence[MissedDocument], now: Micros) -> "Iterable[RenderableType]":
    yield fields(_pairs(schedule, now))
    yield text("\narguments", style="bold")
    yield text(pretty_json(bytes(schedule.arguments)))
    if missed:
        yield text("\nmissed occurrences, the newest first", style="bold")
        rows = [(stamp(m.first_at), stamp(m.last_at), m.count or "many", m.reason) for m in missed]
        yield table(("from", "to", "count", "reason"), rows)


def _pairs(schedule: ScheduleDocument, now: Micros) -> Iterator[tuple[str, object]]:
    rule = schedule.rule
    yield "name", schedule.name
    yield "kind", schedule.kind
    yield "made by", "the application's code" if schedule.origin == "code" else "a user"
    yield "next", _next(schedule, now)
    yield "last looked at", stamp(schedule.last_at)
    yield "runs", schedule.runs if rule.max_runs is None else f"{schedule.runs} of {rule.max_runs}"
    yield "not ended", count(schedule.active, "job")
    said = structs.asdict(rule)
    for option in structs.fields(rule):
        value = said[option.name]
        if option.name in ("cron", "tz", "overlap", "catch_up") or value != option.default:
            yield option.name.removesuffix("_s").replace("_", " "), _value(option.name, value)


def _value(name: str, value: object) -> object:
    if name.endswith("_s") and isinstance(value, float):
        return duration(value)
    if isinstance(value, datetime):
        return stamp(value)
    return ", ".join(map(str, value)) if isinstance(value, tuple) else value


@schedules_app.command()
def next(
    name: Name,
    number: Annotated[int, typer.Option("--count", metavar="NUMBER", help=f"How many, up to {MAX_TIMES}.")] = 10,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show the next times of a schedule."""
    whole_number("count", number, 1, MAX_TIMES)

    async def work() -> None:
        async with _verbs(store, server, tenant) as (verbs, _):
            times, zone = await verbs.next(name, number), (await verbs.read(name)).rule.tz
        rows = [(stamp(at), f"{at.astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M:%S %Z}") for at in times]
        Output(as_json).show(
            {"name": name, "times": times}, lambda: [table(("UTC", zone), rows) if rows else "never again"]
        )

    perform(work())


@schedules_app.command()
def pause(
    name: Name,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Stop a schedule from firing until it is resumed."""
    perform(_steer("pause", name, tenant, store, server, Output(as_json)))


@schedules_app.command()
def resume(
    name: Name,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Let a schedule fire again from now on.

    The time of the pause is not caught up.
    """
    perform(_steer("resume", name, tenant, store, server, Output(as_json)))


async def _steer(
    verb: str, name: str, tenant: str | None, store: str | None, server: str | None, output: Output
) -> None:
    async with _verbs(store, server, tenant) as (verbs, now):
        await (verbs.pause(name) if verb == "pause" else verbs.resume(name))
        found = await verbs.read(name)
    output.show(
        _document(found),
        lambda: [text(f"{name}: next {_next(found, now)}" if not found.paused else f"{name} is paused")],
    )


@schedules_app.command()
def trigger(
    name: Name,
    key: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="One job per key: a repeated trigger finds the first.", show_default=False),
    ] = None,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make one job of a schedule now, beside its times."""

    async def work() -> None:
        async with _verbs(store, server, tenant) as (verbs, _):
            made = await verbs.trigger(name, key)
        line = f"{made.id}{' (was there already)' if made.existed else ''}"
        Output(as_json).show({"name": name} | structs.asdict(made), lambda: [line])

    perform(work())


@schedules_app.command()
def backfill(
    name: Name,
    first: Annotated[
        str, typer.Option("--from", metavar="TIME", help="The first time, inclusive.", show_default=False)
    ],
    last: Annotated[str, typer.Option("--to", metavar="TIME", help="The last time, inclusive.", show_default=False)],
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make the jobs of past occurrences that have none."""
    start, end = read_time("from", first), read_time("to", last)

    async def work() -> None:
        async with _verbs(store, server, tenant) as (verbs, _):
            made = await verbs.backfill(name, start, end)
        Output(as_json).show(
            {"name": name, "occurrences": made}, lambda: [text(f"{name}: {count(made, 'occurrence')}")]
        )

    perform(work())


@schedules_app.command()
def delete(
    name: Name,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Delete a schedule; its jobs stay.

    A schedule that an application declares comes back when that application starts.
    """

    async def work() -> None:
        async with _verbs(store, server, tenant) as (verbs, _):
            await verbs.delete(name)
        Output(as_json).show({"name": name, "deleted": True}, lambda: [text(f"{name} is deleted")])

    perform(work())
