"""What an attempt's context asks of its worker, from every pool: objects, files it stores, what it used, and the end of it all."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from execute import jobs
from execute.harness import MemoryLink, registry_of, working
from mainspring.errors import InvalidError, SessionEndedError
from mainspring.execute.context import Context
from mainspring.execute.services import Services
from mainspring.execute.usage import together
from mainspring.wire import OutcomeType, Stored, Usage


@pytest.mark.parametrize(
    ("function", "pool"),
    [
        (jobs.use_objects_async, "async"),
        (jobs.use_objects, "thread"),
        (jobs.use_objects, "process"),
        (jobs.use_objects_async, "process"),
    ],
)
async def test_every_pool_reaches_the_objects_of_its_job(function: Any, pool: str) -> None:
    link = MemoryLink()
    async with working(registry_of(function, pool=pool), link):
        outcome = await link.run(function.__name__)
    assert outcome.failure is None
    assert msgspec.json.decode(outcome.result or b"") == ["a/1:2", "a/2:11", "from a file", None]
    assert outcome.outputs == (Stored("report", 3, "abc"),)
    assert outcome.usage is not None
    assert outcome.usage.cpu_s >= 2.0  # what it says beside its own
    assert outcome.usage.sent_bytes == 2
    assert outcome.usage.peak_mb is not None


async def test_a_refusal_is_the_same_error_in_a_process() -> None:
    class Refusing(MemoryLink):
        async def put_object(self, *_: object) -> None:
            raise InvalidError("name", "is taken")

    link = Refusing()
    async with working(registry_of(jobs.use_objects, pool="process"), link):
        outcome = await link.run("use_objects")
    assert outcome.failure is not None
    assert (outcome.failure.type, outcome.failure.message) == ("mainspring.errors.InvalidError", "name: is taken")


async def test_a_thread_that_outlives_its_job_never_speaks_for_the_next(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    os.mkfifo(pipe + ".2")
    link = MemoryLink()
    async with working(registry_of(jobs.late_thread, jobs.wait_for_late, pool="process"), link, processes=1):
        await link.run("late_thread", {"pipe": pipe})
        outcome = await link.run("wait_for_late", {"pipe": pipe})
    assert outcome.result == b'"the attempt has ended"'


async def test_what_an_attempt_leaves_is_put_away_before_its_outcome_is_reported() -> None:
    link, closing, gate = MemoryLink(), asyncio.Event(), asyncio.Event()

    async def close() -> None:
        closing.set()
        await gate.wait()

    async def fail() -> None:
        raise ValueError("logged, and no more")

    async def job(context: Context) -> int:
        context._services.closers += [fail, close]
        return 1

    async with working(registry_of(job), link) as worker:
        number = link.submit("job")
        await closing.wait()
        link.cancel(number)  # too late: its function has ended
        await link.reported(lambda report: bool(report.running))
        assert worker.busy == 1
        gate.set()
        assert (await link.outcome(number)).type is OutcomeType.COMPLETED


async def test_a_worker_that_stops_does_not_wait_for_ever_and_reports_what_was_concluded() -> None:
    link, closing = MemoryLink(), asyncio.Event()

    async def close() -> None:
        closing.set()
        await asyncio.Event().wait()

    async def job(context: Context) -> int:
        context._services.closers.append(close)
        return 1

    async with working(registry_of(job), link) as worker:
        number = link.submit("job")
        await closing.wait()
        await worker.stop()
        assert (await link.outcome(number)).result == b"1"


async def test_an_attempt_whose_session_is_over_is_told_so() -> None:
    link, told, gate = MemoryLink(), asyncio.get_running_loop().create_future(), asyncio.Event()

    async def job(context: Context) -> None:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            try:
                await context._services.put("x", b"")
            except SessionEndedError as error:
                told.set_result(str(error))
            raise

    async with working(registry_of(job), link):
        link.submit("job")
        await link.reported(lambda report: bool(report.running))
        link.errors["register"] = [OSError()] * 50
        link.end_session(b"session-1")
        async with asyncio.timeout(20):
            assert "no session" in await told


def test_usage_adds_up() -> None:
    assert together(None, None) is None
    assert together(None, Usage(cpu_s=1)) == Usage(cpu_s=1)
    one, other = Usage(cpu_s=1, read_bytes=1, peak_mb=1), Usage(cpu_s=2, read_bytes=2, written_bytes=0)
    assert together(one, other) == Usage(cpu_s=3, read_bytes=3, written_bytes=0, peak_mb=1)


def test_services_are_made_for_functions_with_a_context_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    async def job() -> int:
        return 1

    async def run() -> None:
        link = MemoryLink()
        async with working(registry_of(job), link):
            assert (await link.run("job")).result == b"1"

    monkeypatch.setattr(Services, "__init__", refuse)
    asyncio.run(run())
