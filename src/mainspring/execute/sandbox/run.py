"""One program from its start to its end: `started`, a context whose end is the program's end too.

    async with started(order) as running:
        ended = await running.finish(write)
        ...                                  # its folder is still there
    # and now nothing of it is

`write(stream, data)` gets what the program writes (1: standard output, 2: standard error); while that waits, so does a program that
writes more. Cancelled, the program is asked to end (SIGTERM) and has a moment for it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TypeVar

from msgspec import Struct

from mainspring.execute.masking import NO_MASK, Mask
from mainspring.execute.sandbox.folder import Folder, new_folder
from mainspring.execute.sandbox.launch import Order, launch, launcher
from mainspring.execute.sandbox.process import Process, reading, signal_of
from mainspring.execute.sandbox.warm import warmed
from mainspring.execute.sandbox.watching import EVERY_S, exceeded

T = TypeVar("T")
Write = Callable[[int, bytes], Awaitable[None]]

_CHUNK = 65_536
_KEPT = 16_384  # of each stream, for results and messages
_GRACE_S = 2.0  # between SIGTERM and SIGKILL
_LAST_WORDS_S = 1.0  # for what a killed program has written
_REST_S = 15.0  # for what a program has written that ended by itself; longer than the log waits for its objects
_END_S = 10.0  # for the end of a program that is killed
_THREADS = 4


class Ended(Struct, frozen=True):
    """`killed`: what ended it, if it did not end by itself."""

    exit_code: int
    killed: str | None
    stdout: bytes  # the last of it, without secrets
    stderr: bytes


class Running:
    """A program that has been started."""

    def __init__(self, order: Order, folder: Folder, process: Process) -> None:
        self.folder = folder
        self.process = process
        self._order = order
        self._killed: str | None = None

    async def finish(self, write: Write, mask: Mask = NO_MASK) -> Ended:
        """`write` gets everything as it is."""
        tails = bytearray(), bytearray()
        copying = [
            asyncio.ensure_future(_copy(fd, number, write, tail, _KEPT + mask.longest))
            for number, (fd, tail) in enumerate(zip(self.process.take_streams(), tails, strict=True), 1)
        ]
        watching = asyncio.ensure_future(self._watch())
        try:
            code = await self._wait()
            await in_thread(self.process.end_rest)
            await _all_of(copying)
        finally:
            self.process.kill()
            await asyncio.wait(copying, timeout=_LAST_WORDS_S)
            await _abandon(watching, *copying)
        stdout, stderr = (mask.tail(bytes(tail), _KEPT) for tail in tails)
        return Ended(code, await self._cause(code), stdout, stderr)

    async def _wait(self) -> int:
        try:
            return await self.process.wait()
        except asyncio.CancelledError:
            self.process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), _GRACE_S)
            raise

    async def _watch(self) -> None:
        """Looking costs at most a tenth of the time, however much there is to look at."""
        took_s = 0.0
        while self._killed is None:
            await asyncio.sleep(max(EVERY_S, 10 * took_s))
            began_s = time.monotonic()
            try:
                self._killed = await in_thread(exceeded, self._order, self.process, self.folder)
            except Exception as error:  # rather no program than one that nobody watches
                self._killed = f"it could not be watched: {error}"
            took_s = time.monotonic() - began_s
        self.process.kill()

    async def _cause(self, code: int) -> str | None:
        limits, group = self._order.limits, self.process.group
        if group is not None and group.out_of_memory():
            return f"memory limit of {limits.memory_mb} MB"
        if self._killed is not None:
            return self._killed
        if (excess := await in_thread(self.folder.excess, limits.disk_mb)) is not None:
            return excess
        name = signal_of(code)
        if name == "SIGKILL" and limits.cpu_s is not None and self.process.usage.cpu_s >= limits.cpu_s:
            return f"CPU limit of {limits.cpu_s:g} s"
        if name == "SIGXFSZ":
            return f"limit of {limits.file_mb} MB for one file"
        return name


@asynccontextmanager
async def started(order: Order, files: Mapping[str, bytes] = {}) -> AsyncIterator[Running]:
    """In a new folder with these files in it."""
    async with begun(partial(_start, order, files)) as running:
        yield running


@asynccontextmanager
async def begun(start: Callable[[], Running]) -> AsyncIterator[Running]:
    """The same for whoever starts it otherwise; `start` is called in a thread."""
    starting = asyncio.get_running_loop().run_in_executor(launcher(), start)
    try:
        running = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _surely(_end_when(starting))  # a thread cannot be called back: it starts, and is ended
        raise
    try:
        yield running
    finally:
        await _surely(_end(running))


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """What may wait for a disk. Apart from `launcher`, so that programs with many files do not keep others from starting."""
    return await asyncio.get_running_loop().run_in_executor(_files(), partial(function, *args))


@cache
def _files() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "mainspring-files")


def _start(order: Order, files: Mapping[str, bytes]) -> Running:
    warm = warmed().take(order)
    if warm is not None:
        try:
            return Running(order, warm.folder, warm.hand_over(order, files))
        except OSError:  # it has died since: as if there had been none
            warm.discard()
    folder = new_folder(order.uid)
    try:
        folder.put(files, order.uid)
        return Running(order, folder, launch(order, folder))
    except BaseException:
        folder.remove()
        raise


async def _surely(work: Coroutine[None, None, None]) -> None:
    """Until it is done: whoever is cancelled meanwhile hears of it afterwards."""
    working = asyncio.ensure_future(work)
    cancelled = False
    while not working.done():
        try:
            await asyncio.wait((working,))
        except asyncio.CancelledError:
            cancelled = True
    working.result()
    if cancelled:
        raise asyncio.CancelledError


async def _end_when(starting: "asyncio.Future[Running]") -> None:
    try:
        running = await starting
    except Exception:  # then there is nothing to end
        return
    await _end(running)


async def _end(running: Running) -> None:
    running.process.kill()
    try:
        await asyncio.wait_for(running.process.wait(), _END_S)
    except TimeoutError:
        running.process.kill_first()
        await running.process.wait()
    await in_thread(running.process.close)
    await in_thread(running.folder.remove)


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
