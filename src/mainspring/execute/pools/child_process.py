"""One process of the pool, seen from its parent: start it, give it an order, make it stop, know when it is gone.

Used by `pools.processes`. The process is a fresh interpreter (never a fork of this one, which has threads and open
databases) in a process group of its own, so that what its job started dies with it. It must be started from the
thread of the event loop: Linux tells a child of its parent's death when the *thread* that started it ends.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

from mainspring.execute.context import Tell
from mainspring.execute.pools.asking import answer
from mainspring.execute.pools.frames import (
    Ask,
    Begun,
    Ended,
    Log,
    Moved,
    Order,
    decode_for_parent,
    encode,
    frame,
    read_frame,
)
from mainspring.execute.services import Services
from mainspring.wire import Outcome

_CODE = "import sys; sys.path[:] = {path!r}; from mainspring.execute.pools.child import main; main({fd}, {parent})"
_LAST_WORDS_S = 1.0  # for what a dead process has sent, or an idle one has to do before it exits


class ProcessDiedError(Exception):
    """The process is gone, and so is what it was doing."""


class ChildProcess:
    """A handle; made by `start`."""

    def __init__(self, process: "subprocess.Popen[bytes]", grace_s: float) -> None:
        self._process = process
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[int] = self._loop.create_future()
        self._halted = False
        self._kill_timer: asyncio.TimerHandle | None = None
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @classmethod
    async def start(cls, grace_s: float) -> "ChildProcess":
        ours, theirs = socket.socketpair()
        with theirs:
            child = cls(_spawn(theirs.fileno()), grace_s)
        child._reader, child._writer = await asyncio.open_unix_connection(sock=ours)
        threading.Thread(target=child._watch, name="mainspring-process-watch", daemon=True).start()
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def usable(self) -> bool:
        return not self._halted and not self._exit.done()

    async def perform(self, order: Order, begun: Callable[[], None], moved: Tell, services: Services | None) -> Outcome:
        """Run one attempt; ProcessDiedError if the process does not live to tell. `services`: of a function with a context."""
        self._writer.write(frame(encode(order)))
        answering: set[asyncio.Task[None]] = set()
        try:
            while True:
                match decode_for_parent(await read_frame(self._reader)):
                    case Begun():
                        begun()
                    case Moved(progress):
                        moved(progress)
                    case Log(stream, data) if services is not None:
                        services.log(stream, data)
                    case Ask() as ask if services is not None:
                        task = self._loop.create_task(self._answer(ask, services))
                        answering.add(task)
                        task.add_done_callback(answering.discard)
                    case Ended(outcome):
                        return outcome
        except (asyncio.IncompleteReadError, ConnectionError):
            self.kill()  # it may live on with its end closed
            raise ProcessDiedError(_epitaph(await self._exit)) from None
        finally:
            for task in answering:  # nobody waits for them any more
                task.cancel()

    async def _answer(self, ask: Ask, services: Services) -> None:
        self._writer.write(frame(encode(await answer(ask, services))))

    def halt(self) -> bool:
        """Ask the job to end, and kill the process after the grace."""
        if not self._halted:
            self._halted = True
            self._kill_timer = self._loop.call_later(self._grace_s, self.kill)
            # Not Popen.send_signal: it would reap a dead process under the watcher's hands.
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._process.pid, signal.SIGTERM)
        return True

    def kill(self) -> None:
        """End the process and its group now."""
        self._halted = True
        if not self._exit.done():
            _kill_group(self._process.pid)

    async def close(self) -> None:
        """Close our end, at which an idle process exits by itself; kill it if it does not. Returns when it is gone."""
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._writer.close()
        killing = self._loop.call_later(_LAST_WORDS_S, self.kill)
        try:
            await asyncio.shield(self._exit)
        finally:
            killing.cancel()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def _watch(self) -> None:
        """In a thread: wait for the end, take the group along, tell the loop."""
        if hasattr(os, "waitid"):
            # Not reaped yet, its id cannot be given to another process before the group is killed.
            with contextlib.suppress(ChildProcessError):  # reaped by somebody who waits for just any child
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        _kill_group(self._process.pid)
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._gone, code)

    def _gone(self, code: int) -> None:
        self._exit.set_result(code)
        # Normally its end of the socket closed with it; something it started outside the group may hold it open.
        self._loop.call_later(_LAST_WORDS_S, self._writer.transport.abort)


def _spawn(fd: int) -> "subprocess.Popen[bytes]":
    code = _CODE.format(path=sys.path, fd=fd, parent=os.getpid())
    command = [sys.executable, "-c", code, *sys.argv[1:]]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(fd,), process_group=0)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _epitaph(code: int) -> str:
    if code >= 0:
        return f"its process exited with code {code} before the job ended"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"its process was killed by {name}"
