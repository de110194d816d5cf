"""The worker's side of its host: `host().ask` has a program started there. The host is started with the first one."""

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache

from mainspring.execute.sandbox.ability import program_cpus
from mainspring.execute.sandbox.folder import remove_folders_of
from mainspring.execute.sandbox.words import Request, pair, send_request

_CODE = (
    "import sys; sys.path[:] = {path!r}; from mainspring.execute.sandbox.host import main; main({fd}, {parent}, {cpus})"
)
# No other variable: what the worker knows is none of the business of a process that is near to programs.
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX")
_END_S = 20.0


class Hosting:
    """Used in threads."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: socket.socket

    def ask(self, request: Request) -> socket.socket:
        """Our end of the program's pair. A host that has died is followed by another."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                with contextlib.suppress(ConnectionError):  # it dies just now
                    return send_request(self._end, request)
            self._stop()
            self._start()
            return send_request(self._end, request)

    def close(self) -> None:
        """When no program is left; those that are, are ended."""
        if os.getpid() == self._owner:  # not a fork of it
            with self._lock:
                self._stop()

    def _start(self) -> None:
        self._end, theirs = pair()
        try:
            with theirs:
                self._process = _spawn(theirs.fileno())
        except BaseException:
            self._end.close()
            raise

    def _stop(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)  # a fork of this process may have a copy
        self._end.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        remove_folders_of(self._process.pid)
        self._process = None


def _spawn(fd: int) -> "subprocess.Popen[bytes]":
    path = [os.path.abspath(entry) for entry in sys.path]
    code = _CODE.format(path=path, fd=fd, parent=os.getpid(), cpus=program_cpus())
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        pass_fds=(fd,),
        process_group=0,
        cwd="/",
        env={**env, "TMPDIR": tempfile.gettempdir()},
    )


@cache
def host() -> Hosting:
    made = Hosting()
    atexit.register(made.close)
    return made
