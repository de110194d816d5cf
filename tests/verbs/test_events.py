"""Streams of events: of all ended jobs, and of single jobs."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from mainspring.core.partition import make_id, parse_id
from mainspring.core.timer import SECOND
from mainspring.errors import InvalidError, NotFoundError
from mainspring.store.contract import EndedJob
from mainspring.verbs import events
from mainspring.verbs.watch import JobWatch
from mainspring.wire import Progress
from verbs.site import NOBODY, Site


class Listening:
    """What a stream gives, gathered while the test goes on; everybody is let go at the end."""

    def __init__(self, stream: AsyncGenerator[Any, None]) -> None:
        self._stream = stream
        self._given: asyncio.Queue[Any] = asyncio.Queue()
        self._task = asyncio.create_task(self._gather())

    async def _gather(self) -> None:
        async for item in self._stream:
            self._given.put_nowait(item)

    async def next(self) -> Any:
        async with asyncio.timeout(10):
            return await self._given.get()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._stream.aclose()

    async def ended(self) -> None:
        """Until the stream ends by itself."""
        async with asyncio.timeout(10):
            await self._task

    @property
    def silent(self) -> bool:
        return self._given.empty()


class Joins:
    """Tells when listeners have joined a log."""

    def __init__(self, log: events.EventLog) -> None:
        self._join = log._join
        self._joined = asyncio.Semaphore(0)
        log._join = self._noted  # type: ignore[method-assign]

    async def _noted(self, tenant: str | None, queue: str | None) -> Any:
        listener = await self._join(tenant, queue)
        self._joined.release()
        return listener

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(10):
            for _ in range(count):
                await self._joined.acquire()


async def finish(site: Site, **options: Any) -> str:
    job = await site.send(**options)
    await site.end(parse_id(job))
    return job


async def nobody_listens(site: Site) -> None:
    """A server hears a little later that a listener has left."""
    async with asyncio.timeout(10):
        while site.engine.events._listeners:  # noqa: ASYNC110  (nobody says when the last one has gone)
            await asyncio.sleep(0.001)


async def test_whoever_listens_hears_of_each_end_once(site: Site) -> None:
    joins = Joins(site.engine.events)
    await finish(site)  # before anybody listened
    streams = [
        Listening(site.verbs(tenant).system.events(queue))
        for tenant, queue in (("default", None), ("default", "mail"), ("default", "other"), ("acme", None))
    ]
    await joins.wait(4)
    ended = [await finish(site) for _ in range(3)]
    theirs = await finish(site, tenant="acme")
    last = await finish(site, queue="other")
    everything = [await streams[0].next() for _ in range(4)]
    assert {event.id for _, event in everything} == {*ended, last}
    assert all((event.event, event.state, event.kind) == ("ended", "completed", "send") for _, event in everything)
    assert {(await streams[1].next())[1].id for _ in range(3)} == set(ended)
    assert (await streams[2].next())[1].id == last
    assert (await streams[3].next())[1].id == theirs
    assert all(stream.silent for stream in streams)
    for stream in streams:
        await stream.end()
    await nobody_listens(site)


async def test_whoever_comes_back_goes_on_behind_the_last_event(site: Site) -> None:
    joins = Joins(site.engine.events)
    stream = Listening(site.verbs().system.events())
    await joins.wait(1)
    await finish(site)
    last, _ = await stream.next()
    await stream.end()
    site.clock.advance(5)
    missed = [await finish(site) for _ in range(3)]
    again = Listening(site.verbs().system.events(after=last))
    found = [await again.next() for _ in range(3)]
    assert {event.id for _, event in found} == set(missed)
    more = await finish(site)
    assert (await again.next())[1].id == more
    assert again.silent
    await again.end()


async def test_too_much_to_catch_up_is_a_reset(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEPT", 3)
    start = f"{site.clock.now()}-{NOBODY}"
    for _ in range(4):
        site.clock.advance(1)
        await finish(site)
    site.clock.advance(3)
    stream = Listening(site.verbs().system.events(after=start))
    id_, event = await stream.next()
    assert event is None
    job = await finish(site)
    assert (await stream.next())[1].id == job
    await stream.end()
    again = Listening(site.verbs().system.events(after=id_))  # goes on behind the reset
    assert (await again.next())[1].id == job
    await again.end()


async def test_whoever_was_away_for_hours_is_told_to_list_again(on_sqlite: Site) -> None:
    start = f"{on_sqlite.clock.now()}-{NOBODY}"
    on_sqlite.clock.advance(3601)
    stream = Listening(on_sqlite.verbs().system.events(after=start))
    id_, event = await stream.next()
    assert (id_, event) == (f"{on_sqlite.clock.now()}-{NOBODY}", None)
    await stream.end()


async def test_whoever_falls_behind_the_log_is_told(on_sqlite: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEPT", 3)
    log = events.EventLog(on_sqlite.store)
    unsubscribe, joins = on_sqlite.store.subscribe(log.hear), Joins(log)
    slow, quick = log.listen("default"), Listening(log.listen("default"))
    waiting = asyncio.ensure_future(anext(slow))
    await joins.wait(2)
    async with asyncio.timeout(10):
        jobs = [await finish(on_sqlite)]
        assert (await waiting)[1].id == jobs[0]  # type: ignore[union-attr]
        assert (await quick.next())[1].id == jobs[0]
        for _ in range(5):
            jobs.append(await finish(on_sqlite))
            assert (await quick.next())[1].id == jobs[-1]
        _, event = await anext(slow)
        assert event is None
        jobs.append(await finish(on_sqlite))
        assert (await anext(slow))[1].id == jobs[-1]  # type: ignore[union-attr]
    await slow.aclose()
    await quick.end()
    unsubscribe()
    log.close()


@pytest.mark.parametrize("bad", ["", "x", "5", "5-", f"-5-{NOBODY}", f"٣-{NOBODY}", f"{'9' * 19}-{NOBODY}", "5-x"])
async def test_an_id_that_is_none_is_refused_before_anything_begins(on_sqlite: Site, bad: str) -> None:
    with pytest.raises(InvalidError) as caught:
        on_sqlite.verbs().system.events(after=bad)
    assert caught.value.field == "after"


class Ends:
    """A store that shows ends as the test says: late ones too."""

    def __init__(self, site: Site) -> None:
        self._real = site.store
        self.clock = site.clock
        self.rows: list[EndedJob] = []
        self.queries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def add(self, ended_at: int) -> EndedJob:
        job = EndedJob(make_id(1, 2, len(self.rows)), "default", "q", "k", "completed", None, 1, ended_at)
        self.rows.append(job)
        return job

    async def list_ended(self, tenants: Sequence[str], since: int, limit: int) -> list[EndedJob]:
        self.queries += 1
        found = sorted((j for j in self.rows if j.finished_at >= since), key=lambda j: (j.finished_at, j.job))
        return found[:limit]


async def test_an_end_that_becomes_visible_late_is_told_and_none_twice(on_sqlite: Site) -> None:
    store = Ends(on_sqlite)
    log = events.EventLog(store)  # type: ignore[arg-type]
    now = store.clock.now()
    joins = Joins(log)
    stream = Listening(log.listen("default"))
    await joins.wait(1)
    second = store.add(now)
    await log._look()
    assert (await stream.next())[0] == events.event_id(second)
    first = store.add(now - SECOND)  # ended earlier, committed later
    for _ in range(3):
        await log._look()
    assert (await stream.next())[0] == events.event_id(first)
    assert stream.silent
    await stream.end()
    log.close()


async def test_more_ends_in_one_moment_than_a_page_holds(on_sqlite: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_PAGE", 4)
    store = Ends(on_sqlite)
    log = events.EventLog(store)  # type: ignore[arg-type]
    joins = Joins(log)
    stream = Listening(log.listen("default"))
    await joins.wait(1)
    now = store.clock.now()
    wanted = {events.event_id(store.add(at)) for at in [now] * 11 + [now + 1] * 3}
    await log._look()
    assert {(await stream.next())[0] for _ in range(14)} == wanted
    assert stream.silent
    await stream.end()
    log.close()


async def test_all_listeners_share_one_query_per_look(on_sqlite: Site) -> None:
    store = Ends(on_sqlite)
    log = events.EventLog(store)  # type: ignore[arg-type]
    joins = Joins(log)
    streams = [Listening(log.listen("default")) for _ in range(20)]
    await joins.wait(20)
    before = store.queries
    store.add(store.clock.now())
    await log._look()
    for stream in streams:
        await stream.next()
    assert store.queries == before + 1
    for stream in streams:
        await stream.end()
    log.close()


async def test_streams_end_when_the_engine_closes(on_sqlite: Site) -> None:
    joins = Joins(on_sqlite.engine.events)
    all_, one = (
        Listening(on_sqlite.verbs().system.events()),
        Listening(on_sqlite.verbs().jobs.events(await on_sqlite.send())),
    )
    await joins.wait(1)
    await one.next()
    on_sqlite.engine.close()
    await all_.ended()
    await one.ended()


# --- single jobs


async def test_a_job_is_followed_to_its_end(site: Site) -> None:
    job = await site.send()
    key = parse_id(job)
    stream = Listening(site.verbs().jobs.events(job))
    first = await stream.next()
    assert (first.event, first.state, first.attempt) == ("state", "pending", 0)
    look, session = site.engine.watch._look, await site.session()
    await site.assign(session, [key])
    await look()
    started = await stream.next()
    assert (started.event, started.state, started.attempt) == ("started", "assigned", 1)
    await site.store.mark_running([(key, 1)], [Progress(key, 1, 50.0, "half")])
    await look()
    progress = await stream.next()
    assert (progress.event, progress.progress.percent, progress.progress.message) == ("progress", 50.0, "half")
    await site.fail(session, key, 1, again_in_s=0)
    await look()
    retrying = await stream.next()
    assert (retrying.event, retrying.state) == ("retrying", "pending")
    await site.assign(session, [key])
    await look()
    assert (await stream.next()).event == "started"
    await site.settle(session, key, 2, "completed")  # its hint is enough
    ended = await stream.next()
    assert (ended.event, ended.state) == ("ended", "completed")
    await stream.ended()
    assert not site.engine.watch._followers


async def test_a_job_that_has_ended_or_is_none(on_sqlite: Site) -> None:
    job = await finish(on_sqlite)
    stream = Listening(on_sqlite.verbs().jobs.events(job))
    assert (await stream.next()).event == "ended"
    await stream.ended()
    with pytest.raises(NotFoundError):
        await anext(on_sqlite.verbs().jobs.events(NOBODY))
    with pytest.raises(InvalidError):
        on_sqlite.verbs().jobs.events("x")
    assert not on_sqlite.engine.watch._followers


async def test_all_followers_share_one_read(on_sqlite: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = JobWatch(on_sqlite.store)
    jobs = [parse_id(await on_sqlite.send()) for _ in range(5)]
    streams = [Listening(watch.follow(job, None)) for job in jobs * 2]
    for stream in streams:
        await stream.next()
    read, reads = on_sqlite.store.read_jobs, 0

    async def counted(ids: Sequence[bytes]) -> Any:
        nonlocal reads
        reads += 1
        return await read(ids)

    monkeypatch.setattr(on_sqlite.store, "read_jobs", counted)
    await watch._look()
    assert reads == 1
    watch.close()
    for stream in streams:
        await stream.ended()
