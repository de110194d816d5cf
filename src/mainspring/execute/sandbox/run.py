"""One program from its start to its end, as its worker sees it: `started`, a context whose end is the program's end too.

    async with started(order) as running:
        ended = await running.finish(write)
        ...                                  # its folder is still there
    # and now nothing of it is

`write(stream, data)` gets what the program writes (1: standard output, 2: standard error); while that waits, so does a program that
writes more. Cancelled, the program is asked to end (SIGTERM) and has a moment for it. The `host` does all that has to be done near
the program.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from mainspring.execute.masking import NO_MASK, Mask
from mainspring.execute.sandbox.folder import Folder
from mainspring.execute.sandbox.hosting import host
from mainspring.execute.sandbox.launch import LaunchError, Order, launcher
from mainspring.execute.sandbox.process import reading
from mainspring.execute.sandbox.threads import surely
from mainspring.execute.sandbox.words import KILL, TERMINATE, Done, Refused, Request, Started, Talk
from mainspring.runtime.log import get_logger
from mainspring.wire import Usage

Write = Callable[[int, bytes], Awaitable[None]]

_log = get_logger("mainspring.worker")

_CHUNK = 65_536
_KEPT = 16_384  # of each stream, for results and messages
_GRACE_S = 2.0  # between SIGTERM and SIGKILL
_LAST_WORDS_S = 1.0  # for what a killed program has written
_REST_S = 15.0  # for what a program has written that ended by itself; longer than the log waits for its objects
_ORPHANED = Done(137, "the process that watches over programs was killed", Usage())


class Ended(Struct, frozen=True):
    """`killed`: what ended it, if it did not end by itself."""

    exit_code: int
    killed: str | None
    stdout: bytes  # the last of it, without secrets
    stderr: bytes


class Running:
    """A program that has been started."""

    def __init__(self, talk: Talk, said: Started, streams: Sequence[int]) -> None:
        self.pid = said.pid
        self.folder = Folder(Path(os.fsdecode(said.folder)))
        self.usage = Usage()
        self._talk = talk
        self._streams = streams
        self._done = asyncio.ensure_future(self._hear())

    async def finish(self, write: Write, mask: Mask = NO_MASK) -> Ended:
        """`write` gets everything as it is."""
        tails = bytearray(), bytearray()
        streams, self._streams = self._streams, ()
        copying = [
            asyncio.ensure_future(_copy(fd, number, write, tail, _KEPT + mask.longest))
            for number, (fd, tail) in enumerate(zip(streams, tails, strict=True), 1)
        ]
        try:
            done = await self._wait()
            await _all_of(copying)
        finally:
            self._talk.say(KILL)
            await asyncio.wait(copying, timeout=_LAST_WORDS_S)
            await _abandon(*copying)
        stdout, stderr = (mask.tail(bytes(tail), _KEPT) for tail in tails)
        return Ended(done.exit_code, done.killed, stdout, stderr)

    async def end(self) -> None:
        """Whatever it does. Returns when nothing of it is left."""
        self._talk.end()
        for fd in self._streams:
            os.close(fd)
        await self._done
        await _hear_out(self._talk)

    async def _wait(self) -> Done:
        try:
            return await asyncio.shield(self._done)
        except asyncio.CancelledError:
            self._talk.say(TERMINATE)
            await asyncio.wait((self._done,), timeout=_GRACE_S)
            raise

    async def _hear(self) -> Done:
        heard = await self._talk.hear_answer()
        if heard is None:
            return _ORPHANED
        done, _ = heard
        assert isinstance(done, Done)
        self.usage = done.usage
        return done


@asynccontextmanager
async def started(
    order: Order, files: Mapping[str, bytes] = {}, *, folder: Folder | None = None
) -> AsyncIterator[Running]:
    """In a new folder with these files in it, or in one that the caller has made and removes."""
    running = await _start(Request(order, files, None if folder is None else str(folder.root)))
    try:
        yield running
    finally:
        await surely(running.end())


async def _start(request: Request) -> Running:
    asking = asyncio.get_running_loop().run_in_executor(launcher(), host().ask, request)
    try:
        talk = Talk(await asyncio.shield(asking))
    except asyncio.CancelledError:
        await surely(_end_when(asking))  # a thread cannot be called back
        raise
    try:
        heard = await talk.hear_answer()
    except asyncio.CancelledError:
        await surely(_end(talk))
        raise
    match heard:
        case Started() as said, [_, _] as streams:
            if said.trouble is not None:
                _log.warning("no Python can be kept ready", error=said.trouble)
            return Running(talk, said, streams)
        case Started(), streams:
            problem = "too many open files in this process"
            for stream in streams:
                os.close(stream)
        case Refused(why), _:
            problem = why
        case _:
            problem = "the process that starts programs was killed, or has too many open files"
    await surely(_end(talk))
    raise LaunchError(problem)


async def _end_when(asking: "asyncio.Future[socket.socket]") -> None:
    try:
        talk = Talk(await asking)
    except Exception:  # then there is nothing to end
        return
    await _end(talk)


async def _end(talk: Talk) -> None:
    talk.end()
    await _hear_out(talk)


async def _hear_out(talk: Talk) -> None:
    """Until the host has nothing more to say, because nothing is left."""
    while (heard := await talk.hear_answer()) is not None:
        for stream in heard[1]:
            os.close(stream)
    talk.close()


async def _copy(fd: int, number: int, write: Write, tail: bytearray, kept: int) -> None:
    async with reading(fd, _CHUNK) as reader:
        while data := await reader.read(_CHUNK):
            tail += data
            del tail[:-kept]
            await write(number, data)


async def _all_of(copying: "Sequence[asyncio.Future[None]]") -> None:
    """What it has written. The streams end with it, unless somebody whom nobody could find still holds them."""
    done, _ = await asyncio.wait(copying, timeout=_REST_S)
    for each in done:
        each.result()


async def _abandon(*tasks: "asyncio.Future[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
