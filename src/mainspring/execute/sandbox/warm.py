"""Python started before it is needed: interpreters that wait in their sandboxes, each for one program.

A program that is `python3 …` takes one of them if its command is of a plain form and nothing in its environment would have
changed how Python starts; else, or if none is ready, it starts as any other does. The sandbox is the same, made in the same way;
the limits are set when the program is handed over, before its first line. An interpreter is used once. They are kept from the first
such program on, and given up when none has come for a while. Everything here is called in threads of `launch`.
"""

import inspect
import json
import os
import select
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache

from msgspec import Struct

from mainspring.execute.sandbox import waiter
from mainspring.execute.sandbox.bubblewrap import PATH
from mainspring.execute.sandbox.cgroups import Group
from mainspring.execute.sandbox.descriptors import Descriptors
from mainspring.execute.sandbox.folder import Folder, new_folder
from mainspring.execute.sandbox.launch import LaunchError, Order, start_bubblewrap, wrapped
from mainspring.execute.sandbox.process import Process
from mainspring.execute.sandbox.users import Users

READY = 2

_IDLE_S = 60.0
_PYTHON = "python3"
_NAMES = ("python", _PYTHON)
_CHANGE_PYTHON = ("PYTHON", "LD_", "LC_", "LANG", "PATH", "HOME", "TMPDIR", "TZ", "MALLOC_", "GLIBC_")
_CODE = inspect.getsource(waiter) + "\nwait(int(sys.argv[1]))\n"


class Warm(Struct, eq=False):
    """One that waits. `connection`: to hand its work over."""

    order: Order
    folder: Folder
    first: "subprocess.Popen[bytes]"
    inner: int
    group: Group | None
    connection: socket.socket

    def is_ready(self) -> bool:
        try:
            return self.connection.recv(1, socket.MSG_PEEK) == b"r"
        except BlockingIOError:
            return False

    def is_gone(self) -> bool:
        ends = select.poll()
        ends.register(self.connection, select.POLLRDHUP)
        return bool(ends.poll(0))

    def hand_over(self, order: Order, files: Mapping[str, bytes]) -> Process:
        """OSError, if it has died since."""
        self.folder.put(files, self.order.uid)
        if self.group is not None:
            self.group.limit(order.limits)
        told = {"command": order.command, "env": order.full_env(self.folder), "limits": order.own_limits()}
        data = json.dumps(told).encode()
        with Descriptors() as fds, self.connection:
            (stdout, out), (stderr, err) = fds.pipe(), fds.pipe()
            self.connection.setblocking(True)
            socket.send_fds(self.connection, [b"%8d" % len(data)], [fds.input(order.stdin), out, err])
            self.connection.sendall(data)
            if self.connection.recv(2, socket.MSG_WAITALL) != b"rt":
                raise ConnectionResetError("it is gone")
            fds.keep(stdout, stderr)
            return self._process((stdout, stderr))

    def discard(self) -> None:
        self.connection.close()
        process = self._process(())
        process.kill()
        process.wait_here()
        process.close()
        self.folder.remove()

    def _process(self, streams: Sequence[int]) -> Process:
        return Process(self.first, inner=self.inner, control=None, streams=streams, group=self.group)


class Warmed:
    """Those of this worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Warm] = []
        self._starting = 0
        self._timer: threading.Timer | None = None
        self._trouble: str | None = None
        self._users = Users()

    def take(self, order: Order) -> Warm | None:
        """One that is ready, if the order may have it. Whoever takes it calls `refill` a moment later."""
        if not _suits(order):
            return None
        with self._lock:
            self._put_off()
            gone = [warm for warm in self._waiting if warm.is_gone()]
            self._waiting = [warm for warm in self._waiting if warm not in gone]
            found = next((warm for warm in self._waiting if warm.is_ready()), None)
            if found is not None:
                self._waiting.remove(found)
        for warm in gone:
            warm.discard()
        return found

    def refill(self, order: Order) -> None:
        """Start what is missing, in the way of this order; nothing, if it could not have had any."""
        while _suits(order) and self._reserve():
            made = None
            try:
                made = _start(order, self._users)
            except (OSError, LaunchError) as error:  # the next program tries again
                self._trouble = str(error)
                return
            finally:
                with self._lock:
                    self._starting -= 1
                    if made is not None:
                        self._waiting.append(made)

    def trouble(self) -> str | None:
        """Why none could be started, once."""
        told, self._trouble = self._trouble, None
        return told

    def clear(self) -> None:
        with self._lock:
            left, self._waiting = self._waiting, []
        for warm in left:
            warm.discard()

    def _put_off(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(_IDLE_S, self.clear)
        self._timer.daemon = True
        self._timer.start()

    def _reserve(self) -> bool:
        with self._lock:
            missing = len(self._waiting) + self._starting < READY
            self._starting += missing
            return missing


@cache
def warmed() -> Warmed:
    return Warmed()


def _suits(order: Order) -> bool:
    name, *rest = order.command
    # What ends otherwise may be a folder or an archive, which Python runs as well.
    plain = bool(rest) and (_is_file(rest[0]) or (rest[0] in ("-c", "-m") and len(rest) > 1))
    return (
        order.binary is not None
        and not order.network
        and plain
        and _interpreter() is not None
        and _interpreter(name) == _interpreter()
        and not any(variable.startswith(_CHANGE_PYTHON) for variable in order.env)
    )


def _is_file(word: str) -> bool:
    return word.endswith(".py") and not word.startswith("-")


@cache
def _interpreter(name: str = _PYTHON) -> str | None:
    found = shutil.which(name, path=PATH) if name in _NAMES else None
    return None if found is None else os.path.realpath(found)


def _start(like: Order, users: Users) -> Warm:
    order = Order(command=[], binary=like.binary, uid=None if like.uid is None else users.take(), tree=like.tree)
    with ExitStack() as undo:
        folder = new_folder(order.uid)
        undo.callback(folder.remove)
        group = None if order.tree is None else order.tree.make(order.limits)
        if group is not None:
            undo.callback(group.close)
        ours, theirs = socket.socketpair()
        undo.callback(ours.close)
        with theirs, open(os.devnull, "r+b") as null:
            program = wrapped([_PYTHON, "-c", _CODE, str(theirs.fileno())], {})
            first, inner = start_bubblewrap(order, folder, program, (null.fileno(),) * 3, group, theirs.fileno())
        undo.pop_all()
    ours.setblocking(False)
    return Warm(order, folder, first, inner, group, ours)
