"""The worker's side of its host: `host().ask` has a program started there. The host is started with the first one."""

import atexit
import os
import socket
import subprocess
import sys
import threading
from functools import cache

from mainspring.execute.sandbox.ability import program_cpus
from mainspring.execute.sandbox.words import Request, pair, send_request

_CODE = (
    "import sys; sys.path[:] = {path!r}; from mainspring.execute.sandbox.host import main; main({fd}, {parent}, {cpus})"
)
# No other variable: what the worker knows is none of the business of a process that is near to programs.
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPYCACHEPREFIX")
_END_S = 20.0


class Hosting:
    """Used in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: socket.socket

    def ask(self, request: Request) -> socket.socket:
        """Our end of the program's pair. A host that has died is followed by another."""
        with self._lock:
            if self._process is None:
                self._start()
            try:
                return send_request(self._end, request)
            except ConnectionError:
                self._stop()
                self._start()
                return send_request(self._end, request)

    def close(self) -> None:
        """When no program is left; those that are, are ended."""
        with self._lock:
            if self._process is not None:
                self._stop()

    def _start(self) -> None:
        self._end, theirs = pair()
        with theirs:
            path = [os.path.abspath(entry) for entry in sys.path]
            code = _CODE.format(path=path, fd=theirs.fileno(), parent=os.getpid(), cpus=program_cpus())
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), process_group=0,
                cwd="/", env={name: os.environ[name] for name in _KEPT if name in os.environ},
            )  # fmt: skip

    def _stop(self) -> None:
        assert self._process is not None
        self._end.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


@cache
def host() -> Hosting:
    made = Hosting()
    atexit.register(made.close)
    return made
