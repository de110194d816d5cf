"""The system: is it well, what does it do, what did it do, and what applications declare to it."""

import asyncio
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.api.asking import Ask
from mainspring.api.jobs import Name
from mainspring.api.operations import Room
from mainspring.api.problems import NotReadyError
from mainspring.api.replies import Reply, document
from mainspring.core.timer import to_micros
from mainspring.verbs import documents as d

SYSTEM = Room("System")

_PATIENCE_S = 2.0


class HistoryQuery(Struct, forbid_unknown_fields=True):
    since: Annotated[datetime, Meta(tz=True, description="From this time on.")]
    until: Annotated[datetime, Meta(tz=True, description="Up to this time.")]
    step_s: Annotated[float, Meta(ge=1, le=366 * 86_400, description="The length of a period, in seconds.")] = 3600.0
    kind: Annotated[Name | None, Meta(description="Only jobs of this kind.")] = None


class UsageQuery(Struct, forbid_unknown_fields=True):
    since: Annotated[datetime, Meta(tz=True, description="From this time on.")]
    until: Annotated[
        Annotated[datetime, Meta(tz=True)] | None, Meta(description="Up to this time; else until now.")
    ] = None
    by: Annotated[d.UsageBy, Meta(description="What sums are made for.")] = "client,kind"


class Orphans(d.Answer, frozen=True, kw_only=True):
    """Schedules that code declared once and this code does not; they go on firing."""

    orphans: list[str]


@SYSTEM.get("/v1/health/live", "health_live", answer=d.Health)
async def health_live(ask: Ask) -> Reply:
    """Does the server answer?"""
    return document(d.Health(status="ok"))


@SYSTEM.get("/v1/health/ready", "health_ready", answer=d.Health)
async def health_ready(ask: Ask) -> Reply:
    """Can the server do its work? 503 while its store cannot be reached, and from when it begins to stop."""
    if ask.parts.stopping.is_set():
        raise NotReadyError("the server is stopping")
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await ask.parts.engine.store.read_keys(["health"])
    except TimeoutError:
        raise NotReadyError(f"the store did not answer within {_PATIENCE_S:g} s") from None
    return document(d.Health(status="ok"))


@SYSTEM.get("/v1/version", "version", answer=d.Version)
async def version(ask: Ask) -> Reply:
    """Which version this is, which worker protocol it speaks, and what kind of store it has."""
    return document(await ask.verbs.system.version())


@SYSTEM.get("/v1/statistics", "statistics", answer=d.Statistics)
async def statistics(ask: Ask) -> Reply:
    """Count what there is now."""
    return document(await ask.verbs.system.statistics())


@SYSTEM.get("/v1/history", "history", query=HistoryQuery, answer=d.History)
async def history(ask: Ask) -> Reply:
    """Count what ended, by kind and period. With waiting and running times."""
    given = ask.query(HistoryQuery)
    for field, at in (("since", given.since), ("until", given.until)):
        to_micros(field, at)
    return document(await ask.verbs.system.history(given.since, given.until, given.step_s, given.kind))


@SYSTEM.get("/v1/usage", "usage", query=UsageQuery, answer=d.UsageReport)
async def usage(ask: Ask) -> Reply:
    """Sum what jobs used that ended in a time. CPU time, memory and bytes of all their attempts, by client and kind."""
    given = ask.query(UsageQuery)
    for field, at in (("since", given.since), ("until", given.until)):
        if at is not None:
            to_micros(field, at)
    return document(await ask.verbs.system.usage(given.since, given.until, given.by))


@SYSTEM.post("/v1/declarations", "declare", body=d.Declarations, answer=Orphans)
async def declare(ask: Ask) -> Reply:
    """Store what an application's code declares. Kinds, limits, queues and schedules."""
    return document(Orphans(orphans=await ask.verbs.system.declare(await ask.document(d.Declarations))))
