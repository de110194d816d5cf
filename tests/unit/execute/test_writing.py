"""What functions write, and what they give out while they run, from every pool."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from execute import jobs
from execute.harness import MemoryLink, context_of, registry_of, working
from mainspring.core.job import Options
from mainspring.core.objects import logs, partial
from mainspring.core.segments import DEBUG, END, ERROR, INFO, OUT, WARNING, Segment, read_piece
from mainspring.errors import InvalidError
from mainspring.execute.context import Context
from mainspring.execute.logs import LogWriter
from mainspring.execute.records import JobLogHandler
from mainspring.wire import Assignment, OutcomeType

POOLS = [
    (jobs.write_lines_async, "async"),
    (jobs.write_lines, "thread"),
    (jobs.write_lines, "process"),
    (jobs.write_lines_async, "process"),
]


async def _written(link: MemoryLink, job: bytes) -> list[Segment]:
    pieces = [await link.objects.read(job, each.name) for each in await link.objects.find(job, logs(1))]
    return [segment for piece in pieces for segment in read_piece(piece) if segment is not None]


async def _lines(link: MemoryLink, job: bytes) -> list[tuple[int, bytes]]:
    segments = await _written(link, job)
    assert not segments or segments[-1].stream == END
    return [(each.stream, each.data) for each in segments[:-1]]


@pytest.mark.parametrize(("function", "pool"), POOLS)
async def test_lines_are_stored_when_the_outcome_is_reported(function: Any, pool: str) -> None:
    link = MemoryLink()
    async with working(registry_of(function, pool=pool), link):
        job = link.submit(function.__name__)
        assert (await link.outcome(job)).failure is None
        assert await _lines(link, job) == [
            (INFO, b"one\ntwo\n"),
            (WARNING, b"careful\n"),
            (DEBUG, b"shop: small talk\n"),
            (ERROR, b"shop: the end of it\n"),
        ]


@pytest.mark.parametrize(
    ("function", "pool"),
    [
        (jobs.write_records_async, "async"),
        (jobs.write_records, "thread"),
        (jobs.write_records, "process"),
        (jobs.write_records_async, "process"),
    ],
)
async def test_records_of_logging_need_no_context(function: Any, pool: str) -> None:
    link = MemoryLink()
    async with working(registry_of(function, pool=pool), link):
        first, second = link.submit(function.__name__), link.submit(function.__name__)
        for job in (first, second):
            assert (await link.outcome(job)).result == b'"done"'
            assert await _lines(link, job) == [(INFO, b"shop: said\n")]


async def test_functions_that_write_nothing_have_no_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    async def job() -> int:
        return 1

    monkeypatch.setattr(LogWriter, "__init__", refuse)
    link = MemoryLink()
    async with working(registry_of(job), link):
        assert (await link.run("job")).result == b"1"


async def test_a_process_is_not_interrupted_in_the_middle_of_what_it_says(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    link = MemoryLink()
    async with working(registry_of(jobs.write_until_stopped, pool="process"), link, stop_grace_s=20.0):
        job = link.submit("write_until_stopped", {"pipe": pipe})
        assert await asyncio.to_thread(Path(pipe).read_text) == "begun"
        link.cancel(job)
        outcome = await link.outcome(job)
    assert outcome.type is OutcomeType.CANCELLED
    text = b"".join(each.data for each in await _written(link, job) if each.stream == INFO)
    assert text.replace(b"shop: " + b"x" * 100_000 + b"\n", b"") == b""


async def test_a_failed_job_has_its_lines_too() -> None:
    async def job(context: Context) -> None:
        context.log("before")
        raise ValueError("no")

    link = MemoryLink()
    async with working(registry_of(job), link):
        number = link.submit("job")
        assert (await link.outcome(number)).type is OutcomeType.FAILED
        assert await _lines(link, number) == [(INFO, b"before\n")]


async def test_secrets_stay_out_of_logs() -> None:
    async def job(context: Context) -> None:
        context.log(f"logging in with {context.secret('TOKEN')}")
        context._services.log(OUT, b"hunt")
        await context._services.write(OUT, b"er2-hunter2 again\n")

    link = MemoryLink()
    async with working(registry_of(job), link):
        link.assign(
            Assignment(
                b"1" * 16, 1, "default", "default", "job", b"{}", Options(), secrets={"TOKEN": "hunter2-hunter2"}
            )
        )
        assert (await link.outcome(b"1" * 16)).failure is None
        assert await _lines(link, b"1" * 16) == [(INFO, b"logging in with ***\n"), (OUT, b"*** again\n")]


async def test_the_limit_is_the_workers() -> None:
    async def job(context: Context) -> None:
        for number in range(100):
            context.log(f"{number:09}")

    link = MemoryLink()
    async with working(registry_of(job), link, log_limit=500):
        number = link.submit("job")
        await link.outcome(number)
        lines = await _lines(link, number)
    assert len(lines) == 51
    assert lines[-1][1].startswith(b"500 bytes were cut off")


@pytest.mark.parametrize("pool", ["async", "process"])
async def test_partial_results_are_stored_as_they_are_given_out(pool: str) -> None:
    link = MemoryLink()
    async with working(registry_of(jobs.emit_values, pool=pool), link):
        job = link.submit("emit_values")
        assert (await link.outcome(job)).failure is None
    found = await link.objects.find(job, partial(1))
    assert [each.name for each in found] == [partial(1, number) for number in (1, 2, 3)]
    values = [msgspec.json.decode(await link.objects.read(job, each.name)) for each in found]
    assert values == [{"number": 0}, {"number": 1}, {"number": 2}]


@pytest.mark.parametrize(
    ("value", "problem"),
    [(float("nan"), "nan"), (object(), "object"), ("x" * 1_048_577, "1,048,579 bytes of JSON are too many")],
)
async def test_what_cannot_be_given_out_is_refused(value: object, problem: str) -> None:
    with pytest.raises(InvalidError, match=problem):
        await _context().emit(value)


async def test_what_was_refused_leaves_no_gap_that_followers_would_wait_at() -> None:
    context = _context()
    with pytest.raises(InvalidError):
        await context.emit(object())
    await context.emit("first")
    assert await context._services.read(partial(1, 1)) == b'"first"'


async def test_there_is_an_end_to_what_is_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.execute.partials.MAX_PARTIALS", 2)
    context = _context()
    await context.emit(1)
    await context.emit(2)
    with pytest.raises(InvalidError, match="may give out 2 partial results"):
        await context.emit(3)


def test_lines_are_text_at_a_level() -> None:
    with pytest.raises(InvalidError, match="text: expected text, got bytes"):
        _context().log(b"bytes")  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="level: 'loud' is none of debug, info, warning, error"):
        _context().log("x", "loud")


def test_records_outside_of_attempts_go_nowhere() -> None:
    logger = logging.Logger("nobody")
    logger.addHandler(JobLogHandler())
    logger.error("unheard")


def _context() -> Context:
    return context_of(Assignment(b"1" * 16, 1, "default", "default", "job", b"{}", Options()))
