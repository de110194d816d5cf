"""A program that has been started: `Process`: how it ends, how to end it, what it used.

Made by `launch`, in a thread; used in the event loop. The first process is bubblewrap's or the keeper's, which lives as long as
anything that the program started, and exits as the program did.
"""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from mainspring.execute.sandbox.cgroups import Group
from mainspring.execute.sandbox.marks import end_marked
from mainspring.wire import Usage

_BLOCK = 512
_SIGNALLED = 128  # plus the signal's number, as shells have it


class Process:
    """`inner`: of a sandbox, the process that takes all others along. `control`: of a bare program, its keeper's pipe; `mark`: what
    its processes are known by if the keeper is killed."""

    def __init__(
        self,
        first: "subprocess.Popen[bytes]",
        *,
        inner: int | None,
        control: int | None,
        streams: Sequence[int],
        group: Group | None,
        mark: str | None = None,
    ) -> None:
        self.pid = first.pid
        self.group = group
        self._streams = streams
        self.usage = Usage()
        self.seen_mb: float | None = None  # the most memory that anybody has seen it use
        self._first = first
        self._first_fd = os.pidfd_open(first.pid)
        self._inner = inner
        self._inner_fd = None if inner is None else _pidfd(inner)
        self._control = control
        self._mark = mark
        self._ended: asyncio.Future[int] | None = None

    def take_streams(self) -> Sequence[int]:
        """To read: its standard output and standard error. Whoever takes them closes them."""
        taken, self._streams = self._streams, ()
        return taken

    async def wait(self) -> int:
        """Its exit code, or 128 plus the number of the signal that ended it. All is gone then, but what `end_rest` ends."""
        if self._ended is None:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._first_fd, self._reap)
            self._ended = loop.create_future()
        return await asyncio.shield(self._ended)

    def wait_here(self) -> int:
        """The same in a thread, where no loop is."""
        return self._reaped()

    def terminate(self) -> None:
        """Ask the program to end."""
        if self._first.returncode is not None:
            return
        with contextlib.suppress(OSError, ValueError):
            if self._inner is None:
                os.kill(self.pid, signal.SIGTERM)
            else:
                program = Path(f"/proc/{self._inner}/task/{self._inner}/children").read_text().split()[0:1]
                os.kill(int(program[0]) if program else self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End everything now."""
        if self._first.returncode is not None:
            return
        if self._control is not None:
            os.close(self._control)
            self._control = None
        if self._inner_fd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner_fd, signal.SIGKILL)

    def kill_first(self) -> None:
        """If it does not end by itself: a bare program can stop its keeper."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first_fd, signal.SIGKILL)

    def end_rest(self) -> None:
        """After its end: whatever it has left, if its keeper did not see to that because it was killed. In a thread."""
        if self._mark is not None and self._first.returncode < 0:
            end_marked(self._mark)

    def close(self) -> None:
        """After its end; waits for the kernel to let go of its group."""
        self.end_rest()
        if self.group is not None:
            self.group.close()
        for fd in (*self._streams, self._first_fd, self._inner_fd, self._control):
            if fd is not None:
                os.close(fd)

    def _reap(self) -> None:
        assert self._ended is not None
        self._ended.get_loop().remove_reader(self._first_fd)
        self._ended.set_result(self._reaped())

    def _reaped(self) -> int:
        _, status, used = os.wait4(self.pid, 0)
        self._first.returncode = code = os.waitstatus_to_exitcode(status)
        self.usage = self._measured(used)
        return code if code >= 0 else _SIGNALLED - code

    def _measured(self, used: resource.struct_rusage) -> Usage:
        """The kernel adds up what reaped processes used: every one was, by bubblewrap's first process or by the keeper."""
        # Not ru_maxrss: a process has the size of the one that it was forked from, before it becomes its program.
        peak_mb = self.group.peak_mb() if self.group is not None else None
        return Usage(
            cpu_s=used.ru_utime + used.ru_stime,
            peak_mb=peak_mb if peak_mb is not None else self.seen_mb,
            read_bytes=used.ru_inblock * _BLOCK,
            written_bytes=used.ru_oublock * _BLOCK,
        )


@asynccontextmanager
async def reading(fd: int, limit: int) -> AsyncIterator[asyncio.StreamReader]:
    """A stream that was taken; closed at the end."""
    reader = asyncio.StreamReader(limit=limit)
    protocol = asyncio.StreamReaderProtocol(reader)
    file = os.fdopen(fd, "rb", 0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, file)
    try:
        yield reader
    finally:
        transport.close()


def signal_of(code: int) -> str | None:
    """The name of the signal that an exit code tells of, if it does."""
    try:
        return signal.Signals(code - _SIGNALLED).name if code > _SIGNALLED else None
    except ValueError:
        return None


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:  # ended already
        return None
