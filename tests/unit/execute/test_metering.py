"""What attempts use: in the event loop by their own steps, in threads, in processes; also of those that fail or are stopped."""

import asyncio
import contextlib
import time
from typing import Any

import pytest

from execute import jobs
from execute.harness import MemoryLink, registry_of, working
from mainspring.core.job import Options
from mainspring.execute.metering import LEAST_NS, WORTH_NS, Change, StepMeter
from mainspring.wire import Assignment, Outcome, OutcomeType, Usage

WORK_S = 0.03


async def outcome_of(function: Any, *, pool: str | None = None, **options: Any) -> tuple[Outcome, Usage]:
    link = MemoryLink()
    async with working(registry_of(function, pool=pool), link):
        outcome = await link.run(function.__name__, **options)
    assert outcome.usage is not None
    return outcome, outcome.usage


async def test_an_async_function_uses_the_cpu_time_of_its_own_steps() -> None:
    async def steps() -> int:
        jobs.burn(WORK_S)
        await asyncio.sleep(0)
        jobs.burn(WORK_S)
        return 7

    async def other() -> None:
        jobs.burn(WORK_S)
        await asyncio.sleep(0)

    link = MemoryLink()
    async with working(registry_of(steps, other), link):
        first, second = [link.submit(name) for name in ("steps", "other")]
        one, two = await link.outcome(first), await link.outcome(second)
    assert one.result == b"7"
    assert one.usage is not None
    assert two.usage is not None
    assert 2 * WORK_S <= one.usage.cpu_s < 2.5 * WORK_S
    assert WORK_S <= two.usage.cpu_s < 1.5 * WORK_S


async def test_waiting_uses_nothing_not_even_in_a_step_that_blocks() -> None:
    async def block() -> None:
        time.sleep(WORK_S)  # noqa: ASYNC251  what a careless function does

    link = MemoryLink()
    async with working(registry_of(block), link):
        outcome = await link.run("block")
    assert outcome.usage is None or outcome.usage.cpu_s < WORK_S / 5


async def test_an_async_function_that_uses_next_to_nothing_has_no_usage() -> None:
    async def nothing() -> None:
        pass

    link = MemoryLink()
    async with working(registry_of(nothing), link):
        outcomes = [await link.run("nothing") for _ in range(5)]
    assert None in [outcome.usage for outcome in outcomes]  # not each: the machine may have stood still


async def test_the_event_loop_knows_nothing_of_memory_and_files() -> None:
    async def work() -> None:
        jobs.burn(WORK_S)

    _, usage = await outcome_of(work)
    assert usage == Usage(cpu_s=usage.cpu_s)


@pytest.mark.parametrize("suspends", [False, True])
async def test_a_failure_has_its_usage_and_its_traceback_begins_in_the_function(suspends: bool) -> None:
    async def fails() -> None:
        if suspends:
            await asyncio.sleep(0)
        jobs.burn(WORK_S)
        raise ValueError("no")

    outcome, usage = await outcome_of(fails)
    assert usage.cpu_s >= WORK_S
    assert outcome.failure is not None
    assert "in fails\n" in outcome.failure.traceback
    assert "execute/metering.py" not in outcome.failure.traceback


async def test_what_is_stopped_has_used_what_it_had_until_then() -> None:
    async def obeys() -> None:
        jobs.burn(WORK_S)
        await asyncio.Event().wait()

    outcome, usage = await outcome_of(obeys, timeout_s=0.01)
    assert (outcome.type, usage.cpu_s >= WORK_S) == (OutcomeType.FAILED, True)


async def test_what_does_not_stop_when_asked_has_used_what_it_had_when_it_was_given_up() -> None:
    let_go = asyncio.Event()

    async def stubborn() -> None:
        jobs.burn(WORK_S)
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()

    link = MemoryLink()
    async with working(registry_of(stubborn), link, stop_grace_s=0.0):
        outcome = await link.run("stubborn", timeout_s=0.01)
        let_go.set()
    assert outcome.type is OutcomeType.FAILED
    assert outcome.usage is not None
    assert outcome.usage.cpu_s >= WORK_S


async def test_an_exception_that_is_thrown_in_reaches_the_function() -> None:
    heard: list[str] = []

    async def hears() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("cancelled")
            jobs.burn(WORK_S)
            await asyncio.sleep(0)
            raise
        return ""

    outcome, _ = await outcome_of(hears, timeout_s=0.01)
    assert heard == ["cancelled"]
    assert outcome.failure is not None
    assert outcome.failure.reason == "timeout"


async def test_whatever_can_be_awaited_is_awaited() -> None:
    class Count:
        cpu_ns = 0

    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    future.set_result(5)
    value, rest = StepMeter().enter(future, Count())
    assert (value, rest) == (5, None)


async def test_a_coroutine_that_is_left_is_closed() -> None:
    closed: list[bool] = []

    class Count:
        cpu_ns = 0

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def drive() -> None:
        _, rest = StepMeter().enter(waits(), Count())
        assert rest is not None
        await rest

    driving = drive()
    driving.send(None)
    driving.close()
    assert closed == [True]


async def test_a_thread_uses_its_own_cpu_time() -> None:
    _, usage = await outcome_of(jobs.burn_a_while, pool="thread")
    assert jobs.BURN_S <= usage.cpu_s < 1.5 * jobs.BURN_S
    assert usage == Usage(cpu_s=usage.cpu_s)


async def test_a_process_knows_its_peak_and_what_it_wrote_and_the_next_job_has_its_own(tmp_path: Any) -> None:
    link = MemoryLink()
    async with working(registry_of(jobs.use_much, jobs.pid, pool="process"), link, processes=1):
        large = await link.run("use_much", {"megabytes": 100, "path": str(tmp_path / "file")})
        small = await link.run("pid")
    assert large.failure is None
    assert large.usage is not None
    assert small.usage is not None
    assert large.usage.cpu_s >= jobs.BURN_S
    assert small.usage.cpu_s < jobs.BURN_S
    if large.usage.peak_mb is not None:  # not every sandbox lets the mark be reset
        assert small.usage.peak_mb is not None
        assert 100 < large.usage.peak_mb < 300
        assert small.usage.peak_mb < 100
    if large.usage.written_bytes is not None and large.usage.written_bytes > 0:  # a file in memory is none on disk
        assert large.usage.written_bytes >= 1_000_000
        assert small.usage.written_bytes == 0


async def test_the_child_of_a_process_counts() -> None:
    _, usage = await outcome_of(jobs.burn_in_child, pool="process")
    assert usage.cpu_s >= jobs.BURN_S


def assigned_for(client: str | None) -> Assignment:
    return Assignment(bytes(16), 1, "default", "default", "small", b"{}", Options(client=client))


def test_what_is_too_little_is_gathered_by_client_and_kind_until_it_is_enough() -> None:
    change = Change()
    acme, other = assigned_for("acme"), assigned_for(None)
    step = LEAST_NS * 9 // 10
    enough = -(-WORTH_NS // step)
    told = [change.usage(each, step) for _ in range(enough + 3) for each in (acme, other)]
    for client in (told[::2], told[1::2]):
        assert [usage for usage in client if usage is not None] == [Usage(cpu_s=enough * step // 1000 / 1e6)]
        assert client[enough - 1] is not None


def test_what_is_enough_is_told_as_it_is() -> None:
    change = Change()
    assignment = assigned_for("acme")
    change.usage(assignment, LEAST_NS - 1)
    assert change.usage(assignment, 3 * LEAST_NS) == Usage(cpu_s=3 * LEAST_NS / 1e9)
