"""How far a job says it is: from every pool, the newest, not too often."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from execute import jobs
from execute.harness import MemoryLink, context_of, registry_of, working
from mainspring.core.job import Options
from mainspring.errors import ForbiddenError, InvalidError, UnknownKeyError
from mainspring.execute.context import Context
from mainspring.wire import Assignment, Progress, Report

LONG_S = 3600.0  # a heartbeat that does not come


def _told(report: Report) -> list[tuple[float, str]]:
    return [(progress.percent, progress.message) for progress in report.progress]


async def test_the_first_progress_is_reported_at_once_and_later_ones_with_the_heartbeat() -> None:
    gate, said = asyncio.Event(), asyncio.Event()

    async def job(context: Context) -> None:
        context.progress(1, "begun")
        await gate.wait()
        context.progress(2)
        context.progress(3, "more")
        said.set()
        await asyncio.Event().wait()

    link = MemoryLink()
    async with working(registry_of(job), link, heartbeat_s=LONG_S) as worker:
        id_ = link.submit("job")
        first = await link.reported(lambda report: bool(report.progress))
        assert first == Report([], None, [Progress(id_, 1, 1.0, "begun")])
        gate.set()
        await said.wait()
        await asyncio.sleep(0)
        assert link.reports == [first]
        assert worker._runner is not None
        assert [p.percent for p in worker._runner.take_progress()] == [3.0]


async def test_with_the_heartbeat_only_what_is_new_is_sent() -> None:
    gate = asyncio.Event()

    async def job(context: Context) -> None:
        context.progress(1)
        await gate.wait()
        context.progress(2)
        context.progress(3)
        await asyncio.Event().wait()

    link = MemoryLink()
    async with working(registry_of(job), link):
        link.submit("job")
        await link.reported(lambda report: _told(report) == [(1.0, "")])
        gate.set()
        await link.reported(lambda report: _told(report) == [(3.0, "")])
        sent = len(link.reports)
        await link.reported(lambda _: len(link.reports) > sent + 3)
        assert [p for report in link.reports[sent:] for p in report.progress] == []


async def test_progress_from_a_thread() -> None:
    gate = threading.Event()

    def job(context: Context) -> None:
        context.progress(50, "half")
        gate.wait(20)

    link = MemoryLink()
    async with working(registry_of(job), link, heartbeat_s=LONG_S):
        id_ = link.submit("job")
        assert _told(await link.reported(lambda report: bool(report.progress))) == [(50.0, "half")]
        gate.set()
        await link.outcome(id_)


@pytest.mark.parametrize("function", [jobs.count_to, jobs.count_to_async])
async def test_progress_from_a_process_and_its_threads(function: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = MemoryLink()
    async with working(registry_of(function, pool="process"), link, processes=1):
        id_ = link.submit(function.__name__, {"pipe": str(pipe)})
        await link.reported(lambda report: any(percent in (10.0, 60.5) for percent, _ in _told(report)))
        await link.reported(lambda report: (60.5, "") in _told(report))
        await asyncio.to_thread(pipe.write_text, "go on")
        assert (await link.outcome(id_)).failure is None


async def test_what_has_ended_says_nothing_any_more() -> None:
    late: list[Context] = []

    async def job(context: Context) -> None:
        late.append(context)
        context.progress(99)

    link = MemoryLink()
    async with working(registry_of(job), link, heartbeat_s=LONG_S) as worker:
        await link.run("job")
        late[0].progress(100)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert worker._runner is not None
        assert worker._runner.take_progress() == []


@pytest.mark.parametrize("percent", [-1, 100.1, float("nan"), True, "50", None])
def test_what_is_no_percentage_is_refused(percent: Any) -> None:
    with pytest.raises(InvalidError, match=r"^percent: "):
        _context().progress(percent)


def test_a_message_is_text_of_bounded_length_that_can_be_sent() -> None:
    said: list[Progress] = []
    context = _context(said.append)
    context.progress(0, "x" * 5000)
    context.progress(100, "lone \ud800")
    assert [len(said[0].message), said[1].message] == [1000, "lone ?"]
    with pytest.raises(InvalidError, match=r"^message: "):
        context.progress(0, b"bytes")  # type: ignore[arg-type]


def _context(*tell: Any) -> Context:
    return context_of(Assignment(b"\1" * 16, 3, "acme", "mail", "send", b"{}", Options(), 0), *tell)


async def test_a_worker_that_is_told_to_leave_finishes_and_leaves() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def job() -> int:
        begun.set()
        await gate.wait()
        return 7

    link = MemoryLink()
    async with working(registry_of(job), link, grace_s=20.0) as worker:
        id_ = link.submit("job")
        await begun.wait()
        link.drain = True
        await link.reported(lambda report: report.running is not None)
        gate.set()
        async with asyncio.timeout(20):
            await worker._finished.wait()
    assert (await link.outcome(id_)).result == b"7"
    assert len(link.ended) == 1


@pytest.mark.parametrize("call", ["register", "pull", "report"])
@pytest.mark.parametrize("error", [UnknownKeyError("revoked"), ForbiddenError("not a worker's key")])
async def test_a_worker_whose_key_is_refused_says_so_and_ends(call: str, error: Exception) -> None:
    link = MemoryLink()
    link.errors[call] = [error]
    with pytest.raises(type(error)):
        await _run_to_its_end(link)


async def test_a_worker_that_is_refused_as_it_is_says_so_and_ends() -> None:
    link = MemoryLink()
    link.errors["register"] = [InvalidError("protocol", "version 1, and the server speaks 2 to 3")]
    with pytest.raises(InvalidError, match="protocol"):
        await _run_to_its_end(link)


async def _run_to_its_end(link: MemoryLink) -> None:
    async def job() -> None: ...

    async with working(registry_of(job), link) as worker, asyncio.timeout(20):
        await worker._finished.wait()
