"""Jobs: read, listed page by page, steered one by one and many at once, copied, explained; I16."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec import json

from contract.scene import FAILURE
from mainspring.core.partition import parse_id
from mainspring.core.timer import from_micros
from mainspring.errors import ConflictError, InvalidError, NotFoundError
from mainspring.verbs import documents as d
from mainspring.wire import Progress
from verbs.site import NOBODY, Site


async def test_a_job_is_shown_with_result_errors_and_progress(site: Site) -> None:
    jobs = site.verbs().jobs
    done, failed, running = [await site.send() for _ in range(3)]
    await site.end(parse_id(done), result=b'{"x":1}')
    await site.end(parse_id(failed), "failed", failure=FAILURE, reason="error", counts="failure")
    session = await site.session()
    await site.assign(session)
    await site.store.mark_running([(parse_id(running), 1)], [Progress(parse_id(running), 1, 40.0, "half")])
    shown = await jobs.read(done)
    assert (shown.state, bytes(shown.result), shown.errors) == ("completed", b'{"x":1}', [])
    (error,) = (await jobs.read(failed)).errors
    assert (error.attempt, error.type, error.traceback) == (1, FAILURE.type, FAILURE.traceback)
    said = (await jobs.read(running)).progress
    assert said is not None
    assert (said.percent, said.message, said.at) == (40.0, "half", from_micros(site.clock.now()))


async def test_pages_meet_without_gap_or_repeat_while_jobs_come_go_and_run_again(site: Site) -> None:
    jobs = site.verbs().jobs
    ids = []
    for _ in range(7):
        ids.append(await site.send())
        await jobs.cancel(ids[-1])
        site.clock.advance(1)
    which = d.JobQuery(state="cancelled")
    page = await jobs.list(which, limit=3)
    seen = [job.id for job in page.jobs]
    await jobs.retry(seen[-1], d.JobChange())  # the last of the page leaves its place
    await jobs.cancel(await site.send())  # and a newer one comes
    while page.next is not None:
        page = await jobs.list(which, after=page.next, limit=3)
        seen += [job.id for job in page.jobs]
    assert seen == ids[::-1]


async def test_a_page_that_ends_with_the_last_job_says_so(on_sqlite: Site) -> None:
    for _ in range(4):
        await on_sqlite.send()
    jobs = on_sqlite.verbs().jobs
    page = await jobs.list(d.JobQuery(), limit=2)
    assert page.next is not None
    assert (await jobs.list(d.JobQuery(), after=page.next, limit=2)).next is None


async def test_a_cursor_that_was_changed_or_is_another_listings_is_refused(on_sqlite: Site) -> None:
    for _ in range(3):
        await on_sqlite.send()
    jobs = on_sqlite.verbs().jobs
    cursor = (await jobs.list(d.JobQuery(), limit=1)).next
    assert cursor is not None
    flipped = [cursor[:n] + ("A" if c != "A" else "B") + cursor[n + 1 :] for n, c in enumerate(cursor)]
    for bad in (*flipped, cursor[:-1], cursor + "A", "", "é", "x" * 10_000):
        with pytest.raises(InvalidError) as caught:
            await jobs.list(d.JobQuery(), after=bad)
        assert caught.value.field == "after"
    with pytest.raises(InvalidError, match="after"):
        await jobs.list(d.JobQuery(queue="mail"), after=cursor)


async def test_jobs_by_their_ids(on_sqlite: Site) -> None:
    jobs = on_sqlite.verbs().jobs
    ids = [await on_sqlite.send() for _ in range(2)]
    page = await jobs.list(d.JobQuery(ids=[ids[1], NOBODY, ids[0]]))
    assert [job.id for job in page.jobs] == ids[::-1]
    with pytest.raises(InvalidError, match="ids"):
        await jobs.list(d.JobQuery(ids=ids, queue="mail"))
    with pytest.raises(InvalidError, match="id"):
        await jobs.list(d.JobQuery(ids=["x"]))


@pytest.mark.parametrize("bad", [d.JobQuery(state="done"), d.JobQuery(state="")])
async def test_a_state_that_is_none(on_sqlite: Site, bad: d.JobQuery) -> None:
    with pytest.raises(InvalidError, match="state"):
        await on_sqlite.verbs().jobs.list(bad)


async def test_i16_another_tenants_job_does_not_exist(site: Site) -> None:
    mine, theirs = await site.send(), await site.send(tenant="other")
    verbs = site.verbs()
    jobs = verbs.jobs
    for ask in (
        jobs.read(theirs),
        jobs.wait(theirs),
        jobs.explain(theirs),
        jobs.cancel(theirs),
        jobs.update(theirs, d.JobChange(priority=1)),
        jobs.retry(theirs, d.JobChange()),
        jobs.clone(theirs, [d.Variation()]),
        anext(jobs.events(theirs)),
    ):
        with pytest.raises(NotFoundError, match=theirs):
            await ask
    assert [job.id for job in (await jobs.list(d.JobQuery())).jobs] == [mine]
    assert (await jobs.list(d.JobQuery(ids=[theirs]))).jobs == []
    answer = await jobs.bulk(d.BulkRequest(action="cancel", filter=d.JobQuery(ids=[theirs, mine])))
    assert [(item.id, item.done) for item in answer.jobs] == [(theirs, False), (mine, True)]
    assert (await jobs.wait_any(d.WaitRequest(ids=[theirs]))).unknown == [theirs]
    assert (await site.verbs("other").jobs.read(theirs)).state == "pending"


async def test_i16_waiting_for_another_tenants_job_ends_before_the_job_does(site: Site) -> None:
    """Also where the two fall together: whoever waits is told nothing of it."""
    mine, theirs = await site.send(), await site.send(tenant="other")
    answer = await site.verbs().jobs.wait_any(d.WaitRequest(ids=[mine, theirs]))
    assert (answer.ended, answer.unknown) == ([], [theirs])
    await site.end(parse_id(theirs))
    with pytest.raises(NotFoundError):
        await site.verbs().jobs.wait(theirs)
    assert (await site.verbs("other").jobs.wait(theirs)).state == "completed"


async def test_the_first_of_many_to_end_is_told(site: Site) -> None:
    jobs = site.verbs().jobs
    ids = [await site.send() for _ in range(3)]
    waiting = asyncio.create_task(jobs.wait_any(d.WaitRequest(ids=ids)))
    await asyncio.sleep(0)
    await site.end(parse_id(ids[1]), result=b"7")
    async with asyncio.timeout(10):
        (ended,) = (await waiting).ended
    assert (ended.id, ended.kind, bytes(ended.result)) == (ids[1], "send", b"7")
    assert (await jobs.wait_any(d.WaitRequest(ids=[ids[0]], timeout_s=0.01))).ended == []
    for bad in (d.WaitRequest(ids=[]), d.WaitRequest(ids=ids * 400), d.WaitRequest(ids=ids, timeout_s=-1)):
        with pytest.raises(InvalidError):
            await jobs.wait_any(bad)


async def test_a_waiting_job_is_changed_and_that_is_recorded(site: Site) -> None:
    jobs = site.verbs().jobs
    job = await site.send(delay="1h")
    change = d.JobChange(arguments={"to": "b"}, delay=0, priority=10, cpu=2, memory_mb=100)
    after = await jobs.update(job, change)
    assert (bytes(after.arguments), after.priority, after.band) == (b'{"to":"b"}', 10, "high")
    assert (after.resources.cpu, after.resources.memory_mb, after.resources.gpu) == (2.0, 100, 0)
    assert after.due_at == from_micros(site.clock.now())
    assert [ready.job for ready in await site.ready()] == [parse_id(job)]
    (entry,) = await site.store.list_audit("default", after=0, limit=10)
    content = json.decode(entry.content or b"")
    assert (content["action"], content["target"]) == ("update_job", job)
    assert content["before"]["priority"] == 5
    assert content["after"]["priority"] == 10


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (d.JobChange(), "change"),
        (d.JobChange(priority=11), "priority"),
        (d.JobChange(at=from_micros(0) - timedelta(days=1)), "at"),
        (d.JobChange(delay="soon"), "delay"),
        (d.JobChange(delay=1, at=from_micros(0)), "delay"),
        (d.JobChange(cpu=0), "cpu"),
        (d.JobChange(arguments={"a": float("nan")}), "arguments"),
    ],
)
async def test_a_change_that_makes_no_sense(on_sqlite: Site, change: d.JobChange, field: str) -> None:
    job = await on_sqlite.send()
    with pytest.raises(InvalidError) as caught:
        await on_sqlite.verbs().jobs.update(job, change)
    assert caught.value.field == field
    assert await on_sqlite.audited() == []


async def test_a_job_that_began_meanwhile_is_not_changed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job = parse_id(await site.send())
    change_jobs, session = site.store.change_jobs, await site.session()

    async def begin_first(changes: Any) -> Any:
        await site.assign(session, [job])
        await site.settle(session, job, 1, "pending")
        return await change_jobs(changes)

    monkeypatch.setattr(site.store, "change_jobs", begin_first)
    with pytest.raises(ConflictError):
        await site.verbs().jobs.update(
            str((await site.verbs().jobs.list(d.JobQuery())).jobs[0].id), d.JobChange(priority=9)
        )
    assert (await site.record(job)).priority == 5


async def test_cancel_and_retry(site: Site) -> None:
    jobs = site.verbs().jobs
    job = await site.send()
    with pytest.raises(ConflictError, match="only failed and cancelled"):
        await jobs.retry(job, d.JobChange())
    assert [await jobs.cancel(job), await jobs.cancel(job)] == ["cancelled", "ended"]
    with pytest.raises(ConflictError, match="is cancelled: only pending"):
        await jobs.update(job, d.JobChange(priority=1))
    again = await jobs.retry(job, d.JobChange(delay="1m", arguments={"n": 2}))
    assert (again.state, bytes(again.arguments)) == ("pending", b'{"n":2}')
    assert (again.due_at - from_micros(site.clock.now())).total_seconds() == 60
    assert await site.audited() == [("cancel_job", job), ("retry_job", job)]


async def test_clones_differ_as_they_are_told_to(site: Site) -> None:
    jobs = site.verbs().jobs
    first = await jobs.draft(
        d.SubmitRequest(
            kind="send",
            arguments={"to": "a", "n": 1},
            options={
                "key": "k",
                "priority": 8,
                "deadline": "1h",
                "labels": ["x"],
                "cpu": 1,
                "at": "2040-01-01T00:00:00Z",
            },
        )
    )
    (made,) = await jobs.submit([first])
    job = (await jobs.list(d.JobQuery())).jobs[0].id
    site.clock.advance(60)
    variations = [d.Variation(), d.Variation(arguments={"n": 2}, options={"priority": 1, "delay": "5m"})]
    same, other = [await jobs.read(one.id) for one in await jobs.clone(job, variations)]
    assert (bytes(same.arguments), same.priority, same.key, same.labels) == (b'{"to":"a","n":1}', 8, None, ("x",))
    assert same.due_at == from_micros(site.clock.now())
    assert same.deadline_at == from_micros(site.clock.now()) + timedelta(hours=1)
    assert (bytes(other.arguments), other.priority) == (b'{"to":"a","n":2}', 1)
    assert (other.due_at - other.created_at).total_seconds() == 300
    assert not made.existed
    for bad in ([], [d.Variation()] * 1001, [d.Variation(options={"tenant": "b"})]):
        with pytest.raises(InvalidError):
            await jobs.clone(job, bad)


async def test_bulk_does_one_thing_to_all_that_fit(site: Site) -> None:
    jobs = site.verbs().jobs
    mail = [await site.send() for _ in range(3)]
    other = await site.send(queue="other")
    ended = await site.send()
    await jobs.cancel(ended)
    tried = await jobs.bulk(d.BulkRequest(action="cancel", filter=d.JobQuery(queue="mail"), dry_run=True))
    assert (tried.matched, tried.changed, tried.more) == (3, 0, False)
    some = await jobs.bulk(d.BulkRequest(action="cancel", filter=d.JobQuery(queue="mail"), limit=2))
    assert (some.matched, some.changed, some.more) == (2, 2, True)
    rest = await jobs.bulk(d.BulkRequest(action="cancel", filter=d.JobQuery(queue="mail")))
    assert (rest.matched, rest.more) == (1, False)
    moved = await jobs.bulk(d.BulkRequest(action="reprioritise", filter=d.JobQuery(queue="other"), priority=9))
    assert [(item.id, item.done, item.state) for item in moved.jobs] == [(other, True, "pending")]
    again = await jobs.bulk(d.BulkRequest(action="retry", filter=d.JobQuery(kind="send")))
    assert again.changed == 4
    assert {job.id for job in (await jobs.list(d.JobQuery(state="pending"))).jobs} == {*mail, other, ended}
    named = [action for action, _ in await site.audited()]
    assert named == ["cancel_job", *["bulk_jobs"] * 4]


async def test_bulk_by_ids_says_what_became_of_each(site: Site) -> None:
    jobs = site.verbs().jobs
    waiting, done = await site.send(), await site.send()
    await site.end(parse_id(done))
    answer = await jobs.bulk(d.BulkRequest(action="retry", filter=d.JobQuery(ids=[done, NOBODY, waiting])))
    assert [(item.id, item.done, item.state) for item in answer.jobs] == [
        (done, False, "completed"),
        (NOBODY, False, None),
        (waiting, False, "pending"),
    ]
    assert (answer.matched, answer.changed) == (2, 0)
    assert await site.audited() == []


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (d.BulkRequest(action="cancel", filter=d.JobQuery()), "filter"),
        (d.BulkRequest(action="cancel", filter=d.JobQuery(queue="q"), priority=1), "priority"),
        (d.BulkRequest(action="reprioritise", filter=d.JobQuery(queue="q")), "priority"),
        (d.BulkRequest(action="retry", filter=d.JobQuery(queue="q"), limit=0), "limit"),
        (d.BulkRequest(action="retry", filter=d.JobQuery(queue="q"), limit=10_001), "limit"),
        (d.BulkRequest(action="retry", filter=d.JobQuery(state="no")), "state"),
    ],
)
async def test_bulk_that_makes_no_sense(on_sqlite: Site, request_: d.BulkRequest, field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        await on_sqlite.verbs().jobs.bulk(request_)
    assert caught.value.field == field


async def test_bulk_goes_through_more_than_a_chunk(on_sqlite: Site) -> None:
    jobs = on_sqlite.verbs().jobs
    await jobs.submit([await jobs.draft(d.SubmitRequest(kind="work"))] * 1203)
    answer = await jobs.bulk(d.BulkRequest(action="cancel", filter=d.JobQuery(kind="work"), limit=1202))
    assert (answer.matched, answer.changed, answer.more) == (1202, 1202, True)


async def test_explained_in_words(site: Site) -> None:
    job = await site.send()
    found = await site.verbs().jobs.explain(job)
    assert (found.id, found.state, [cause.code for cause in found.causes]) == (job, "pending", ["no_worker"])
