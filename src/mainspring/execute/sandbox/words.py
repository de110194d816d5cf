"""What a worker and its host of programs say to each other: whole messages on pairs of sockets, descriptors beside them.

For each program the worker makes a pair and sends one end of it to the host, with a file in memory that holds the `Request`. There
the host says `Started` (beside it the program's standard output and standard error) or `Refused`, then `Done`, and closes its end
when nothing of the program is left. The worker may say TERMINATE and KILL; closes it its end, or is gone, the program is ended.
"""

import asyncio
import os
import pickle
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from mainspring.execute.sandbox.descriptors import Descriptors
from mainspring.execute.sandbox.launch import Order
from mainspring.wire import Usage

TERMINATE, KILL = b"terminate", b"kill"

_LONGEST = 16_384
_LONGEST_WHY = 4_000
_STREAMS = 2


class Request(Struct, frozen=True):
    """Run this, with these files in its working folder. `folder`: one that is there already, and stays; None: a new one."""

    order: Order
    files: Mapping[str, bytes] = {}
    folder: str | None = None


class Started(Struct, frozen=True, tag=True):
    """`folder`: where its own ones are, as the system has it. `trouble`: no concern of this program, but of the worker's log."""

    pid: int
    folder: bytes
    trouble: str | None = None


class Refused(Struct, frozen=True, tag=True):
    """It did not even begin."""

    why: str


class Done(Struct, frozen=True, tag=True):
    """It has ended. `killed`: what ended it, if it did not end by itself."""

    exit_code: int
    killed: str | None
    usage: Usage


Answer = Started | Refused | Done

_encode = msgspec.msgpack.Encoder().encode
_decode_answer = msgspec.msgpack.Decoder(Answer).decode


class Talk:
    """One end of a program's pair, in an event loop."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end

    def say(self, word: bytes) -> None:
        """Words are few and short: there is always room. Nobody may be there to hear it."""
        with suppress(OSError):
            self._end.send(word)

    def answer(self, answer: Answer, streams: Sequence[int] = ()) -> None:
        with suppress(ConnectionError):
            socket.send_fds(self._end, [_encode(answer)], streams)

    async def hear(self) -> bytes:
        """The next word; none at the end of the talk."""
        return (await self._receive())[0]

    async def hear_answer(self) -> tuple[Answer, list[int]] | None:
        """With the streams beside it, which are the caller's to close; None at the end of the talk."""
        data, streams = await self._receive()
        return (_decode_answer(data), streams) if data else None

    def end(self) -> None:
        """There is nothing more to say; the other may still talk."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_WR)

    def hear_no_more(self) -> None:
        """As if the other had nothing more to say."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """Also for a fork of this process, which may have a copy of it."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()

    async def _receive(self) -> tuple[bytes, list[int]]:
        while True:
            try:
                data, streams, _, _ = socket.recv_fds(self._end, _LONGEST, _STREAMS, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                await readable(self._end)
            except ConnectionError:
                return b"", []
            else:
                return data, streams


def refused(error: Exception) -> Refused:
    why = (str(error) or type(error).__name__).encode(errors="replace").decode()
    return Refused(why if len(why) <= _LONGEST_WHY else f"… {why[-_LONGEST_WHY:]}")


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send_request(host: socket.socket, request: Request) -> socket.socket:
    """Our end of its pair. Waits while the host has too much to do."""
    ours, theirs = pair()
    try:
        with theirs, Descriptors() as fds:
            socket.send_fds(host, [b"r"], [theirs.fileno(), fds.memory(pickle.dumps(request))])
    except BaseException:
        ours.close()
        raise
    return ours


def take_request(worker: socket.socket) -> tuple[socket.socket, int] | None:
    """Its pair's end, and the file to read it from; None: the worker is gone. BlockingIOError: there is none, or it was lost for
    want of descriptors, which the worker hears by the end of the talk."""
    try:
        data, fds, _, _ = socket.recv_fds(worker, 1, 2, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return None
    if data and len(fds) == 2:
        return socket.socket(fileno=fds[0]), fds[1]
    for fd in fds:
        os.close(fd)
    if data:
        raise BlockingIOError
    return None


def read_request(file: int) -> Request:
    with open(file, "rb") as opened:
        request = pickle.load(opened)
    assert isinstance(request, Request)
    return request


async def readable(end: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(end.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(end.fileno())
