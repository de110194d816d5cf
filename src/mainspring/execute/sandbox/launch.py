"""Starts programs, sandboxed or bare. Called in threads of its own pool only.

`--die-with-parent` means the *thread* that started a process, so the threads of this pool live as long as the host. A
program does not begin before its group holds it. Of its environment bubblewrap, which runs outside, gets nothing: a LD_PRELOAD
there would be a way out.
"""

import json
import marshal
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache

from msgspec import Struct

from mainspring.execute.sandbox import keeper
from mainspring.execute.sandbox.bubblewrap import PATH, SHELL, WORK, arguments
from mainspring.execute.sandbox.cgroups import Group, Tree
from mainspring.execute.sandbox.descriptors import Descriptors
from mainspring.execute.sandbox.folder import Folder
from mainspring.execute.sandbox.limits import Limits, kernel_limits, shell_words
from mainspring.execute.sandbox.marks import VARIABLE, new_mark
from mainspring.execute.sandbox.process import Process
from mainspring.execute.sandbox.seccomp import filter_program

_THREADS = 4
_ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}  # of bubblewrap and of the keeper themselves
Stdio = tuple[int, int, int]


class LaunchError(Exception):
    """The program did not even begin."""


class Order(Struct, frozen=True, kw_only=True):
    """A program to run. `places`: variables that name a file of its working folder. `binary`: bubblewrap's; None: bare. `uid`: as
    whom; None: as the worker's own user. `trusted`: a program of the machine, such as podman, which sees to limits itself and may
    need more rights to do so. `tidy_s`: how long it may take to end when its container was ended."""

    command: Sequence[str]
    env: Mapping[str, str] = {}
    places: Mapping[str, str] = {}
    stdin: bytes = b""
    network: bool = False
    limits: Limits = Limits()
    binary: str | None
    uid: int | None
    tree: Tree | None
    trusted: bool = False
    tidy_s: float = 0.0

    def full_env(self, folder: Folder) -> dict[str, str]:
        work, tmp = (WORK, "/tmp") if self.binary is not None else (str(folder.work), str(folder.tmp))
        base = {"PATH": PATH, "HOME": work, "PWD": work, "TMPDIR": tmp, "LANG": "C.UTF-8", "TERM": "dumb"}
        return {**base, **self.env, **{name: f"{work}/{file}" for name, file in self.places.items()}}

    def own_limits(self) -> dict[str, int]:
        """What each process has to be limited to because no group does it. A bare program's processes cannot be told from those
        of its user: if that is the worker's, they are watched."""
        if self.trusted:
            return {}
        counted = self.tree is not None and self.tree.has("pids")
        memory = self.tree is None or not self.tree.has("memory")
        apart = self.binary is not None or self.uid is not None
        return kernel_limits(self.limits, memory=memory, processes=apart and not counted)


@cache
def launcher() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "mainspring-launch")


def launch(order: Order, folder: Folder) -> Process:
    """Start it in its folder."""
    group = None if order.tree is None else order.tree.make(order.limits)
    try:
        return _launch(order, folder, group)
    except BaseException:
        if group is not None:
            group.close()
        raise


def _launch(order: Order, folder: Folder, group: Group | None) -> Process:
    with Descriptors() as fds:
        (stdout, out), (stderr, err) = fds.pipe(), fds.pipe()
        stdio = fds.input(order.stdin), out, err
        inner = control = mark = None
        try:
            if order.binary is None:
                mark = None if order.trusted else new_mark()
                first, control = _start_bare(order, folder, stdio, group, mark, fds)
            else:
                program = wrapped(order.command, order.own_limits())
                first, inner = start_bubblewrap(order, folder, program, stdio, group)
        except LaunchError:
            raise LaunchError(said(stderr)) from None
        with no_half_start(first, inner):
            process = Process(first, inner=inner, control=control, streams=(stdout, stderr), group=group, mark=mark)
        fds.keep(stdout, stderr, *(() if control is None else (control,)))
        return process


def wrapped(command: Sequence[str], limits: dict[str, int]) -> list[str]:
    """The first process inside: a shell that sets the limits, starts the program and waits. It takes in orphans, and its end is
    that of all."""
    return [SHELL, "-c", f'{shell_words(limits) or ":"} && "$@"; exit $?', SHELL, *command]


def start_bubblewrap(
    order: Order, folder: Folder, program: Sequence[str], stdio: Stdio, group: Group | None, *extra: int
) -> tuple["subprocess.Popen[bytes]", int]:
    """Its first process, and the first one inside. `extra`: descriptors that the program gets too."""
    assert order.binary is not None
    with Descriptors() as fds:
        (info, info_end), (block_end, block) = fds.pipe(), fds.pipe()
        words = arguments(folder, order.full_env(folder), network=order.network)
        given = fds.memory(b"".join(os.fsencode(word) + b"\0" for word in words))
        rules = fds.memory(filter_program())
        command = [order.binary, "--args", str(given), "--seccomp", str(rules), "--as-pid-1"]
        command += ["--info-fd", str(info_end), "--block-fd", str(block_end), "--", *program]
        first = _spawn(command, stdio, (info_end, block_end, given, rules, *extra), order.uid)
        fds.close(info_end, block_end)
        with no_half_start(first):
            inner = _inner(info)
        with no_half_start(first, inner):
            _let_begin(inner, block, group)
        return first, inner


def _start_bare(
    order: Order, folder: Folder, stdio: Stdio, group: Group | None, mark: str | None, fds: Descriptors
) -> tuple["subprocess.Popen[bytes]", int]:
    """The keeper, and our end of its connection, which `fds` has."""
    told = {
        "command": list(order.command),
        "env": order.full_env(folder) | ({} if mark is None else {VARIABLE: mark}),
        "folder": str(folder.work),
        "limits": order.own_limits(),
        "uid": order.uid,
        "trusted": order.trusted,
        "tidy_s": order.tidy_s,
    }
    stdin, out, err = stdio
    control, theirs = fds.connection()
    given = fds.memory(marshal.dumps(told))
    command = [sys.executable, "-I", "-S", keeper.__file__, str(given), str(stdin)]
    first = _spawn(command, (theirs, out, err), (given, stdin), None)
    fds.close(theirs)
    with no_half_start(first):
        if not os.read(control, 1):  # it is ready; what it took to get there is not the program's
            raise LaunchError("the keeper could not start")
        if group is not None:
            group.add(first.pid)
        os.write(control, b"\n")
    return first, control


def _let_begin(inner: int, block: int, group: Group | None) -> None:
    try:
        if group is not None:
            group.add(inner)
        os.write(block, b"\n")
    except (ProcessLookupError, BrokenPipeError):
        raise LaunchError("bubblewrap has ended") from None


@contextmanager
def no_half_start(first: "subprocess.Popen[bytes]", inner: int | None = None) -> Iterator[None]:
    """What does not come under its limits, or cannot be ended, must not begin. `inner` may not know yet that it is to die with the
    first."""
    try:
        yield
    except BaseException:
        if inner is not None:
            with suppress(ProcessLookupError):
                os.kill(inner, signal.SIGKILL)
        first.kill()
        first.wait()
        raise


def _spawn(command: Sequence[str], stdio: Stdio, fds: Sequence[int], uid: int | None) -> "subprocess.Popen[bytes]":
    stdin, out, err = stdio
    user = uid
    groups: list[int] | None = None if uid is None else []
    if uid is not None and (setpriv := _setpriv()) is not None:
        # Asked for another user, Python copies itself to start a process: 50 ms in which nothing else runs, with 400 MB in use.
        command = [setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--", *command]
        user = groups = None
    return subprocess.Popen(
        command, stdin=stdin, stdout=out, stderr=err, pass_fds=fds, env=_ENV, cwd="/", process_group=0,
        user=user, group=user, extra_groups=groups,
    )  # fmt: skip


@cache
def _setpriv() -> str | None:
    """That of util-linux; others know less."""
    found = shutil.which("setpriv", path=PATH)
    if found is None:
        return None
    said = subprocess.run([found, "--help"], capture_output=True, text=True, check=False).stdout
    return found if "--clear-groups" in said else None


def _inner(info: int) -> int:
    """What bubblewrap tells when it has made the namespaces."""
    with open(info, "rb", closefd=False) as file:
        text = file.read()
    if not text:
        raise LaunchError("bubblewrap could not start")
    return int(json.loads(text)["child-pid"])


def said(stderr: int) -> str:
    """What a process that has ended wrote last."""
    os.set_blocking(stderr, False)
    try:
        return os.read(stderr, 4096).decode(errors="replace").strip()
    except BlockingIOError:
        return ""
