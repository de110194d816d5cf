"""What jobs wrote and gave out, read back: whole, in order, from anywhere on, as it comes, and by nobody else."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec import json

from mainspring.core.job import JobRecord
from mainspring.core.objects import logs, partial
from mainspring.core.partition import parse_id
from mainspring.core.segments import END, ERR, INFO, OUT, encode_segment, make_piece
from mainspring.errors import InvalidError, NotFoundError, StoreUnavailableError
from mainspring.verbs import documents as d
from mainspring.verbs import pieces
from verbs.site import NOBODY, Site
from verbs.test_events import Listening

MISSING = "the end of this log is missing: its worker was lost, or could not store it\n"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "POLL_S", 0.02)


class Writing:
    """A job whose attempts write."""

    def __init__(self, site: Site, id: str) -> None:
        self.site = site
        self.id = id
        self.job = parse_id(id)
        self._numbers = itertools.count(1)
        self._given = itertools.count(1)

    async def start(self) -> None:
        self._session = await self.site.session()
        await self.site.assign(self._session, [self.job])
        self._numbers = itertools.count(1)
        self._given = itertools.count(1)
        self.attempt = (await self.site.record(self.job)).attempt

    async def piece(self, *segments: tuple[int, bytes]) -> None:
        """Each a second later than the one before."""
        encoded = []
        for stream, data in segments:
            encoded.append(encode_segment(stream, self.site.clock.now(), data))
            self.site.clock.jump(1)
        await self.raw(make_piece(encoded))

    async def raw(self, data: bytes) -> None:
        await self.site.engine.objects.put(self.job, logs(self.attempt, next(self._numbers)), data)

    async def give_out(self, value: Any, number: int | None = None) -> None:
        number = number or next(self._given)
        await self.site.engine.objects.put(self.job, partial(self.attempt, number), json.encode(value))

    async def end(self, state: str = "completed") -> None:
        if state == "failed":
            await self.site.fail(self._session, self.job, self.attempt)
        else:
            assert await self.site.settle(self._session, self.job, self.attempt, state)

    async def fail(self) -> None:
        """And try again."""
        assert await self.site.fail(self._session, self.job, self.attempt, again_in_s=0.0)

    async def read(self, **asked: Any) -> list[d.LogPart]:
        return [part async for part in self.site.verbs().jobs.logs(self.id, **asked)]

    async def text(self, **asked: Any) -> str:
        return "".join(part.text for part in await self.read(**asked))


@pytest.fixture
async def job(site: Site) -> Writing:
    writing = Writing(site, await site.send(delay=0))
    await writing.start()
    return writing


def shown(part: d.LogPart) -> tuple[str | None, int, str, str]:
    return part.id, part.attempt, part.stream, part.text


async def test_everything_that_was_written_in_order(job: Writing) -> None:
    began_at = job.site.clock.now()
    await job.piece((OUT, b"one\ntwo\n"), (ERR, b"oh\n"))
    await job.piece((INFO, "drei \N{BELL SYMBOL}\n".encode()), (OUT, b"\xff\n"), (END, b""))
    await job.end()
    parts = await job.read()
    assert [shown(part) for part in parts] == [
        ("1-1-0", 1, "stdout", "one\ntwo\n"),
        ("1-1-1", 1, "stderr", "oh\n"),
        ("1-2-0", 1, "info", "drei \N{BELL SYMBOL}\n"),
        ("1-2-1", 1, "stdout", "\N{REPLACEMENT CHARACTER}\n"),
    ]
    assert [int(part.at.timestamp() * 1_000_000) - began_at for part in parts] == [0, 1e6, 2e6, 3e6]
    assert await job.read(follow=True) == parts


async def test_a_piece_of_many_short_lines_leaves_others_their_turns(on_sqlite: Site) -> None:
    job = Writing(on_sqlite, await on_sqlite.send(delay=0))
    await job.start()
    await job.piece(*((OUT, b"%d\n" % number) for number in range(2500)), (END, b""))
    await job.end()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    batches = await on_sqlite.local().jobs.open_logs(job.id, attempt=None, after=None, follow=False)
    found = [await anext(batches)]
    beside = asyncio.create_task(others())
    found.append(await anext(batches))
    assert turns > 0
    found += [parts async for parts in batches]
    beside.cancel()
    assert [len(parts) for parts in found] == [1000, 1000, 500]
    assert "".join(part.text for parts in found for part in parts) == "".join(f"{number}\n" for number in range(2500))


async def test_attempts_follow_each_other_and_can_be_read_apart(job: Writing) -> None:
    await job.piece((OUT, b"first\n"), (END, b""))
    await job.fail()
    await job.start()
    await job.piece((OUT, b"second\n"), (END, b""))
    await job.end()
    assert await job.text() == "first\nsecond\n"
    assert await job.text(attempt=1) == "first\n"
    assert await job.text(attempt=2, follow=True) == "second\n"
    assert await job.text(attempt=3) == ""


async def test_reading_goes_on_behind_any_part(job: Writing) -> None:
    await job.piece((OUT, b"one\n"), (OUT, b"two\n"))
    await job.piece((OUT, b"three\n"), (END, b""))
    await job.fail()
    await job.start()
    await job.piece((OUT, b"four\n"), (END, b""))
    await job.end()
    parts = await job.read()
    for place, part in enumerate(parts):
        assert await job.read(after=part.id) == parts[place + 1 :]


@pytest.mark.parametrize("after", ["", "1", "1-1", "1-1-1-1", "a-b-c", "1-1--1", "1-1-99999999999", "1-1-1\n"])
async def test_what_is_no_id_is_refused(on_sqlite: Site, after: str) -> None:
    job = await on_sqlite.send()
    with pytest.raises(InvalidError, match="after: is not the id"):
        await anext(on_sqlite.verbs().jobs.logs(job, after=after))


async def test_other_questions_that_make_no_sense(site: Site) -> None:
    jobs, mine = site.verbs().jobs, await site.send()
    for asked in ({"attempt": 0}, {"attempt": 2**31}, {"after": "x"}):
        with pytest.raises(InvalidError, match=next(iter(asked))):
            await anext(jobs.logs(mine, **asked))
    with pytest.raises(InvalidError, match="after"):
        await anext(jobs.partial(mine, after="1-1-1"))


async def test_jobs_of_others_are_none(site: Site) -> None:
    theirs = await site.send("others")
    for job, tenant in ((NOBODY, "default"), (theirs, "default")):
        jobs = site.verbs(tenant).jobs
        with pytest.raises(NotFoundError, match=f"there is no job {job}"):
            await anext(jobs.logs(job, follow=True))
        with pytest.raises(NotFoundError, match=f"there is no job {job}"):
            await anext(jobs.partial(job))


async def test_who_follows_hears_everything_and_the_end(job: Writing) -> None:
    await job.piece((OUT, b"before\n"))
    listening = [Listening(job.site.verbs().jobs.logs(job.id, follow=True)) for _ in range(2)]
    for each in listening:
        assert (await each.next()).text == "before\n"
    await job.piece((OUT, b"one\n"))
    await job.piece((OUT, b"two\n"), (END, b""))
    for each in listening:
        assert [(await each.next()).text for _ in range(2)] == ["one\n", "two\n"]
    await job.fail()
    await job.start()
    await job.piece((OUT, b"again\n"), (END, b""))
    await job.end()
    for each in listening:
        assert shown(await each.next()) == ("2-1-0", 2, "stdout", "again\n")
        await each.ended()
        assert each.silent


async def test_who_follows_one_attempt_is_let_go_with_it(job: Writing) -> None:
    listening = Listening(job.site.verbs().jobs.logs(job.id, attempt=1, follow=True))
    await job.piece((OUT, b"one\n"), (END, b""))
    await job.fail()
    await job.start()
    await job.piece((OUT, b"two\n"))
    await listening.ended()
    assert (await listening.next()).text == "one\n"
    assert listening.silent


async def test_who_follows_waits_for_a_job_that_has_not_begun(site: Site) -> None:
    job = Writing(site, await site.send(delay=0))
    listening = Listening(site.verbs().jobs.logs(job.id, follow=True))
    await job.start()
    await job.piece((OUT, b"one\n"), (END, b""))
    assert (await listening.next()).text == "one\n"
    await job.end()
    await listening.ended()


async def test_a_log_without_its_end_says_so(job: Writing) -> None:
    """Once its attempt is over, and where the attempt wrote at all."""
    await job.piece((OUT, b"one\n"))
    assert await job.text() == "one\n"
    await job.fail()
    await job.start()
    await job.fail()
    await job.start()
    assert [shown(part) for part in await job.read()] == [
        ("1-1-0", 1, "stdout", "one\n"),
        (None, 1, "note", MISSING),
    ]
    assert await job.text(after="1-1-0") == MISSING
    await job.end()
    assert await job.text(follow=True) == "one\n" + MISSING


async def test_pieces_that_are_torn_or_foreign_spoil_nothing(job: Writing) -> None:
    piece = make_piece([encode_segment(OUT, 1, b"one\n"), encode_segment(OUT, 2, b"two\n")])
    await job.raw(piece[:-1])
    await job.raw(b"anything")
    await job.piece((OUT, b"three\n"), (END, b""))
    await job.end()
    note = "a part of this log cannot be read\n"
    assert [part.text for part in await job.read()] == ["one\n", note, note, "three\n"]


async def test_long_parts_come_whole(job: Writing) -> None:
    """Also over HTTP, where a control character is six."""
    await job.piece((OUT, b"\x1b" * 65_536), (END, b""))
    await job.give_out("x" * 1_000_000)
    await job.end()
    assert await job.text() == "\x1b" * 65_536
    (given,) = [each async for each in job.site.verbs().jobs.partial(job.id)]
    assert json.decode(given.value) == "x" * 1_000_000


async def test_many_who_follow_ask_little(on_sqlite: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are, the questions about a job are those of one."""
    monkeypatch.setattr(pieces, "POLL_S", 0.05)
    job = Writing(on_sqlite, await on_sqlite.send(delay=0))
    await job.start()
    asked: list[str] = []
    read = on_sqlite.engine.objects.read

    async def counted(job: bytes, name: str) -> bytes:
        asked.append(name)
        return await read(job, name)

    monkeypatch.setattr(on_sqlite.engine.objects, "read", counted)
    listening = [Listening(on_sqlite.verbs().jobs.logs(job.id, follow=True)) for _ in range(50)]
    for number in range(3):
        await job.piece((OUT, b"%d\n" % number))
        for each in listening:
            assert (await each.next()).text == f"{number}\n"
    found = [name for name in asked if name != logs(1, 1)]  # whose readers had begun, or not
    assert len(found) < 50
    for each in listening:
        await each.end()


async def test_objects_that_are_away_for_a_moment_end_no_stream(
    on_sqlite: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Writing(on_sqlite, await on_sqlite.send(delay=0))
    await job.start()
    away = asyncio.Event()
    objects = on_sqlite.engine.pieces._objects
    read = objects.read

    async def refuse(tenant: str, job: bytes, name: str) -> bytes:
        away.set()
        raise StoreUnavailableError("away")

    await job.piece((OUT, b"one\n"))
    listening = Listening(on_sqlite.verbs().jobs.logs(job.id, follow=True))
    assert (await listening.next()).text == "one\n"
    monkeypatch.setattr(objects, "read", refuse)
    async with asyncio.timeout(20):
        await away.wait()
    await job.piece((OUT, b"two\n"))
    monkeypatch.setattr(objects, "read", read)
    assert (await listening.next()).text == "two\n"
    await listening.end()


async def test_a_job_that_is_removed_ends_its_streams(on_sqlite: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Writing(on_sqlite, await on_sqlite.send(delay=0))
    await job.start()
    await job.piece((OUT, b"one\n"))
    listening = Listening(on_sqlite.verbs().jobs.logs(job.id, follow=True))
    assert (await listening.next()).text == "one\n"

    async def gone(jobs: list[bytes]) -> list[JobRecord | None]:
        return [None]

    monkeypatch.setattr(on_sqlite.store, "read_jobs", gone)
    await listening.ended()


async def test_closing_lets_everybody_go(on_sqlite: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "POLL_S", 60.0)
    job = Writing(on_sqlite, await on_sqlite.send(delay=0))
    await job.start()
    await job.piece((OUT, b"one\n"))
    listening = Listening(on_sqlite.verbs().jobs.logs(job.id, follow=True))
    assert (await listening.next()).text == "one\n"
    on_sqlite.engine.close()
    await listening.ended()


# partial results


def _values(stream: AsyncGenerator[d.PartialResult, None]) -> AsyncGenerator[Any, None]:
    async def values() -> AsyncGenerator[Any, None]:
        async for given in stream:
            yield json.decode(given.value)

    return values()


async def test_partial_results_from_the_start_and_as_they_come(job: Writing) -> None:
    jobs = job.site.verbs().jobs
    await job.give_out({"done": 1})
    listening = Listening(_values(jobs.partial(job.id, follow=True)))
    assert await listening.next() == {"done": 1}
    await job.give_out([2])
    assert await listening.next() == [2]
    await job.fail()
    await job.start()
    await job.give_out(None)
    await job.end()
    assert await listening.next() is None
    await listening.ended()
    given = [each async for each in jobs.partial(job.id)]
    assert [(each.id, each.attempt, bytes(each.value)) for each in given] == [
        ("1-1", 1, b'{"done":1}'),
        ("1-2", 1, b"[2]"),
        ("2-1", 2, b"null"),
    ]
    assert [each.id async for each in jobs.partial(job.id, after="1-2")] == ["2-1"]


async def test_one_that_is_late_is_waited_for_and_one_that_never_comes_is_not(job: Writing) -> None:
    """Several may be given out at once, and one of them may be given up."""
    jobs = job.site.verbs().jobs
    await job.give_out("two", number=2)
    assert [each async for each in jobs.partial(job.id)] == []
    listening = Listening(_values(jobs.partial(job.id, follow=True)))
    await job.give_out("one", number=1)
    assert [await listening.next() for _ in range(2)] == ["one", "two"]
    await job.give_out("five", number=5)
    await job.end()
    assert await listening.next() == "five"
    await listening.ended()
