"""Schedules of an application by hand: I9, I17, I28."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import App, Context, InvalidError, Retry
from mainspring.core.timer import to_micros
from mainspring.errors import ConflictError, NotFoundError
from mainspring.store.contract import JobFilter
from mainspring.testing import ManualNode
from mainspring.verbs.declaring import synchronise

NOON = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


def minutes(node: ManualNode) -> float:
    return (node.now - NOON).total_seconds() / 60


def app_with(body: Callable[[Context], Coroutine[Any, Any, None]], **rule: Any) -> App:
    """One schedule, every minute, of one job."""
    app = App()

    @app.schedule(rule.pop("cron", "* * * * *"), name="s", **rule)
    @app.job(name="tick", retries=1000)
    async def tick(ctx: Context) -> None:
        await body(ctx)

    return app


async def test_i9_each_occurrence_runs_once_at_its_time() -> None:
    seen: list[float] = []

    async def note(ctx: Context) -> None:
        seen.append(minutes(node))

    app = app_with(note, cron="*/10 * * * *")
    async with ManualNode(app, now=NOON + timedelta(minutes=5)) as node:
        await node.advance("1h")
        status = await app.schedules.read("s")
        assert (status.runs, status.next_at) == (6, NOON + timedelta(minutes=70))
        assert list(await app.schedules.missed("s")) == []
    assert seen == [10, 20, 30, 40, 50, 60]


async def test_a_schedule_gives_its_job_arguments_and_options() -> None:
    app = App()
    seen: list[str] = []

    @app.schedule("0 * * * *", arguments={"name": "x"}, options={"queue": "q", "priority": 9})
    @app.job()
    async def greet(name: str) -> None:
        seen.append(name)

    async with ManualNode(app, now=NOON) as node:
        await node.advance("1h")
        assert await app.store.count_jobs() == {("q", "completed"): 1}
    assert seen == ["x"]


# --- overlap: a job that waits to retry counts as running


async def overlapping(overlap: str, runs_for: str) -> tuple[list[tuple[float, float]], dict[str, int], App]:
    """Each job of a minute's schedule is busy for so long; the (start, end) of each, and what was missed why."""
    started: dict[str, float] = {}
    spans: list[tuple[float, float]] = []

    async def busy(ctx: Context) -> None:
        if ctx.attempt == 1:
            started[ctx.job_id] = minutes(node)
            raise Retry(after=runs_for)
        spans.append((started[ctx.job_id], minutes(node)))

    app = app_with(busy, overlap=overlap)
    async with ManualNode(app, now=NOON) as node:
        await node.advance("10m")
        missed: dict[str, int] = {}
        for entry in await app.schedules.missed("s"):
            missed[entry.reason] = missed.get(entry.reason, 0) + (entry.count or 0)
    return spans, missed, app


def at_once(spans: list[tuple[float, float]]) -> int:
    return max(sum(start < other_end and other_start < end for other_start, other_end in spans) for start, end in spans)


async def test_i17_skip_starts_none_while_one_runs_and_records_the_others() -> None:
    spans, missed, _ = await overlapping("skip", "150s")
    assert spans == [(1, 3.5), (4, 6.5), (7, 9.5)]
    assert missed == {"overlap": 6}


async def test_i17_queue_one_keeps_one_waiting_and_records_the_others() -> None:
    spans, missed, _ = await overlapping("queue_one", "150s")
    assert at_once(spans) == 1
    assert spans == [(1, 3.5), (3.5, 6), (6, 8.5)]
    assert missed["overlap"] >= 4


async def test_i17_queue_all_runs_every_one_after_the_other() -> None:
    spans, missed, _ = await overlapping("queue_all", "150s")
    assert at_once(spans) == 1
    assert spans == [(1, 3.5), (3.5, 6), (6, 8.5)]
    assert missed == {}


async def test_i17_allow_runs_them_side_by_side() -> None:
    spans, missed, _ = await overlapping("allow", "150s")
    assert at_once(spans) > 2
    assert [start for start, _ in spans] == [1, 2, 3, 4, 5, 6, 7]
    assert missed == {}


async def test_i17_cancel_running_ends_the_old_one_for_the_new_one() -> None:
    spans, missed, _ = await overlapping("cancel_running", "150s")
    assert spans == []  # none of them ever has the time
    assert missed == {}
    spans, _, _ = await overlapping("cancel_running", "30s")
    assert len(spans) == 9


# --- after an outage


@pytest.mark.parametrize(
    ("catch_up", "ran", "missed"),
    [
        ("none", [59, 60], 58),  # an occurrence a minute old is on time
        ("latest", [58, 59, 60], 57),
        ("all", [*range(1, 61)], 0),
        ("10m", [*range(50, 61)], 49),
    ],
)
async def test_i28_what_was_due_in_an_outage_fires_as_the_rule_says_or_is_recorded(
    catch_up: str, ran: list[int], missed: int
) -> None:
    seen: list[int] = []

    async def note(ctx: Context) -> None: ...

    app = app_with(note, catch_up=catch_up, overlap="allow")
    async with ManualNode(app, now=NOON) as node:
        await node.tick()
        node._clock.advance(3600)
        await node.tick()
        await node.tick()
        for job in await app.store.list_jobs(JobFilter(schedule="default/s"), before=None, limit=1000):
            at = job.options.occurrence_at
            assert at is not None
            seen.append((at - to_micros("noon", NOON)) // 60_000_000)
        records = await app.schedules.missed("s")
    assert sorted(seen) == ran
    assert sum(record.count or 0 for record in records) == missed


# --- the verbs


async def nothing(ctx: Context) -> None: ...


async def test_a_paused_schedule_fires_nothing_and_does_not_catch_up_when_it_goes_on() -> None:
    app = app_with(nothing, catch_up="all")
    async with ManualNode(app, now=NOON) as node:
        await node.advance("2m")
        await app.schedules.pause("s")
        assert (await app.schedules.read("s")).next_at is None
        await node.advance("1h")
        assert (await app.schedules.read("s")).runs == 2
        await app.schedules.resume("s")
        await node.advance("2m")
        status = await app.schedules.read("s")
        assert (status.runs, status.paused) == (4, False)


async def test_trigger_makes_one_job_now_beside_the_times_of_the_rule() -> None:
    app = app_with(nothing, overlap="allow")
    async with ManualNode(app, now=NOON) as node:
        made = [(await app.schedules.trigger("s")).id for _ in range(2)]
        assert len(set(made)) == 2
        assert [(await app.get(id_).status()).state for id_ in made] == ["pending", "pending"]
        await node.advance("1m")
        third = await app.schedules.trigger("s")  # at the very time of an occurrence
        assert (await app.get(third.id).status()).state == "pending"
        await node.advance("1m")
        status = await app.schedules.read("s")
        assert status.runs == 2
        assert await app.store.count_jobs() == {("default", "completed"): 5}


async def test_i17_trigger_keeps_the_overlap_rule() -> None:
    app = app_with(nothing, overlap="skip")
    async with ManualNode(app, now=NOON) as node:
        await app.schedules.trigger("s")
        with pytest.raises(ConflictError, match="has not ended"):
            await app.schedules.trigger("s")
        await node.tick()
        await app.schedules.trigger("s")


async def test_i9_a_backfill_makes_what_is_missing_once() -> None:
    app = app_with(nothing, catch_up="none")
    async with ManualNode(app, now=NOON) as node:
        await node.advance("2m")
        first, last = NOON - timedelta(minutes=3), NOON + timedelta(minutes=2)
        assert await app.schedules.backfill("s", first, last) == 4  # two of the six have run
        await node.tick()
        assert await app.schedules.backfill("s", first, last) == 0
        await node.tick()
        assert await app.store.count_jobs() == {("default", "completed"): 6}
        with pytest.raises(InvalidError, match=r"^last: is in the future"):
            await app.schedules.backfill("s", first, last + timedelta(minutes=5))
        assert (await app.schedules.read("s")).next_at == NOON + timedelta(minutes=3)


async def test_next_lists_what_comes_paused_or_not() -> None:
    app = app_with(nothing, cron="0 * * * *")
    async with ManualNode(app, now=NOON):
        await app.schedules.pause("s")
        assert list(await app.schedules.next("s", 2)) == [NOON + timedelta(hours=1), NOON + timedelta(hours=2)]
        for count in (0, 1001, True, 2.0):
            with pytest.raises(InvalidError):
                await app.schedules.next("s", count)  # type: ignore[arg-type]


async def test_an_unknown_schedule_is_named_with_those_there_are() -> None:
    app = app_with(nothing)
    async with ManualNode(app, now=NOON):
        with pytest.raises(NotFoundError, match="there are s"):
            await app.schedules.read("t")
        await app.schedules.delete("s")
        assert await app.schedules.list() == []


async def test_max_runs_and_end_end_a_schedule() -> None:
    runs = app_with(nothing, max_runs=3)
    async with ManualNode(runs, now=NOON) as node:
        await node.advance("10m")
        status = await runs.schedules.read("s")
        assert (status.runs, status.next_at) == (3, None)
    ends = app_with(nothing, end_at=NOON + timedelta(minutes=2))
    async with ManualNode(ends, now=NOON) as node:
        await node.advance("10m")
        assert (await ends.schedules.read("s")).runs == 2


async def test_advance_stops_at_every_occurrence_even_where_none_can_start() -> None:
    app = App()

    @app.schedule("* * * * *", name="s", overlap="skip")
    @app.job(name="tick")
    async def tick() -> None:
        raise Retry(after="1h")

    async with ManualNode(app, now=NOON) as node:
        await node.advance("10m")
        records = await app.schedules.missed("s")
        assert {record.reason for record in records} == {"overlap"}
        assert sum(record.count or 0 for record in records) == 9


# --- what the code declares


def declaring(*names: str, cron: str = "0 * * * *") -> App:
    app = App()

    @app.job()
    async def work() -> None: ...

    for name in names:
        app.schedule(cron, name=name)(work)
    return app


async def test_a_changed_declaration_changes_the_stored_schedule_and_keeps_its_pause_and_runs() -> None:
    app = declaring("a")
    async with ManualNode(app, now=NOON) as node:
        await node.advance("1h")
        await app.schedules.pause("a")
        changed = declaring("a", cron="30 * * * *")
        assert await synchronise(app.store, *changed.declared) == []
        status = await app.schedules.read("a")
        assert (status.rule.cron, status.paused, status.runs) == ("30 * * * *", True, 1)
        await app.schedules.resume("a")
        assert (await app.schedules.read("a")).next_at == NOON + timedelta(minutes=90)


async def test_an_unchanged_declaration_changes_nothing() -> None:
    app = declaring("a")
    async with ManualNode(app, now=NOON):
        before = await app.store.list_schedules()
        await synchronise(app.store, *declaring("a").declared)
        assert await app.store.list_schedules() == before


async def test_a_removed_declaration_is_reported_and_goes_on() -> None:
    app = declaring("a", "b")
    async with ManualNode(app, now=NOON) as node:
        assert await synchronise(app.store, *declaring("b").declared) == ["default/a"]
        await node.advance("1h")
        assert {status.name: status.runs for status in await app.schedules.list()} == {"a": 1, "b": 1}


async def test_two_schedules_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidError) as caught:
        declaring("a", "a")
    assert caught.value.field == "name"


async def test_a_limit_that_the_code_no_longer_declares_is_gone() -> None:
    limited, free = App(), App()

    @limited.job(name="work", concurrency=1)
    async def one() -> None: ...

    @free.job(name="work")
    async def other() -> None: ...

    async with ManualNode(limited, now=NOON):
        assert set(await limited.store.list_limits()) == {"kind/work"}
        await synchronise(limited.store, *free.declared)
        assert await limited.store.list_limits() == {}
