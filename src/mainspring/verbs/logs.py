"""What attempts wrote, and what they gave out while they ran, as documents (see `faces.Jobs.logs` and `partial`).

A part of a log is one segment (`core.segments`); its id says where it is: attempt, piece, segment. A log that did not come to its
end, because its worker was lost or could not reach the objects, says so in a part of its own, which has no id: it is not stored,
and whoever goes on behind the part before it may read it again.
"""

import re
from collections.abc import AsyncGenerator

from msgspec import Raw

from mainspring.core.job import JobRecord
from mainspring.core.objects import logs, partial
from mainspring.core.segments import END, NOTE, STREAMS, Segment, read_piece
from mainspring.core.timer import from_micros
from mainspring.errors import InvalidError
from mainspring.verbs import documents as d
from mainspring.verbs.pieces import START, Piece, Pieces, Place, Room

LOGS = Room("logs/", logs)
PARTIAL = Room("partial/", partial)

_MISSING = "the end of this log is missing: its worker was lost, or could not store it\n"
_UNREADABLE = "a part of this log cannot be read\n"
_NUMBER = re.compile(r"[0-9]{1,10}")


async def read_logs(
    pieces: Pieces, record: JobRecord, attempt: int | None, after: str | None, follow: bool
) -> AsyncGenerator[list[d.LogPart], None]:
    """Piece by piece, each with at least one part."""
    last = (*START, -1) if after is None else _read_id(after, 3)
    shown = _Shown(last)
    first = (last[0], last[1])  # once more: where it ends has to be seen
    async for piece in pieces.read(record, LOGS, first=first, attempt=attempt, follow=follow):
        parts = shown.parts(piece)
        if parts:
            yield parts


class _Shown:
    """What was read of a log; `last`: where to go on behind."""

    def __init__(self, last: tuple[int, ...]) -> None:
        self._last = last
        self._at = 0
        self._ended = False

    def parts(self, piece: Piece) -> list[d.LogPart]:
        if piece.data is None:
            ended, self._ended = self._ended, False
            return [] if ended else [self._note(piece, _MISSING)]
        segments, whole = read_piece(piece.data)
        parts = [part for place, segment in enumerate(segments) if (part := self._part(piece, place, segment))]
        return parts if whole else [*parts, self._note(piece, _UNREADABLE)]

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
) -> AsyncGenerator[d.PartialResult, None]:
    first: Place = START
    if after is not None:
        attempt, number = _read_id(after, 2)
        first = (attempt, number + 1)
    async for piece in pieces.read(record, PARTIAL, first=first, follow=follow):
        if piece.data is not None:
            yield d.PartialResult(id=f"{piece.attempt}-{piece.number}", attempt=piece.attempt, value=Raw(piece.data))


def check_after(after: str | None, numbers: int) -> None:
    if after is not None:
        _read_id(after, numbers)


def _read_id(text: str, numbers: int) -> tuple[int, ...]:
    parts = text.split("-")
    if len(parts) != numbers or not all(_NUMBER.fullmatch(part) for part in parts):
        raise InvalidError("after", "is not the id of something that was read here before")
    return tuple(int(part) for part in parts)
