"""Jobs, one at a time and found by what they are: reading, waiting, steering. Submits are in `submits`, events in `events`."""

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.api.asking import Ask
from mainspring.api.limits import MAX_BULK, MAX_PAGE, MAX_WAIT_IDS, MAX_WAIT_S
from mainspring.api.operations import Content, Room
from mainspring.api.replies import Reply, document, nothing
from mainspring.api.waiting import wait_for
from mainspring.core.job import MAX_NAME
from mainspring.core.lifecycle import State
from mainspring.core.options import whole_number
from mainspring.errors import InvalidError
from mainspring.verbs import documents as d

JOBS = Room("Jobs")

Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many at most.")]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Cursor = Annotated[str, Meta(max_length=500)]
WaitSeconds = Annotated[float, Meta(ge=0, le=MAX_WAIT_S, description="How long to wait, in seconds.")]


class JobsQuery(Struct, forbid_unknown_fields=True):
    state: Annotated[State | None, Meta(description="Only jobs in this state.")] = None
    queue: Annotated[Name | None, Meta(description="Only jobs of this queue.")] = None
    kind: Annotated[Name | None, Meta(description="Only jobs of this kind.")] = None
    tag: Annotated[Name | None, Meta(description="Only jobs with this tag.")] = None
    schedule: Annotated[Name | None, Meta(description="Only jobs of the schedule of this name.")] = None
    after: Annotated[Cursor | None, Meta(description="`next` of the page before.")] = None
    limit: Limit = 100


class WaitQuery(Struct, forbid_unknown_fields=True):
    timeout_s: WaitSeconds = 30.0


class CancelAnswer(d.Answer, frozen=True, kw_only=True):
    """`cancelled`: it is over. `requested`: it runs and was asked to stop. `ended`: it was over before."""

    state: str


@JOBS.get("/v1/jobs", "list_jobs", query=JobsQuery, answer=d.JobsPage)
async def list_jobs(ask: Ask) -> Reply:
    """List jobs. Newest first; where an ended state is asked for, latest end first."""
    given = ask.query(JobsQuery)
    state = None if given.state is None else str(given.state)
    which = d.JobQuery(state=state, queue=given.queue, kind=given.kind, tag=given.tag, schedule=given.schedule)
    return document(await ask.verbs.jobs.list(which, after=given.after, limit=given.limit))


@JOBS.get("/v1/jobs/{id}", "read_job", answer=d.JobDocument)
async def read_job(ask: Ask) -> Reply:
    """Read a job. Everything that is known of it, with its arguments, its result and its failed attempts."""
    return document(await ask.verbs.jobs.read(ask.path("id")))


@JOBS.get(
    "/v1/jobs/{id}/wait",
    "wait_job",
    query=WaitQuery,
    answers={200: Content(d.EndDocument), 204: Content(description="It has not ended in that time.")},
)
async def wait_job(ask: Ask) -> Reply:
    """Wait for a job to end. Answered when it has; 204 after `timeout_s`, then ask again."""
    timeout_s = ask.query(WaitQuery).timeout_s
    ended = await wait_for(ask, ask.verbs.jobs.wait(ask.path("id")), timeout_s)
    return nothing() if ended is None else document(ended)


@JOBS.post("/v1/jobs/wait", "wait_jobs", body=d.WaitRequest, answer=d.WaitAnswer)
async def wait_jobs(ask: Ask) -> Reply:
    """Wait for the first of many jobs to end. Answered with all that have ended; with none of them after `timeout_s`."""
    asked = await ask.document(d.WaitRequest)
    if not 1 <= len(asked.ids) <= MAX_WAIT_IDS:
        raise InvalidError("ids", f"has {len(asked.ids)} entries; 1 to {MAX_WAIT_IDS} are allowed")
    if not 0 <= asked.timeout_s <= MAX_WAIT_S:
        raise InvalidError("timeout_s", f"expected seconds from 0 to {MAX_WAIT_S:g}, got {asked.timeout_s:g}")
    found = await wait_for(ask, ask.verbs.jobs.wait_any(asked), asked.timeout_s + 1)
    return document(found if found is not None else d.WaitAnswer(ended=[]))


@JOBS.get("/v1/jobs/{id}/explain", "explain_job", answer=d.Explanation)
async def explain_job(ask: Ask) -> Reply:
    """Explain a job. Why it is not running, or how it ended, in words."""
    return document(await ask.verbs.jobs.explain(ask.path("id")))


@JOBS.patch("/v1/jobs/{id}", "update_job", body=d.JobChange, answer=d.JobDocument, problems=(409,))
async def update_job(ask: Ask) -> Reply:
    """Change a waiting job. What is left out stays as it is; 409 where it does not wait any more."""
    return document(await ask.verbs.jobs.update(ask.path("id"), await ask.document(d.JobChange)))


@JOBS.post("/v1/jobs/{id}/cancel", "cancel_job", answer=CancelAnswer)
async def cancel_job(ask: Ask) -> Reply:
    """Cancel a job. One that waits ends at once, one that runs is asked to stop."""
    return document(CancelAnswer(state=await ask.verbs.jobs.cancel(ask.path("id"))))


@JOBS.post(
    "/v1/jobs/{id}/retry", "retry_job", body=d.JobChange, body_optional=True, answer=d.JobDocument, problems=(409,)
)
async def retry_job(ask: Ask) -> Reply:
    """Run a failed or cancelled job again. From the start, with the changes in the body if there is one."""
    change = await ask.document(d.JobChange, d.JobChange())
    return document(await ask.verbs.jobs.retry(ask.path("id"), change))


@JOBS.post(
    "/v1/jobs/{id}/clone", "clone_job", body=d.CloneRequest, body_optional=True, answer=list[d.Submitted], status=201
)
async def clone_job(ask: Ask) -> Reply:
    """Submit new jobs like this one. One for each variation, due now unless it says otherwise; keys are not copied."""
    asked = await ask.document(d.CloneRequest, d.CloneRequest())
    if not 1 <= len(asked.variations) <= MAX_PAGE:
        raise InvalidError("variations", f"has {len(asked.variations)} entries; 1 to {MAX_PAGE} are allowed")
    with ask.parts.quotas.jobs(ask.one_tenant, len(asked.variations)):
        return document(await ask.verbs.jobs.clone(ask.path("id"), asked.variations), 201)


@JOBS.post("/v1/jobs/bulk", "bulk_jobs", body=d.BulkRequest, answer=d.BulkAnswer)
async def bulk_jobs(ask: Ask) -> Reply:
    """Do one thing to many jobs. Cancel, retry or reprioritise those that a filter finds; `dry_run` only counts them."""
    asked = await ask.document(d.BulkRequest)
    whole_number("limit", asked.limit, 1, MAX_BULK)
    if asked.filter.ids is not None and len(asked.filter.ids) > MAX_BULK:
        raise InvalidError("filter.ids", f"has {len(asked.filter.ids)} entries; at most {MAX_BULK} are allowed")
    return document(await ask.verbs.jobs.bulk(asked))
