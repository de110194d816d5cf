"""Files of attempts, results that are too large for a row, and folders that are gone afterwards: in every pool."""

import asyncio
import hashlib
import mimetypes
import os
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from execute import jobs
from execute.harness import MemoryLink, context_of, registry_of, working
from execute.test_checkpoints import POOLS, _named
from mainspring.core.job import Options
from mainspring.core.objects import INLINE_RESULT_BYTES, MAX_OUTPUTS, check_media, output
from mainspring.errors import InvalidError, SessionEndedError, StoreUnavailableError
from mainspring.execute.context import Context
from mainspring.execute.outputs import keep_result
from mainspring.execute.scratch import Scratch
from mainspring.wire import Assignment, Outcome, OutcomeType, Stored

ASSIGNMENT = Assignment(b"j" * 16, 3, "default", "default", "job", b"{}", Options())


def stored(name: str, data: bytes, media: str) -> Stored:
    return Stored(name, len(data), hashlib.sha256(data).hexdigest(), media)


def is_there(folder: str | Path) -> bool:
    return os.path.exists(folder)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("size", [INLINE_RESULT_BYTES - 2, INLINE_RESULT_BYTES - 1, 3_000_000])
async def test_a_large_result_becomes_an_output(pool: str, size: int) -> None:
    link = MemoryLink()
    kind, registry = _named("large", pool)
    async with working(registry, link):
        job = link.submit(kind, {"size": size})
        outcome = await link.outcome(job)
    data = b'"%b"' % (b"x" * size)
    assert outcome.type is OutcomeType.COMPLETED
    if len(data) <= INLINE_RESULT_BYTES:
        assert (outcome.result, outcome.outputs) == (data, ())
    else:
        assert (outcome.result, outcome.outputs) == (None, (stored("result", data, "application/json"),))
        assert await link.objects.read(job, output(1, "result")) == data


async def test_the_checksum_of_something_large_is_not_made_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    made_in: list[int] = []

    def noted(data: bytes) -> Any:
        made_in.append(threading.get_ident())
        return sha256(data)

    sha256 = hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", noted)
    context = context_of(ASSIGNMENT)
    data = bytes(2_000_000)
    assert (await context.output(data, "a")).sha256 == sha256(data).hexdigest()
    outcome = await keep_result(context._services, Outcome(ASSIGNMENT.job, 3, OutcomeType.COMPLETED, data))
    assert outcome.outputs[0].sha256 == sha256(data).hexdigest()
    assert len(made_in) == 2
    assert threading.get_ident() not in made_in


@pytest.mark.parametrize("pool", POOLS)
async def test_files_are_stored_and_their_folder_is_gone(pool: str) -> None:
    link = MemoryLink()
    kind, registry = _named("write_files", pool)
    async with working(registry, link):
        job = link.submit(kind)
        outcome = await link.outcome(job)
        assert outcome.type is OutcomeType.COMPLETED, outcome.failure
        folder = Path((outcome.result or b"").decode().strip('"'))
        assert not is_there(folder)
    assert not is_there(folder.parent)
    table = b"1,2\n" * 300_000
    assert outcome.outputs == (
        stored("a table.csv", table, "text/csv"),
        stored("note", b"second", "text/plain; charset=utf-8"),
    )
    assert await link.objects.read(job, output(1, "a table.csv")) == table
    assert await link.objects.read(job, output(1, "note")) == b"second"


async def test_a_process_that_is_killed_leaves_no_folder(tmp_path: Path) -> None:
    link, pipe = MemoryLink(), tmp_path / "pipe"
    os.mkfifo(pipe)
    async with working(registry_of(jobs.die_in_scratch, pool="process"), link):
        job = link.submit("die_in_scratch", {"pipe": str(pipe)})
        folder = await asyncio.to_thread(pipe.read_text)
        outcome = await link.outcome(job)
        assert outcome.failure is not None
        assert outcome.failure.reason == "killed"
        assert not is_there(folder)


async def test_the_files_of_an_attempt_that_fails_are_not_listed() -> None:
    async def job(context: Context) -> None:
        await context.output(b"1", "one")
        raise ValueError

    link = MemoryLink()
    async with working(registry_of(job), link):
        outcome = await link.run("job")
    assert (outcome.type, outcome.outputs) == (OutcomeType.FAILED, ())


async def test_a_result_is_stored_although_that_fails_at_first() -> None:
    class Shaky(MemoryLink):
        async def put_object(self, session: bytes, job: bytes, attempt: int, name: str, data: bytes | Path) -> None:
            if not self.called["put"].is_set():
                self.called["put"].set()
                raise StoreUnavailableError("no")
            await super().put_object(session, job, attempt, name, data)

    link = Shaky()
    async with working(registry_of(jobs.large_async), link):
        outcome = await link.run("large_async", {"size": 100_000})
    assert [each.name for each in outcome.outputs] == ["result"]


@pytest.mark.parametrize(
    ("error", "type"),
    [(InvalidError("objects", "are elsewhere"), OutcomeType.FAILED), (SessionEndedError("x"), OutcomeType.RETURNED)],
)
async def test_a_result_that_cannot_be_stored(error: Exception, type: OutcomeType) -> None:
    class Refusing(MemoryLink):
        async def put_object(self, *_: object) -> None:
            raise error

    link = Refusing()
    async with working(registry_of(jobs.large_async), link):
        outcome = await link.run("large_async", {"size": 100_000})
    assert (outcome.type, outcome.retry, outcome.result) == (type, type is not OutcomeType.FAILED, None)


async def test_a_cancel_while_the_result_is_stored_is_a_cancel() -> None:
    class Stuck(MemoryLink):
        async def put_object(self, *_: object) -> None:
            self.called["put"].set()
            await asyncio.Event().wait()

    link = Stuck()
    async with working(registry_of(jobs.large_async), link):
        job = link.submit("large_async", {"size": 100_000})
        await link.called["put"].wait()
        link.cancel(job)
        outcome = await link.outcome(job)
    assert (outcome.type, outcome.outputs) == (OutcomeType.CANCELLED, ())


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((b"",), "name"),
        ((b"", ""), "name"),
        ((b"", "result"), "name"),
        ((b"", "a\nb"), "name"),
        ((b"", "ä" * 100), "name"),
        ((b"", "a", "text"), "media"),
        ((b"", "a", "text/html\r\nX-Evil: 1"), "media"),
        ((b"", "a", 1), "media"),
        (("/nowhere/at/all",), "source"),
        (("/tmp",), "source"),
        ((1,), "source"),
    ],
)
async def test_outputs_that_are_refused(arguments: Any, field: str) -> None:
    context = context_of(ASSIGNMENT)
    with pytest.raises(InvalidError) as refused:
        await context.output(*arguments)
    assert refused.value.field == field
    assert context._services.outputs == []


@pytest.mark.parametrize(
    ("name", "media"),
    [
        ("a.csv", "text/csv"),
        ("a.pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
        ("a.csv.gz", "application/gzip"),  # and no CSV
        ("a.tar.bz2", "application/octet-stream"),
        ("a.strange", "application/octet-stream"),
        ("a", "application/octet-stream"),
    ],
)
async def test_the_media_type_is_guessed_and_one_that_a_server_takes(name: str, media: str) -> None:
    mimetypes.add_type("application/strange, very strange", ".strange")  # as a file of the machine may have it
    made = await context_of(ASSIGNMENT).output(b"", name)
    assert made.media == media == check_media(made.media)


async def test_there_is_a_most_of_outputs() -> None:
    context = context_of(ASSIGNMENT)
    context._services.outputs = [Stored(str(number), 0, "") for number in range(MAX_OUTPUTS)]
    await context.output(b"", "7")  # replaces one
    with pytest.raises(InvalidError, match="1,001"):
        await context.output(b"", "more")


async def test_a_file_that_no_place_takes_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "film"
    file.touch()
    os.truncate(file, 32 * 1024**3 + 1)
    async with asyncio.timeout(5):
        with pytest.raises(InvalidError, match=r"source: .*film has 34,359,738,369 bytes; 34,359,738,368 are allowed"):
            await context_of(ASSIGNMENT).output(file)


async def test_a_file_that_grows_meanwhile_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("1")
    context = context_of(ASSIGNMENT)

    async def put(name: str, data: bytes | Path) -> None:
        file.write_text("12")

    await context.output(b"before", "log")
    context._services.put = put
    with pytest.raises(InvalidError, match="was changed while it was stored"):
        await context.output(file)
    assert context._services.outputs == []  # what was there is replaced by that


async def test_scratch_folders_are_private_and_old_ones_of_the_dead_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, young, alive = (tmp_path / f"mainspring-scratch-{name}-x" for name in ("999999998", "999999999", os.getpid()))
    for folder in (dead, young, alive):
        folder.mkdir()
    for folder in (dead, alive):
        os.utime(folder, (time.time() - 90_000,) * 2)
    scratch = Scratch()
    assert sorted(os.listdir(tmp_path)) == sorted([young.name, alive.name])
    context = context_of(ASSIGNMENT)
    context._services.scratch = scratch.of(ASSIGNMENT)
    made = context.scratch
    for folder in (made, made.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    scratch.close()
    assert not made.parent.exists()
