"""What the process pool and its children say to each other: length-prefixed MessagePack over a socket pair.

The parent sends an `Order`. The child answers with `Begun` when the function of a job with a timeout begins, with `Moved`
whenever it says how far it is, with `Log` when it writes, and at last with `Ended`. Between, it may `Ask` for the objects of its
job, and the parent sends an `Answer` to each. Only these shapes travel; a job's arguments stay the JSON they were.
"""

import asyncio
import socket
import struct

import msgspec
from msgspec import Struct

from mainspring.core.objects import Found
from mainspring.execute.targets import Target
from mainspring.wire import Assignment, Outcome, Progress

_HEADER = struct.Struct("!I")


class Function(Struct, frozen=True):
    """What the child needs to rebuild a kind; `errors` are pickled references to exception types."""

    name: str
    target: Target
    errors: bytes


class Order(Struct, frozen=True, tag=True):
    """Run this attempt."""

    function: Function
    assignment: Assignment
    resume: bytes | None = None  # what it goes on from
    scratch: str | None = None  # the name of its folder


class Begun(Struct, frozen=True, tag=True):
    """The function is entered."""


class Moved(Struct, frozen=True, tag=True):
    progress: Progress


class Log(Struct, frozen=True, tag=True):
    stream: int
    data: bytes


class Put(Struct, frozen=True, tag=True):
    """`path`: a file to take instead of `data`; both sides are on one machine."""

    name: str
    data: bytes = b""
    path: str | None = None


class Read(Struct, frozen=True, tag=True):
    name: str


class Find(Struct, frozen=True, tag=True):
    prefix: str


class Ask(Struct, frozen=True, tag=True):
    """Something that the attempt wants of its worker; `number` says which answer is its own."""

    number: int
    what: Put | Read | Find


class Trouble(Struct, frozen=True):
    """An error of `mainspring.errors`, and the words it is made with."""

    type: str
    words: list[str]


class Answer(Struct, frozen=True, tag=True):
    number: int
    data: bytes | None = None  # read: None where there is no such object
    found: list[Found] = []
    trouble: Trouble | None = None


class Ended(Struct, frozen=True, tag=True):
    outcome: Outcome


encode = msgspec.msgpack.Encoder().encode
decode_for_child = msgspec.msgpack.Decoder(Order | Answer).decode
decode_for_parent = msgspec.msgpack.Decoder(Begun | Moved | Log | Ask | Ended).decode


def frame(payload: bytes) -> bytes:
    return _HEADER.pack(len(payload)) + payload


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """In the parent; IncompleteReadError or ConnectionError when the child is gone."""
    (size,) = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    return await reader.readexactly(size)


def receive_frame(sock: socket.socket) -> bytes | None:
    """In the child; None when the parent is gone."""
    header = _receive(sock, _HEADER.size)
    return None if header is None else _receive(sock, _HEADER.unpack(header)[0])


def _receive(sock: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        try:
            part = sock.recv(min(size - len(data), 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        data += part
    return bytes(data)
