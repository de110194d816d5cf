"""An application by hand: submit, let time pass, look at what became of it."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from mainspring import App, Backoff, Cancel, Context, Retry, Snooze
from mainspring.core.partition import parse_id
from mainspring.core.timer import SECOND
from mainspring.errors import (
    ConflictError,
    InvalidError,
    JobCancelledError,
    JobFailedError,
    NotFoundError,
    NotRunningError,
)
from mainspring.store.contract import Change
from mainspring.testing import ManualNode


async def test_a_submitted_job_runs_and_its_result_comes_back_with_its_type() -> None:
    app = App()

    @app.job()
    async def add(a: int, b: int) -> int:
        return a + b

    @app.job()
    def when(days: int) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(days=days)

    async with ManualNode(app) as node:
        sum_, day = await add.submit(1, b=2), await when.submit(1)
        assert (await sum_.status()).state == "pending"
        await node.tick()
        assert await sum_.result() == 3
        assert await day.result() == datetime(2030, 1, 2, tzinfo=UTC)
        status = await sum_.status()
        assert (status.state, status.attempt, status.finished_at) == ("completed", 1, node.now)


async def test_i8_a_delayed_job_starts_at_its_time_and_not_before() -> None:
    app = App()
    started: list[datetime] = []

    @app.job()
    async def note() -> None:
        started.append(node.now)

    async with ManualNode(app) as node:
        begin = node.now
        await note.options(delay="10m").submit()
        await note.options(at=begin + timedelta(minutes=5)).submit()
        await node.advance("4m59s")
        assert started == []
        await node.advance("1h")
    assert started == [begin + timedelta(minutes=5), begin + timedelta(minutes=10)]


async def test_i7_a_failing_job_is_tried_again_with_backoff_until_its_retries_are_used() -> None:
    app = App()
    tries: list[datetime] = []

    @app.job(retries=3, backoff=Backoff(base_s=10, cap_s=1000))
    async def bad() -> None:
        tries.append(node.now)
        raise ValueError("always")

    async with ManualNode(app) as node:
        job = await bad.submit()
        await node.advance("1h")
        assert len(tries) == 4
        for n, (before, after) in enumerate(pairwise(tries)):
            assert timedelta(0) <= after - before <= timedelta(seconds=10 * 2**n)
        with pytest.raises(JobFailedError, match="ValueError: always") as caught:
            await job.result()
        assert caught.value.reason == "error"
        assert "raise ValueError" in (caught.value.traceback or "")
        status = await job.status()
        assert (status.state, status.attempt, status.failures) == ("failed", 4, 4)


async def test_signals_say_how_an_attempt_ends() -> None:
    app = App()
    log: list[tuple[str, timedelta]] = []

    @app.job(retries=1)
    async def retry(ctx: Context) -> str:
        log.append(("retry", node.now - begin))
        if ctx.attempt == 1:
            raise Retry(after="7s")
        return "done"

    @app.job(retries=0)
    async def snooze(ctx: Context) -> str:
        log.append(("snooze", node.now - begin))
        if ctx.attempt < 4:
            raise Snooze("1m")
        return "awake"

    @app.job()
    async def cancel() -> None:
        raise Cancel("not needed")

    async with ManualNode(app) as node:
        begin = node.now
        jobs = [await retry.submit(), await snooze.submit()]
        gone = await cancel.submit()
        await node.advance("10m")
        assert [await job.result() for job in jobs] == ["done", "awake"]
        assert [at.total_seconds() for name, at in log if name == "retry"] == [0, 7]
        assert [at.total_seconds() for name, at in log if name == "snooze"] == [0, 60, 120, 180]
        assert [(await job.status()).failures for job in jobs] == [1, 0]
        with pytest.raises(JobCancelledError) as caught:
            await gone.result()
        assert caught.value.reason == "raised"


async def test_exception_types_decide_whether_another_try_is_worth_it() -> None:
    app = App()

    @app.job(retries=5, give_up_on=KeyError)
    async def hopeless() -> None:
        raise KeyError("gone")

    @app.job(retries=5, retry_on=OSError)
    async def only_io() -> None:
        raise ValueError("not io")

    async with ManualNode(app) as node:
        jobs = [await hopeless.submit(), await only_io.submit()]
        await node.advance("1d")
        assert [(await job.status()).attempt for job in jobs] == [1, 1]


async def test_a_result_without_a_json_form_fails_the_job_at_once() -> None:
    app = App()

    @app.job(retries=5)
    async def strange() -> object:
        return object()

    @app.job(retries=5)
    async def nan() -> float:
        return float("nan")

    async with ManualNode(app) as node:
        for job in (await strange.submit(), await nan.submit()):
            await node.tick()
            with pytest.raises(JobFailedError) as caught:
                await job.result()
            assert caught.value.reason == "result"
            assert (await job.status()).attempt == 1


async def test_i2_a_key_makes_one_job_and_other_content_is_refused() -> None:
    app = App()
    ran: list[int] = []

    @app.job()
    async def work(n: int) -> None:
        ran.append(n)

    async with ManualNode(app) as node:
        first = await work.options(key="k").submit(1)
        second = await work.options(key="k").submit(1)
        assert second.id == first.id
        assert (first.existed, second.existed) == (False, True)
        with pytest.raises(ConflictError, match="'k' belongs to a job"):
            await work.options(key="k").submit(2)
        many = await app.submit_many([work.options(unique="1m").job(9)] * 3)
        assert len({job.id for job in many}) == 1
        await node.tick()
        assert sorted(ran) == [1, 9]


async def test_a_cached_result_is_given_again_until_it_is_too_old() -> None:
    app = App()
    ran: list[int] = []

    @app.job(cache="1h", result_ttl="10m", retries=0)
    async def price(of: int) -> int:
        ran.append(of)
        if of < 0:
            raise ValueError("no price")
        return 10 * of

    async with ManualNode(app) as node:
        first = await price.submit(4)
        assert (await price.submit(4)).id == first.id  # it waits
        await node.tick()
        again = await price.submit(4)
        assert (again.existed, await again.result()) == (True, 40)
        await node.advance("10m")
        assert not (await price.submit(4)).existed
        await price.submit(-1)
        await node.tick()
        assert not (await price.submit(-1)).existed
        assert not (await price.options(key="k").submit(4)).existed
        await node.tick()
    assert sorted(ran) == [-1, -1, 4, 4, 4]


async def test_a_result_says_when_it_goes() -> None:
    app = App()

    @app.job(result_ttl="10m")
    async def work() -> int:
        return 1

    async with ManualNode(app) as node:
        job = await work.submit()
        await node.tick()
        (ended,) = await app.store.read_ended([parse_id(job.id)])
        (record,) = await app.store.read_jobs([parse_id(job.id)])
        assert ended is not None
        assert record is not None
        assert record.finished_at is not None
        assert ended.expires_at == record.finished_at + 600 * SECOND


async def test_i12_cancel_and_replay() -> None:
    app = App()

    @app.job()
    async def work() -> str:
        return "done"

    async with ManualNode(app) as node:
        job = await work.options(delay="1h").submit()
        assert await job.cancel()
        assert not await job.cancel()
        await node.advance("2h")
        assert (await job.status()).state == "cancelled"
        assert await app.store.change_jobs([Change(job.key, replay=True)]) == ["pending"]
        await node.tick()
        assert await job.result() == "done"


async def test_i12_a_running_job_is_stopped() -> None:
    app = App()
    entered = asyncio.Event()

    @app.job()
    async def forever() -> None:
        entered.set()
        await asyncio.Event().wait()

    async with ManualNode(app) as node:
        job = await forever.submit()
        ticking = asyncio.create_task(node.tick())
        async with asyncio.timeout(10):
            await entered.wait()
            assert await job.cancel()
            await node.node.canceller.run_once()
            await ticking
        assert (await job.status()).state == "cancelled"


async def test_a_job_that_misses_its_start_expires_and_one_that_misses_its_deadline_says_so() -> None:
    app = App()

    @app.job(concurrency=1)
    async def slow(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise Snooze("2h")

    async with ManualNode(app) as node:
        late = await slow.options(deadline="1h").submit()
        expiring = await slow.options(delay="30m", start_by="10m").submit()
        await node.advance("3h")
        assert (await late.status()).deadline_missed
        status = await expiring.status()
        assert (status.state, status.reason, status.attempt) == ("cancelled", "expired", 0)
        assert status.finished_at == node.now - timedelta(hours=2, minutes=50)


async def test_i13_i14_limits_hold_over_an_application() -> None:
    app = App()
    starts: list[float] = []

    @app.job(rate="2/m")
    async def paced() -> None:
        starts.append((node.now - begin).total_seconds())

    async with ManualNode(app) as node:
        begin = node.now
        await app.submit_many([paced.job() for _ in range(6)])
        for _ in range(130):
            await node.advance("1s")
    assert len(starts) == 6
    for first in starts:
        assert sum(first <= at < first + 60 for at in starts) <= 2 + 2


async def test_submit_many_takes_thousands_and_refuses_what_is_no_draft_before_it_writes() -> None:
    app = App()

    @app.job()
    async def work(n: int) -> None: ...

    async with ManualNode(app) as node:
        jobs = await app.submit_many(work.job(n) for n in range(4500))
        assert len({job.id for job in jobs}) == 4500
        with pytest.raises(InvalidError) as caught:
            await app.submit_many([work.job(1), work])  # type: ignore[list-item]
        assert caught.value.field == "drafts"
        assert sum((await app.store.count_jobs()).values()) == 4500
        assert node.now


async def test_bad_arguments_are_refused_when_submitted() -> None:
    app = App()

    @app.job()
    async def work(n: int) -> None: ...

    async with ManualNode(app):
        for bad in ("x", float("nan"), 2**63, None):
            with pytest.raises(InvalidError):
                await work.submit(bad)  # type: ignore[arg-type]
        assert await app.store.count_jobs() == {}


async def test_an_app_that_is_not_open_says_so_and_an_unknown_job_too() -> None:
    app = App()

    @app.job()
    async def work() -> None: ...

    with pytest.raises(NotRunningError, match="not open"):
        await work.submit()
    async with ManualNode(app):
        stranger = app.get("01900000-0000-7000-8000-000000000000")
        with pytest.raises(NotFoundError):
            await stranger.status()
        with pytest.raises(NotFoundError):
            await stranger.result()
        with pytest.raises(NotFoundError):
            await stranger.cancel()


async def test_jobs_of_many_tenants_take_turns() -> None:
    app = App()
    order: list[str] = []

    @app.job()
    async def work(tenant: str) -> None:
        order.append(tenant)

    async with ManualNode(app, slots=3) as node:
        for tenant, count in (("a", 9), ("b", 3), ("c", 3)):
            await app.submit_many([work.options(tenant=tenant).job(tenant) for _ in range(count)])
        await node.tick()
    assert len(order) == 15
    assert all(set(order[n : n + 3]) == {"a", "b", "c"} for n in (0, 3, 6))


async def test_a_waiter_gives_up_after_its_time_and_one_that_waits_is_told() -> None:
    app = App()

    @app.job()
    async def work() -> int:
        return 7

    async with ManualNode(app) as node:
        job = await work.submit()
        with pytest.raises(TimeoutError):
            await job.result(timeout=0.001)
        waiting = [asyncio.create_task(job.result(timeout=10)) for _ in range(3)]
        await asyncio.sleep(0)
        await node.tick()
        assert await asyncio.gather(*waiting) == [7, 7, 7]
