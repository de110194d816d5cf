"""Timeouts and cancels of jobs in the event loop and in threads."""

import asyncio
import threading
from typing import Any

import pytest

from execute.harness import MemoryLink, registry_of, working
from mainspring.execute.context import Context
from mainspring.wire import Outcome, OutcomeType


def _reason(outcome: Outcome) -> tuple[OutcomeType, str | None]:
    return outcome.type, outcome.failure.reason if outcome.failure else outcome.reason


TIMEOUT = (OutcomeType.FAILED, "timeout")
CANCELLED = (OutcomeType.CANCELLED, "requested")


async def test_an_async_job_past_its_timeout_is_cancelled() -> None:
    cleaned = asyncio.Event()

    async def job() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    link = MemoryLink()
    async with working(registry_of(job), link):
        outcome = await link.run("job", timeout_s=0.01)
    assert _reason(outcome) == TIMEOUT
    assert outcome.retry
    assert outcome.failure is not None
    assert outcome.failure.message == "ran for longer than its timeout of 0.01 s"
    assert "await asyncio.Event().wait()" in outcome.failure.traceback
    assert cleaned.is_set()


@pytest.mark.parametrize(("types", "retry"), [((TimeoutError,), True), ((ValueError,), False)])
async def test_a_timeout_counts_as_a_timeout_error(types: Any, retry: bool) -> None:
    async def job() -> None:
        await asyncio.Event().wait()

    link = MemoryLink()
    async with working(registry_of(job, retry_on=types), link):
        assert (await link.run("job", timeout_s=0.01)).retry is retry


async def test_a_timeout_of_the_jobs_own_is_an_error() -> None:
    async def job() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    link = MemoryLink()
    async with working(registry_of(job), link):
        assert _reason(await link.run("job", timeout_s=60.0)) == (OutcomeType.FAILED, "error")


async def test_our_timeout_wins_over_what_the_job_makes_of_it() -> None:
    async def swallows() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "as if nothing had happened"
        return ""

    async def replaces() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("something else") from None

    link = MemoryLink()
    async with working(registry_of(swallows, replaces), link):
        assert _reason(await link.run("swallows", timeout_s=0.01)) == TIMEOUT
        assert _reason(await link.run("replaces", timeout_s=0.01)) == TIMEOUT


async def test_a_job_that_ends_in_time_leaves_no_timer() -> None:
    async def job() -> int:
        return 1

    link = MemoryLink()
    async with working(registry_of(job), link):
        assert (await link.run("job", timeout_s=0.02)).result == b"1"
        assert (await link.run("job", timeout_s=3600.0)).result == b"1"


async def test_a_job_that_goes_on_after_its_cancellation_is_marked_and_keeps_its_slot() -> None:
    gate = asyncio.Event()

    async def stubborn() -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    link = MemoryLink()
    async with working(registry_of(stubborn), link, slots=2, grace_s=5.0) as worker:
        assert _reason(await link.run("stubborn", timeout_s=0.01)) == TIMEOUT
        job = link.submit("stubborn")
        link.cancel(job)
        assert _reason(await link.outcome(job)) == CANCELLED
        assert worker.busy == 2
        waiting = link.submit("stubborn")
        assert not link.has_outcome(waiting)
        gate.set()
        assert (await link.outcome(waiting)).type is OutcomeType.COMPLETED
    assert worker.busy == 0


async def test_a_thread_past_its_timeout_is_reported_at_once_and_keeps_its_slot() -> None:
    gate = threading.Event()

    def job() -> None:
        gate.wait()

    link = MemoryLink()
    async with working(registry_of(job), link, slots=1, grace_s=5.0) as worker:
        assert _reason(await link.run("job", timeout_s=0.01)) == TIMEOUT
        assert worker.busy == 1
        second = link.submit("job")
        assert not link.has_outcome(second)
        gate.set()
        assert (await link.outcome(second)).type is OutcomeType.COMPLETED
    assert worker.busy == 0


async def test_a_thread_learns_of_its_timeout_from_the_context() -> None:
    ended = threading.Event()

    def job(ctx: Context) -> None:
        async def wait() -> None:
            await ctx.wait_cancelled()

        asyncio.run(wait())
        ended.set()

    link = MemoryLink()
    async with working(registry_of(job), link, grace_s=5.0):
        assert _reason(await link.run("job", timeout_s=0.01)) == TIMEOUT
    assert ended.is_set()


async def test_a_timeout_counts_from_the_start_of_the_function() -> None:
    gate = threading.Event()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def blocker() -> None:
        loop.call_soon_threadsafe(begun.set)
        gate.wait()

    def job() -> int:
        return 1

    link = MemoryLink()
    async with working(registry_of(blocker, job), link, threads=1, grace_s=5.0):
        first = link.submit("blocker", timeout_s=0.01)
        await begun.wait()
        waiting = link.submit("job", timeout_s=0.01)
        assert _reason(await link.outcome(first)) == TIMEOUT  # longer than the second one's timeout has passed
        gate.set()
        assert (await link.outcome(waiting)).result == b"1"


async def test_cancel_of_an_async_job() -> None:
    begun = asyncio.Event()
    seen: list[bool] = []

    async def job(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled)

    link = MemoryLink()
    async with working(registry_of(job), link):
        id_ = link.submit("job")
        await begun.wait()
        link.cancel(id_)
        assert _reason(await link.outcome(id_)) == CANCELLED
    assert seen == [True]


async def test_cancel_of_a_thread_that_looks() -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def job(ctx: Context) -> None:
        loop.call_soon_threadsafe(begun.set)
        pause = threading.Event()
        while True:
            ctx.check_cancelled()
            pause.wait(0.001)

    link = MemoryLink()
    async with working(registry_of(job), link, grace_s=5.0):
        id_ = link.submit("job")
        await begun.wait()
        link.cancel(id_)
        assert _reason(await link.outcome(id_)) == CANCELLED


async def test_cancel_of_a_thread_that_cannot_look_changes_nothing() -> None:
    begun, gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def job() -> int:
        loop.call_soon_threadsafe(begun.set)
        gate.wait()
        return 1

    link = MemoryLink()
    async with working(registry_of(job), link, grace_s=5.0):
        id_ = link.submit("job")
        await begun.wait()
        link.cancel(id_)
        reports = len(link.reports)
        while len(link.reports) < reports + 3:  # the request has arrived by then
            link.called["report"].clear()
            await link.called["report"].wait()
        assert not link.has_outcome(id_)
        gate.set()
        assert (await link.outcome(id_)).result == b"1"


async def test_cancel_of_a_job_that_waits_for_a_thread() -> None:
    begun, gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    ran: list[int] = []

    def blocker() -> None:
        loop.call_soon_threadsafe(begun.set)
        gate.wait()

    def job() -> None:
        ran.append(1)

    link = MemoryLink()
    async with working(registry_of(blocker, job), link, threads=1, grace_s=5.0):
        first = link.submit("blocker")
        await begun.wait()
        waiting = link.submit("job")
        link.cancel(waiting)
        while not link.has_outcome(waiting):
            link.cancel(waiting)  # a request for a job that has not arrived yet is forgotten
            link.called["report"].clear()
            await link.called["report"].wait()
        assert _reason(await link.outcome(waiting)) == CANCELLED
        gate.set()
        assert (await link.outcome(first)).type is OutcomeType.COMPLETED
    assert ran == []


async def test_cancel_of_a_job_that_is_over_or_unknown_is_ignored() -> None:
    async def job() -> int:
        return 1

    link = MemoryLink()
    async with working(registry_of(job), link):
        id_ = link.submit("job")
        assert (await link.outcome(id_)).result == b"1"
        link.cancel(id_)
        link.cancel(b"unknown")
        assert (await link.run("job")).result == b"1"
