"""Jobs, wherever the verbs are spoken."""

import asyncio
from contextlib import aclosing
from datetime import timedelta

import pytest
from msgspec import json

from contract.scene import START
from mainspring.core.draft import Draft
from mainspring.core.options import NO_OPTIONS, parse_options
from mainspring.core.partition import format_id
from mainspring.core.timer import from_micros
from mainspring.errors import ConflictError, InvalidError, NotFoundError
from mainspring.verbs import documents as d
from service.places import Place

NOBODY = "00000000-0001-7002-8000-000000000003"
NOW = from_micros(START)


async def test_submit_answers_each_draft(place: Place) -> None:
    keyed = parse_options(key="k")
    drafts = [Draft("send", b'{"to":"a"}', NO_OPTIONS), Draft("send", b'{"to":"b"}', keyed)]
    first = await place.verbs().jobs.submit(drafts)
    again = await place.verbs().jobs.submit([*drafts[1:], Draft("send", b'{"to":"c"}', keyed)])
    assert [answer.existed for answer in first] == [False, False]
    assert (again[0].id, again[0].existed, again[1].conflict) == (first[1].id, True, True)
    document = await place.verbs().jobs.read(format_id(first[0].id))
    assert json.decode(document.arguments) == {"to": "a"}
    assert await place.verbs().jobs.submit([]) == []


async def test_options_arrive_as_they_were_said(place: Place) -> None:
    said = parse_options(
        queue="q/with slash",
        client="c",
        priority=9,
        complexity=2,
        retries=7,
        backoff="3s",
        timeout="5s",
        at=NOW + timedelta(hours=1),
        deadline=NOW + timedelta(hours=3),
        start_by="2h",
        key="a key",
        limit_key="l",
        tags=["x", "y"],
        labels=["gpu"],
        cpu=0.5,
        memory_mb=100,
    )
    (made,) = await place.verbs().jobs.submit([Draft("count", b"{}", said)])
    job = await place.verbs().jobs.read(format_id(made.id))
    assert (job.queue, job.client, job.priority, job.complexity, job.retries) == ("q/with slash", "c", 9, 2, 7)
    assert (job.backoff_s, job.timeout_s, job.due_at, job.deadline_at) == (
        3.0,
        5.0,
        NOW + timedelta(hours=1),
        NOW + timedelta(hours=3),
    )
    assert (job.start_by, job.key, job.limit_key) == (NOW + timedelta(hours=2), "a key", "l")
    assert (job.tags, job.labels) == (("x", "y"), ("gpu",))
    assert (job.resources.cpu, job.resources.memory_mb) == (0.5, 100)


async def test_a_draft_without_code_has_the_kinds_defaults(place: Place) -> None:
    verbs = place.verbs()
    draft = await verbs.jobs.draft(d.SubmitRequest(kind="send", arguments={"to": "ü"}, options={"delay": "10m"}))
    (made,) = await verbs.jobs.submit([draft])
    job = await verbs.jobs.read(format_id(made.id))
    assert (job.queue, job.tags, job.due_at) == ("mail", ("post",), NOW + timedelta(minutes=10))
    assert json.decode(job.arguments) == {"to": "ü"}


async def _hand_in(place: Place, **request: object) -> None:
    """Refused when it is checked, or when it is submitted: a server knows the kinds, its client does not."""
    verbs = place.verbs()
    await verbs.jobs.submit([await verbs.jobs.draft(d.SubmitRequest(**request))])  # type: ignore[arg-type]


async def test_what_cannot_be_submitted(place: Place) -> None:
    with pytest.raises(InvalidError, match="'sned'; it knows count, send"):
        await _hand_in(place, kind="sned")
    with pytest.raises(InvalidError) as caught:
        await _hand_in(place, kind="send", options={"priority": 11})
    assert caught.value.field == "priority"
    with pytest.raises(InvalidError) as caught:
        await _hand_in(place, kind="send", options={"tenant": "other"})
    assert caught.value.field == "tenant"
    assert (await place.verbs().jobs.list(d.JobQuery())).jobs == []


async def test_listing_pages_and_filters(place: Place) -> None:
    jobs = [await place.submit() for _ in range(5)]
    other = await place.submit("count", queue="q", tags=["urgent"])
    await place.submit("send", tenant="acme")
    verbs = place.verbs()

    async def found(**which: str) -> list[str]:
        return [job.id for job in (await verbs.jobs.list(d.JobQuery(**which))).jobs]  # type: ignore[arg-type]

    assert set(await found(kind="send")) == set(jobs)
    assert await found(queue="q") == await found(tag="urgent") == await found(kind="count") == [other]
    assert await found(state="completed") == await found(schedule="none") == []
    pages: list[str] = []
    after: str | None = None
    while True:
        page = await verbs.jobs.list(d.JobQuery(kind="send"), after=after, limit=2)
        pages += [job.id for job in page.jobs]
        after = page.next
        if after is None:
            break
    assert pages == sorted(jobs, reverse=True)
    named = await verbs.jobs.list(d.JobQuery(ids=[other, NOBODY]))
    assert [job.id for job in named.jobs] == [other]


async def test_what_cannot_be_listed(place: Place) -> None:
    verbs = place.verbs()
    with pytest.raises(InvalidError, match="state"):
        await verbs.jobs.list(d.JobQuery(state="done"))
    with pytest.raises(InvalidError, match="limit"):
        await verbs.jobs.list(d.JobQuery(), limit=0)
    with pytest.raises(InvalidError, match="after"):
        await verbs.jobs.list(d.JobQuery(), after="nonsense")


async def test_reading_a_job_that_failed_and_one_that_was_done(place: Place) -> None:
    good, bad = await place.submit(), await place.submit()
    await place.complete(good, b'{"n": [1, null]}')
    await place.fail(bad)
    verbs = place.verbs()
    done = await verbs.jobs.read(good)
    assert (done.state, json.decode(done.result), done.errors) == ("completed", {"n": [1, None]}, [])
    failed = await verbs.jobs.read(bad)
    assert (failed.state, failed.reason, bytes(failed.result)) == ("failed", "error", b"null")
    assert [(error.attempt, error.type, error.message) for error in failed.errors] == [(1, "ValueError", "no")]
    for job in (NOBODY, await place.submit(tenant="acme")):
        with pytest.raises(NotFoundError, match=job):
            await verbs.jobs.read(job)
    with pytest.raises(InvalidError, match="not a job id") as caught:
        await verbs.jobs.read("nonsense")
    assert caught.value.field == "id"


async def test_waiting(place: Place) -> None:
    first, second = await place.submit(), await place.submit()
    waiting = [asyncio.create_task(place.verbs().jobs.wait(job)) for job in (first, second, first)]
    await asyncio.sleep(0)
    await place.complete(first, b"1")
    await place.fail(second)
    ended = await asyncio.gather(*waiting)
    assert [(end.id, end.kind, end.state) for end in ended] == [
        (first, "send", "completed"),
        (second, "send", "failed"),
        (first, "send", "completed"),
    ]
    assert bytes(ended[0].result) == b"1"
    assert ended[1].error is not None
    assert (ended[1].error.type, ended[1].error.reason) == ("ValueError", "error")
    for job in (NOBODY, await place.submit(tenant="acme")):
        with pytest.raises(NotFoundError, match=job):
            await place.verbs().jobs.wait(job)


async def test_waiting_for_any(place: Place) -> None:
    first, second = await place.submit(), await place.submit()
    verbs = place.verbs()
    none = await verbs.jobs.wait_any(d.WaitRequest(ids=[first, second], timeout_s=0.01))
    assert (none.ended, none.unknown) == ([], [])
    await place.complete(second)
    some = await verbs.jobs.wait_any(d.WaitRequest(ids=[first, second, NOBODY], timeout_s=10))
    assert [end.id for end in some.ended] == [second]
    unknown = await verbs.jobs.wait_any(d.WaitRequest(ids=[first, NOBODY], timeout_s=10))
    assert (unknown.ended, unknown.unknown) == ([], [NOBODY])
    with pytest.raises(InvalidError, match="ids"):
        await verbs.jobs.wait_any(d.WaitRequest(ids=[]))


async def test_explaining(place: Place) -> None:
    job = await place.submit(delay="1h")
    told = await place.verbs().jobs.explain(job)
    assert (told.id, told.kind, told.state) == (job, "send", "pending")
    assert told.causes
    with pytest.raises(NotFoundError, match=NOBODY):
        await place.verbs().jobs.explain(NOBODY)


async def test_changing_a_job_that_waits(place: Place) -> None:
    job = await place.submit(delay="1h")
    verbs = place.verbs()
    changed = await verbs.jobs.update(job, d.JobChange(priority=9, arguments={"to": "c"}, at=NOW + timedelta(days=1)))
    assert (changed.priority, json.decode(changed.arguments)) == (9, {"to": "c"})
    assert changed.due_at == NOW + timedelta(days=1)
    again = await verbs.jobs.update(job, d.JobChange(delay="2h", cpu=1.5))
    assert (again.priority, again.due_at, again.resources.cpu) == (9, NOW + timedelta(hours=2), 1.5)
    with pytest.raises(InvalidError, match="priority"):
        await verbs.jobs.update(job, d.JobChange(priority=0))
    assert await verbs.jobs.cancel(job) == "cancelled"
    with pytest.raises(ConflictError, match="is cancelled"):
        await verbs.jobs.update(job, d.JobChange(priority=1))


async def test_cancelling(place: Place) -> None:
    waiting, running = await place.submit(delay="1h"), await place.submit()
    await place.scene.assign(await place.scene.session())
    verbs = place.verbs()
    assert [await verbs.jobs.cancel(job) for job in (waiting, running, waiting)] == ["cancelled", "requested", "ended"]
    assert (await verbs.jobs.read(running)).cancel_requested
    with pytest.raises(NotFoundError):
        await verbs.jobs.cancel(NOBODY)


async def test_running_a_job_again(place: Place) -> None:
    job = await place.submit()
    await place.fail(job)
    again = await place.verbs().jobs.retry(job, d.JobChange(priority=8))
    assert (again.state, again.failures, again.priority) == ("pending", 0, 8)
    with pytest.raises(ConflictError, match="only failed and cancelled"):
        await place.verbs().jobs.retry(job, d.JobChange())


async def test_cloning(place: Place) -> None:
    (made,) = await place.verbs().jobs.submit([Draft("send", b'{"to":"a","n":1}', parse_options(key="k", priority=7))])
    variations = [d.Variation(), d.Variation(arguments={"to": "b"}, options={"delay": "1h"})]
    first, second = await place.verbs().jobs.clone(format_id(made.id), variations)
    plain, varied = [await place.verbs().jobs.read(one.id) for one in (first, second)]
    assert (plain.priority, plain.key, json.decode(plain.arguments)) == (7, None, {"to": "a", "n": 1})
    assert (varied.due_at, json.decode(varied.arguments)) == (NOW + timedelta(hours=1), {"to": "b", "n": 1})
    with pytest.raises(InvalidError, match="variations"):
        await place.verbs().jobs.clone(first.id, [])


async def test_many_at_once(place: Place) -> None:
    jobs = {await place.submit(delay="1h") for _ in range(3)}
    await place.submit("count", delay="1h")
    verbs = place.verbs()
    which = d.JobQuery(kind="send")
    dry = await verbs.jobs.bulk(d.BulkRequest(action="cancel", filter=which, dry_run=True))
    assert (dry.matched, dry.changed, dry.more) == (3, 0, False)
    some = await verbs.jobs.bulk(d.BulkRequest(action="reprioritise", filter=which, priority=2, limit=2))
    assert (some.matched, some.changed, some.more) == (2, 2, True)
    done = await verbs.jobs.bulk(d.BulkRequest(action="cancel", filter=d.JobQuery(ids=[*jobs, NOBODY])))
    assert (done.matched, done.changed) == (3, 3)
    assert {item.id for item in done.jobs if item.done} == jobs
    assert [item.state for item in done.jobs if item.id == NOBODY] == [None]
    with pytest.raises(InvalidError, match="priority"):
        await verbs.jobs.bulk(d.BulkRequest(action="cancel", filter=which, priority=2))


async def test_following_a_job(place: Place) -> None:
    job = await place.submit()
    async with aclosing(place.verbs().jobs.events(job)) as events:
        first = await anext(events)
        assert (first.id, first.state) == (job, "pending")
        await place.complete(job)
        rest = [event async for event in events]
    assert (rest[-1].event, rest[-1].state) == ("ended", "completed")
    with pytest.raises(NotFoundError):
        await anext(place.verbs().jobs.events(NOBODY))


async def test_tenants_do_not_see_each_other(place: Place) -> None:
    theirs = await place.submit(tenant="acme", delay="1h")
    verbs = place.verbs()
    assert (await verbs.jobs.list(d.JobQuery())).jobs == []
    for call in (
        verbs.jobs.explain(theirs),
        verbs.jobs.cancel(theirs),
        verbs.jobs.update(theirs, d.JobChange(priority=1)),
        verbs.jobs.retry(theirs, d.JobChange()),
        verbs.jobs.clone(theirs, [d.Variation()]),
    ):
        with pytest.raises(NotFoundError, match=theirs):
            await call
    assert (await place.verbs("acme").jobs.read(theirs)).tenant == "acme"
    none = await verbs.jobs.bulk(d.BulkRequest(action="cancel", filter=d.JobQuery(ids=[theirs])))
    assert none.changed == 0
