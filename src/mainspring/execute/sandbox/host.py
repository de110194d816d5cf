"""The host: a process of its own, whose children all programs of a worker are.

It makes their folders and groups, starts them, watches over their limits, ends them and takes away what is left. To start a process
holds up the one that starts it: for milliseconds no other thread of it runs. A worker has other jobs to see to, so it does not do
that itself. And the host keeps programs off one CPU (`ability.program_cpus`): the kernel does much for a process that starts, takes
memory or dies, and others wait meanwhile wherever it does so.

Started by `hosting` as a fresh interpreter. Guarantees: when the worker is gone, all programs are ended and the host exits; if the
host is killed, sandboxes die with it, and keepers end what is bare.
"""

import asyncio
import os
import signal
import socket
import time
from pathlib import Path

from mainspring.execute.sandbox.folder import Folder, new_folder
from mainspring.execute.sandbox.launch import Order, launch, launcher
from mainspring.execute.sandbox.process import Process, signal_of
from mainspring.execute.sandbox.threads import in_thread
from mainspring.execute.sandbox.warm import warmed
from mainspring.execute.sandbox.watching import EVERY_S, exceeded
from mainspring.execute.sandbox.words import (
    TERMINATE,
    Done,
    Request,
    Started,
    Talk,
    read_request,
    readable,
    refused,
    take_request,
)

_END_S = 10.0  # for the end of a program that is killed
_REFILL_S = 0.02  # so that the next Python to be kept ready does not compete with the start of this program


class Program:
    """One that has been started. `owned`: its folder goes with it."""

    def __init__(self, order: Order, folder: Folder, process: Process, *, owned: bool) -> None:
        self.folder = folder
        self.process = process
        self.order = order
        self._owned = owned
        self._passed: str | None = None  # the limit for which it was killed
        self._ending: asyncio.TimerHandle | None = None

    async def follow(self, talk: Talk) -> None:
        """Until it has ended and the worker wants nothing more of it."""
        self._introduce(talk)
        listening, watching = asyncio.ensure_future(self._listen(talk)), asyncio.ensure_future(self._watch())
        try:
            code = await self.process.wait()
            watching.cancel()
            await in_thread(self.process.end_rest)
            talk.answer(Done(code, await self._cause(code), self.process.usage))
            await listening
        finally:
            for task in (listening, watching):
                task.cancel()
            await asyncio.gather(listening, watching, return_exceptions=True)

    async def end(self) -> None:
        self._kill()
        await self.process.wait()
        if self._ending is not None:
            self._ending.cancel()
        try:
            await in_thread(self.process.close)
        finally:
            if self._owned:
                await in_thread(self.folder.remove)

    def _introduce(self, talk: Talk) -> None:
        streams = self.process.take_streams()
        try:
            talk.answer(Started(self.process.pid, bytes(self.folder.root), warmed().trouble()), streams)
        finally:
            for stream in streams:
                os.close(stream)

    async def _listen(self, talk: Talk) -> None:
        while word := await talk.hear():
            if word == TERMINATE:
                self.process.terminate()
            else:
                self._kill()
        self._kill()

    async def _watch(self) -> None:
        """Looking costs at most a tenth of the time, however much there is to look at."""
        took_s = 0.0
        while self._passed is None:
            await asyncio.sleep(max(EVERY_S, 10 * took_s))
            began_s = time.monotonic()
            try:
                self._passed = await in_thread(exceeded, self.order, self.process, self.folder)
            except Exception as error:  # rather no program than one that nobody watches
                self._passed = f"it could not be watched: {error}"
            took_s = time.monotonic() - began_s
        self._kill()

    def _kill(self) -> None:
        self.process.kill()
        if self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(_END_S, self.process.kill_first)

    async def _cause(self, code: int) -> str | None:
        limits, group = self.order.limits, self.process.group
        if group is not None and group.out_of_memory():
            return f"memory limit of {limits.memory_mb} MB"
        if self._passed is not None:
            return self._passed
        if (excess := await in_thread(self.folder.excess, limits.disk_mb)) is not None:
            return excess
        name = signal_of(code)
        if name == "SIGKILL" and limits.cpu_s is not None and self.process.usage.cpu_s >= limits.cpu_s:
            return f"CPU limit of {limits.cpu_s:g} s"
        if name == "SIGXFSZ":
            return f"limit of {limits.file_mb} MB for one file"
        return name


async def attend(talk: Talk, file: int) -> None:
    """One program from its request, which is in the file, until nothing of it is left."""
    refilling: asyncio.Future[None] | None = None
    try:
        try:
            program = await asyncio.get_running_loop().run_in_executor(launcher(), _start, file)
        except Exception as error:
            talk.answer(refused(error))
            return
        refilling = asyncio.ensure_future(_refill(program.order))
        try:
            await program.follow(talk)
        finally:
            await program.end()
    finally:
        talk.close()
        if refilling is not None:
            await refilling


async def _refill(order: Order) -> None:
    await asyncio.sleep(_REFILL_S)
    await asyncio.get_running_loop().run_in_executor(launcher(), warmed().refill, order)


def _start(file: int) -> Program:
    request = read_request(file)
    order = request.order
    if request.folder is not None:
        folder = Folder(Path(request.folder))
        return Program(order, folder, launch(order, folder), owned=False)
    warm = warmed().take(order)
    if warm is not None:
        try:
            return Program(order, warm.folder, warm.hand_over(order, request.files), owned=True)
        except OSError:  # it has died since: as if there had been none
            warm.discard()
    return _start_new(request)


def _start_new(request: Request) -> Program:
    order = request.order
    folder = new_folder(order.uid)
    try:
        folder.put(request.files, order.uid)
        return Program(order, folder, launch(order, folder), owned=True)
    except BaseException:
        folder.remove()
        raise


class Host:
    """All programs of one worker."""

    def __init__(self, worker: socket.socket) -> None:
        self._worker = worker
        self._talks: dict[Talk, asyncio.Task[None]] = {}

    async def serve(self, parent: int) -> None:
        """Until the worker, which has this number, closes its end or is gone: another may have inherited it."""
        self._worker.setblocking(False)
        loop, life = asyncio.get_running_loop(), os.pidfd_open(parent)
        loop.add_reader(life, self._worker.shutdown, socket.SHUT_RD)
        while await self._take():
            pass
        loop.remove_reader(life)
        for talk in self._talks:
            talk.hear_no_more()
        await asyncio.gather(*self._talks.values(), return_exceptions=True)
        await in_thread(warmed().clear)

    async def _take(self) -> bool:
        try:
            taken = take_request(self._worker)
        except BlockingIOError:
            await readable(self._worker)
            return True
        if taken is None:
            return False
        talk = Talk(taken[0])
        self._talks[talk] = task = asyncio.ensure_future(attend(talk, taken[1]))
        task.add_done_callback(lambda _: self._talks.pop(talk))
        return True


def main(fd: int, parent: int, cpus: list[int]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # they mean the worker; ignored, they would be so by programs too
        signal.signal(number, lambda *_: None)
    os.sched_setaffinity(0, cpus)
    os.set_inheritable(fd, False)
    asyncio.run(Host(socket.socket(fileno=fd)).serve(parent))
