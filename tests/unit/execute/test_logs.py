"""What an attempt writes reaches the objects: whole, in order, masked, within bounds, and whatever becomes of the objects."""

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from mainspring.core.objects import logs
from mainspring.core.segments import END, ERR, INFO, NOTE, OUT, Segment, read_piece
from mainspring.errors import InvalidError, SessionEndedError
from mainspring.execute import logs as module
from mainspring.execute.logs import LogWriter
from mainspring.execute.masking import Mask
from mainspring.objects.place import ObjectPlace

JOB = (1).to_bytes(16, "big")


def whole_piece(data: bytes) -> list[Segment]:
    found = list(read_piece(data))
    assert None not in found
    return [segment for segment in found if segment is not None]


class Kept:
    """A place for the pieces of one attempt, whose door can be shut."""

    def __init__(self) -> None:
        self.objects = ObjectPlace("memory:///")
        self.open = asyncio.Event()
        self.open.set()
        self.asked = asyncio.Event()
        self.refusal: Exception | None = None
        self.at = 0

    async def put(self, name: str, data: bytes) -> None:
        self.asked.set()
        if self.refusal is not None:
            raise self.refusal
        await self.open.wait()
        await self.objects.put(JOB, name, data)

    def now(self) -> int:
        self.at += 1
        return self.at

    def writer(self, **options: Any) -> LogWriter:
        return LogWriter(self.put, 1, self.now, **{"every_s": 60.0} | options)

    async def pieces(self) -> list[list[Segment]]:
        found = await self.objects.find(JOB, logs(1))
        assert [each.name for each in found] == [logs(1, number + 1) for number in range(len(found))]
        return [whole_piece(await self.objects.read(JOB, each.name)) for each in found]

    async def segments(self) -> list[Segment]:
        return [segment for piece in await self.pieces() for segment in piece]

    async def text(self, stream: int = OUT) -> bytes:
        return b"".join(each.data for each in await self.segments() if each.stream == stream)


@pytest.fixture
async def kept() -> Kept:
    return Kept()


async def test_streams_are_kept_in_their_order_with_their_times(kept: Kept) -> None:
    writer = kept.writer()
    writer.log(OUT, b"one\n")
    writer.log(ERR, b"two\n")
    writer.log(INFO, b"three\n")
    await writer.close()
    assert await kept.segments() == [
        Segment(OUT, 1, b"one\n"),
        Segment(ERR, 2, b"two\n"),
        Segment(INFO, 3, b"three\n"),
        Segment(END, 4, b""),
    ]


async def test_who_writes_nothing_leaves_nothing(kept: Kept) -> None:
    await kept.writer().close()
    assert await kept.pieces() == []


async def test_a_line_waits_for_its_end_or_for_that_of_the_attempt(kept: Kept) -> None:
    writer = kept.writer()
    for part in (b"a", b"b", b"c\nd", b"e"):
        writer.log(OUT, part)
        writer.log(ERR, b"x")
    await writer.close()
    assert [each.data for each in await kept.segments()] == [b"abc\n", b"de", b"xxxx", b""]


async def test_what_is_there_is_stored_after_a_while(kept: Kept) -> None:
    writer = kept.writer(every_s=0.001)
    writer.log(OUT, b"one\n")
    await kept.asked.wait()
    kept.asked.clear()
    writer.log(OUT, b"two\n")  # also after a pause
    await kept.asked.wait()
    await writer.close()
    assert await kept.text() == b"one\ntwo\n"
    assert len(await kept.pieces()) == 3


async def test_much_is_stored_at_once(kept: Kept) -> None:
    writer = kept.writer()
    writer.log(OUT, b"x" * 1023 + b"\n")
    await asyncio.sleep(0)
    assert not kept.asked.is_set()
    for _ in range(1024):
        writer.log(OUT, b"x" * 1023 + b"\n")
    await kept.asked.wait()
    await writer.close()
    assert await kept.text() == (b"x" * 1023 + b"\n") * 1025


async def test_threads_write_whole_lines(kept: Kept) -> None:
    writer = kept.writer(every_s=0.001)

    def write(name: int) -> None:
        for number in range(200):
            writer.log(INFO, b"%d-%d\n" % (name, number))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await writer.close()
    lines = (await kept.text(INFO)).decode().splitlines()
    assert len(lines) == 800
    for name in range(4):
        assert [line for line in lines if line.startswith(f"{name}-")] == [f"{name}-{number}" for number in range(200)]


async def test_a_line_without_end_is_stored_in_parts(kept: Kept) -> None:
    writer = kept.writer()
    text = "é" * 100_000
    for begin in range(0, 200_000, 999):
        writer.log(OUT, text.encode()[begin : begin + 999])
    await writer.close()
    segments = await kept.segments()
    assert b"".join(each.data for each in segments).decode() == text
    assert len(segments) > 3
    assert all(each.data.decode() for each in segments[:-1])  # no character is torn


async def test_secrets_are_masked_wherever_the_parts_end(kept: Kept) -> None:
    """In lines, over the ends of what was written, and over the places where a line is cut."""
    secret = b"geheim-geheim"
    writer = kept.writer(mask=lambda data: data.replace(secret, b"***"), longest=len(secret))
    whole = b"a " + secret + b" b\n" + (b"." * 1000 + secret) * 400 + b"\n" + secret
    for begin in range(0, len(whole), 7):
        writer.log(OUT, whole[begin : begin + 7])
    await writer.close()
    text = await kept.text()
    assert text == whole.replace(secret, b"***")


async def test_beyond_the_limit_it_says_what_was_cut_and_what_to_do(kept: Kept) -> None:
    writer = kept.writer(limit=1024)
    for number in range(300):
        writer.log(OUT, b"%07d\n" % number)
    writer.log(ERR, b"and more")
    await writer.close()
    segments = await kept.segments()
    assert await kept.text() == b"".join(b"%07d\n" % number for number in range(128))
    assert [each.stream for each in segments[-2:]] == [NOTE, END]
    assert segments[-2].data == (
        b"1,384 bytes were cut off: only the first 0.000976562 MiB of an attempt are kept. "
        b"MAINSPRING_LOG_LIMIT of the worker raises that\n"
    )


async def test_who_writes_too_fast_waits(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_UNSAVED", 1000)
    monkeypatch.setattr(module, "PIECE", 500)
    kept.open.clear()
    writer = kept.writer()
    for _ in range(9):
        await writer.write(OUT, b"x" * 99 + b"\n")
    waiting = asyncio.create_task(writer.write(OUT, b"last\n"))
    await kept.asked.wait()
    assert not waiting.done()
    kept.open.set()
    await waiting
    await writer.close()
    assert await kept.text() == (b"x" * 99 + b"\n") * 9 + b"last\n"


async def test_objects_that_are_away_do_not_stop_the_job(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded, and what was lost is said where it is missing."""
    monkeypatch.setattr(module, "WRITE_UNSAVED", 1000)
    monkeypatch.setattr(module, "LOG_UNSAVED", 2000)
    monkeypatch.setattr(module, "PIECE", 500)
    kept.open.clear()
    writer = kept.writer(patience_s=0.01)
    for _ in range(100):
        await writer.write(OUT, b"x" * 99 + b"\n")
    written = 100 * 100
    kept.open.set()
    while await kept.text() == b"":
        kept.asked.clear()
        await writer.write(OUT, b"back\n")
        written += 5
        await kept.asked.wait()
    await writer.close()
    (note,) = [each for each in await kept.segments() if each.stream == NOTE]
    text = await kept.text()
    assert note.data.startswith(f"{written - len(text):,} bytes are missing here".encode())
    assert 15 < text.count(b"x" * 99) < 20


async def test_the_rest_of_a_line_of_which_a_part_was_dropped_is_dropped_too(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be that of a secret, which nobody would know any more."""
    monkeypatch.setattr(module, "LOG_UNSAVED", 150)
    mask = Mask(["hunter22"])
    kept.open.clear()
    writer = kept.writer(every_s=0.001, mask=mask.bytes, longest=mask.longest)
    writer.log(ERR, b"x" * 120 + b"\n")
    writer.log(OUT, b"a line\nthe token is hun")
    await kept.asked.wait()
    kept.asked.clear()
    kept.open.set()
    writer.log(ERR, b"y\n")
    await kept.asked.wait()  # for that: the first is stored
    writer.log(OUT, b"ter")
    writer.log(OUT, b"22 and more\nnext\n")
    await writer.close()
    assert await kept.text() == b"next\n"
    notes = [each.data.split()[0] for each in await kept.segments() if each.stream == NOTE]
    assert notes == [b"23", b"15"]  # bytes are missing


async def test_closing_waits_for_the_objects_and_not_for_ever(kept: Kept) -> None:
    kept.open.clear()
    writer = kept.writer(patience_s=0.01)
    writer.log(OUT, b"lost\n")
    await writer.close()
    kept.open.set()
    await asyncio.sleep(0)
    assert await kept.pieces() == []


async def test_closing_waits_as_long_as_pieces_are_stored(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its patience is over again and again, each time with one more of them stored."""
    monkeypatch.setattr(module, "MAX_PIECE", 40)
    writer = kept.writer()
    wait, saved, stored, rounds = asyncio.wait, writer._saved, asyncio.Event(), 0

    def note() -> None:
        saved()
        stored.set()

    async def over(saving: Iterable[asyncio.Task[None]], timeout: float) -> None:
        nonlocal rounds
        rounds += 1
        stored.clear()
        await wait([*saving, asyncio.ensure_future(stored.wait())], return_when=asyncio.FIRST_COMPLETED)

    monkeypatch.setattr(writer, "_saved", note)
    monkeypatch.setattr(asyncio, "wait", over)
    for number in range(10):
        writer.log(OUT, f"line {number:02}\n".encode())
    await writer.close()
    assert (await kept.text()).count(b"\n") == 10
    assert rounds > 1


@pytest.mark.parametrize("refusal", [SessionEndedError("over"), InvalidError("name", "is none")])
async def test_what_nobody_takes_any_more_is_let_go(kept: Kept, refusal: Exception) -> None:
    kept.refusal = refusal
    writer = kept.writer(every_s=0.001)
    writer.log(OUT, b"one\n")
    await kept.asked.wait()
    await writer.write(OUT, b"two\n")
    await writer.close()
    writer.log(OUT, b"three\n")
    assert await kept.pieces() == []


async def test_what_comes_after_the_end_is_not_kept(kept: Kept) -> None:
    writer = kept.writer()
    writer.log(OUT, b"one\n")
    await writer.close()
    writer.log(OUT, b"a thread that goes on\n")
    await writer.close()
    assert [each.stream for each in await kept.segments()] == [OUT, END]
