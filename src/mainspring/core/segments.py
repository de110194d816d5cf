"""What an attempt writes, as bytes to be kept: a log is a sequence of pieces, a piece a sequence of segments. Pure.

A segment is what one stream said at one time: some whole lines, or the part of a line that is too long for one. Its head has 13
bytes: stream, time, size. A piece begins with four bytes that tell that it is one. Reading takes what is whole and says whether
that was all, whatever it is given. The last segment of a log that came to its end is an empty one of the stream `END`.
"""

import struct
from collections.abc import Iterable, Iterator

from msgspec import Struct

from mainspring.core.timer import Micros

END = 0
OUT = 1
ERR = 2
INFO = 3
DEBUG = 4
WARNING = 5
ERROR = 6
NOTE = 7  # words of Mainspring itself about this log

#: Streams by the names that people see.
STREAMS = {
    OUT: "stdout",
    ERR: "stderr",
    INFO: "info",
    DEBUG: "debug",
    WARNING: "warning",
    ERROR: "error",
    NOTE: "note",
}
LEVELS = {STREAMS[stream]: stream for stream in (DEBUG, INFO, WARNING, ERROR)}

MAX_SEGMENT = 65_536  # bytes

_MAGIC = b"MSL\x01"
_HEAD = struct.Struct("!BQI")


class Segment(Struct, frozen=True, gc=False):
    stream: int
    at: Micros
    data: bytes


def encode_segment(stream: int, at: Micros, data: bytes) -> bytes:
    return _HEAD.pack(stream, at, len(data)) + data


def make_piece(encoded: Iterable[bytes]) -> bytes:
    """Of segments that were encoded."""
    return b"".join((_MAGIC, *encoded))


def read_piece(piece: bytes) -> Iterator[Segment | None]:
    """Its segments, as far as they are whole; None behind them where that is not all of it."""
    place = len(_MAGIC) if piece.startswith(_MAGIC) else len(piece) + 1
    while place + _HEAD.size <= len(piece):
        stream, at, size = _HEAD.unpack_from(piece, place)
        begin = place + _HEAD.size
        if begin + size > len(piece):
            break
        place = begin + size
        yield Segment(stream, at, piece[begin:place])
    if place != len(piece):
        yield None


def as_lines(text: str) -> bytes:
    """A text as what a stream takes."""
    return text.encode(errors="replace") + b"\n"


def split(data: bytes, most: int = MAX_SEGMENT) -> Iterator[bytes]:
    """Parts of at most `most` bytes; they end with a line where they can, else with a character."""
    begin = 0
    while len(data) - begin > most:
        end = data.rfind(b"\n", begin, begin + most) + 1 or whole_characters(data, begin + most)
        yield data[begin:end]
        begin = end
    if begin < len(data):
        yield data[begin:] if begin else data


def whole_characters(data: bytes, end: int) -> int:
    """The place at or shortly before `end` where no character of UTF-8 is torn apart."""
    for back in range(1, min(4, end) + 1):
        byte = data[end - back]
        if byte & 0xC0 != 0x80:  # where a character begins
            return end if back >= _size(byte) else end - back
    return end  # no UTF-8


def _size(first: int) -> int:
    """Of a character, by its first byte."""
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
