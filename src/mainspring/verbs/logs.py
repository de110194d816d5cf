"""What attempts wrote, and what they gave out while they ran, as documents (see `faces.Jobs.logs` and `partial`).

A part of a log is one segment (`core.segments`); its id says where it is: attempt, piece, segment. A log that did not come to its
end, because its worker was lost or could not reach the objects, says so in a part of its own, which has no id: it is not stored,
and whoever goes on behind the part before it may read it again.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from itertools import islice

from msgspec import Raw

from mainspring.core import objects
from mainspring.core.job import JobRecord
from mainspring.core.segments import END, NOTE, STREAMS, Segment, read_piece
from mainspring.core.timer import from_micros
from mainspring.errors import InvalidError
from mainspring.verbs import documents as d
from mainspring.verbs.pieces import START, Piece, Pieces, Place, Room

LOGS = Room(objects.LOGS, objects.logs)
PARTIAL = Room(objects.PARTIAL, objects.partial)

_MISSING = "the end of this log is missing: its worker was lost, or could not store it\n"
_UNREADABLE = "a part of this log cannot be read\n"
_AT_ONCE = 1000  # parts: some milliseconds
_NUMBER = re.compile(r"[0-9]{1,10}")


async def read_logs(
    pieces: Pieces, record: JobRecord, attempt: int | None, after: str | None, follow: bool
) -> AsyncGenerator[list[d.LogPart], None]:
    """Some parts at a time, so that nobody waits long for a turn in the event loop. An empty list says that the objects can be
    read, where nothing else does."""
    last = (*START, -1) if after is None else _read_id(after, 3)
    shown = _Shown(last)
    first = (last[0], last[1])  # once more: where it ends has to be seen
    async for piece in pieces.read(record, LOGS, first=first, attempt=attempt, follow=follow):
        if piece is None:
            yield []
            continue
        parts = shown.parts(piece)
        while some := list(islice(parts, _AT_ONCE)):
            yield some
            await asyncio.sleep(0)


class _Shown:
    """What was read of a log; `last`: where to go on behind."""

    def __init__(self, last: tuple[int, ...]) -> None:
        self._last = last
        self._at = 0
        self._ended = False

    def parts(self, piece: Piece) -> Iterator[d.LogPart]:
        if piece.data is None:
            if not self._ended:
                yield self._note(piece, _MISSING)
            self._ended = False
            return
        for place, segment in enumerate(read_piece(piece.data)):
            if segment is None:
                yield self._note(piece, _UNREADABLE)
            elif part := self._part(piece, place, segment):
                yield part

    def _part(self, piece: Piece, place: int, segment: Segment) -> d.LogPart | None:
        self._at = segment.at
        self._ended = segment.stream == END
        where = (piece.attempt, piece.number, place)
        if self._ended or where <= self._last:
            return None
        return d.LogPart(
            id="{}-{}-{}".format(*where),
            attempt=piece.attempt,
            at=from_micros(segment.at),
            stream=STREAMS.get(segment.stream, str(segment.stream)),
            text=segment.data.decode(errors="replace"),
        )

    def _note(self, piece: Piece, text: str) -> d.LogPart:
        return d.LogPart(attempt=piece.attempt, at=from_micros(self._at), stream=STREAMS[NOTE], text=text)


async def read_partial(
    pieces: Pieces, record: JobRecord, after: str | None, follow: bool
) -> AsyncGenerator[d.PartialResult | None, None]:
    """None says that the objects can be read, where nothing else does."""
    first: Place = START
    if after is not None:
        attempt, number = _read_id(after, 2)
        first = (attempt, number + 1)
    async for piece in pieces.read(record, PARTIAL, first=first, follow=follow):
        if piece is None:
            yield None
        elif piece.data is not None:
            yield d.PartialResult(id=f"{piece.attempt}-{piece.number}", attempt=piece.attempt, value=Raw(piece.data))


def check_after(after: str | None, numbers: int) -> None:
    if after is not None:
        _read_id(after, numbers)


def _read_id(text: str, numbers: int) -> tuple[int, ...]:
    parts = text.split("-")
    if len(parts) != numbers or not all(_NUMBER.fullmatch(part) for part in parts):
        raise InvalidError("after", "is not the id of something that was read here before")
    return tuple(int(part) for part in parts)
