"""Schedules."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.api.asking import Ask
from mainspring.api.limits import MAX_PAGE
from mainspring.api.operations import Content, Room
from mainspring.api.replies import Reply, document, nothing
from mainspring.api.submits import KEY_HEADER
from mainspring.core.options import check_name
from mainspring.verbs import documents as d

SCHEDULES = Room("Schedules")


class NextQuery(Struct, forbid_unknown_fields=True):
    count: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many times.")] = 10


class MissedQuery(Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many at most.")] = 100


class BackfillAnswer(d.Answer, frozen=True, kw_only=True):
    """How many jobs were made."""

    jobs: int


@SCHEDULES.get("/v1/schedules", "list_schedules", answer=list[d.ScheduleDocument])
async def list_schedules(ask: Ask) -> Reply:
    """List schedules."""
    return document(await ask.verbs.schedules.list())


@SCHEDULES.post(
    "/v1/schedules", "create_schedule", body=d.NewSchedule, answer=d.ScheduleDocument, status=201, problems=(409,)
)
async def create_schedule(ask: Ask) -> Reply:
    """Create a schedule. One that no code declares; 409 where there is one of that name."""
    new = await ask.document(d.NewSchedule)
    async with ask.parts.quotas.schedules(ask.one_tenant):
        return document(await ask.verbs.schedules.create(new), 201)


@SCHEDULES.get("/v1/schedules/{name}", "read_schedule", answer=d.ScheduleDocument)
async def read_schedule(ask: Ask) -> Reply:
    """Read a schedule."""
    return document(await ask.verbs.schedules.read(ask.path("name")))


@SCHEDULES.delete("/v1/schedules/{name}", "delete_schedule")
async def delete_schedule(ask: Ask) -> Reply:
    """Delete a schedule. Its jobs stay."""
    await ask.verbs.schedules.delete(ask.path("name"))
    return nothing()


@SCHEDULES.get("/v1/schedules/{name}/next", "next_times", query=NextQuery, answer=list[datetime])
async def next_times(ask: Ask) -> Reply:
    """Show the next times of a schedule. Whether it is paused or not."""
    return document(await ask.verbs.schedules.next(ask.path("name"), ask.query(NextQuery).count))


@SCHEDULES.post("/v1/schedules/{name}/pause", "pause_schedule")
async def pause_schedule(ask: Ask) -> Reply:
    """Pause a schedule. Nothing fires until it is resumed; what would have fired meanwhile is gone."""
    await ask.verbs.schedules.pause(ask.path("name"))
    return nothing()


@SCHEDULES.post("/v1/schedules/{name}/resume", "resume_schedule")
async def resume_schedule(ask: Ask) -> Reply:
    """Resume a schedule. It fires from now on; the time of the pause is not caught up."""
    await ask.verbs.schedules.resume(ask.path("name"))
    return nothing()


@SCHEDULES.post(
    "/v1/schedules/{name}/trigger",
    "trigger_schedule",
    headers={KEY_HEADER: "One job per schedule and key, however often it is triggered."},
    answers={
        201: Content(d.Submitted, description="It was made."),
        200: Content(d.Submitted, description="A trigger with this key had made it already."),
    },
    problems=(409,),
)
async def trigger_schedule(ask: Ask) -> Reply:
    """Make one job of a schedule now. Beside the times of its rule; its overlap policy holds."""
    if (key := ask.header(KEY_HEADER)) is not None:
        check_name(KEY_HEADER, key)
    with ask.parts.quotas.jobs(ask.one_tenant, 1):
        made = await ask.verbs.schedules.trigger(ask.path("name"), key)
    return document(made, 200 if made.existed else 201)


@SCHEDULES.post(
    "/v1/schedules/{name}/backfill", "backfill_schedule", body=d.BackfillRequest, answer=BackfillAnswer, problems=(409,)
)
async def backfill_schedule(ask: Ask) -> Reply:
    """Make the jobs of past times that have none. Unless overlap is 'allow', they run one after the other."""
    asked = await ask.document(d.BackfillRequest)
    jobs = await ask.verbs.schedules.backfill(ask.path("name"), asked.first, asked.last)
    return document(BackfillAnswer(jobs=jobs))


@SCHEDULES.get("/v1/schedules/{name}/missed", "list_missed", query=MissedQuery, answer=list[d.MissedDocument])
async def list_missed(ask: Ask) -> Reply:
    """List the times that did not fire, and why. Newest first."""
    return document(await ask.verbs.schedules.missed(ask.path("name"), ask.query(MissedQuery).limit))
