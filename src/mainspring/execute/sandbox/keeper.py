"""The parent of a bare program: sees to its limits, and that nothing it started stays behind.

A program of its own, run by a fresh interpreter that imports nothing of Mainspring, with two descriptors as arguments: its order,
marshalled, and what will be the program's standard input. Its own standard input is a connection to the worker: it says when it
is ready, a byte says to begin, and the connection's end (also by the worker's death) says to end everything. Orphans of the program
become its children, so it finds them, whatever group or session they went to. It exits as the program did: with its code, or with
128 plus the number of its signal.

Of a runtime of containers the container is ended first, and the runtime has a moment to take away what it keeps of it. Killed
together with their containers, podman and runc leave cgroups and files behind.
"""

import _signal as signal  # type: ignore[import-not-found]  # the other one brings enum along: 5 ms for each program
import ctypes
import marshal
import os
import resource
import select
import sys
import time
import warnings  # noqa: F401  execvpe imports it, and then this may be a user who cannot read it

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_LOOK_S = 0.02


def main() -> None:
    given, stdin = map(int, sys.argv[1:])
    with open(given, "rb") as file:
        order = marshal.loads(file.read())
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    os.write(0, b"r")
    if not os.read(0, 1):
        os._exit(137)  # the worker is gone already
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    program = os.fork()
    if program == 0:
        _become(order, stdin, prctl)
    signal.signal(signal.SIGTERM, lambda *_: _signal(os.killpg, program, signal.SIGTERM))
    os.close(stdin)
    status = _wait(program, woken, order["tidy_s"])
    _let_tidy(order["tidy_s"])
    _end_all()
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _become(order: dict, stdin: int, prctl: object) -> None:  # type: ignore[type-arg]
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.close(stdin)
        os.setsid()
        os.chdir(order["folder"])
        for name, limit in order["limits"].items():
            resource.setrlimit(getattr(resource, name), (limit, limit))
        if order["uid"] is not None:
            os.setgroups([])
            os.setresgid(order["uid"], order["uid"], order["uid"])
            os.setresuid(order["uid"], order["uid"], order["uid"])
        if not order["trusted"]:
            prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # type: ignore[operator]
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # type: ignore[operator]
        command = order["command"]
        os.execvpe(command[0], command, order["env"])
    except Exception as error:
        sys.stderr.write(f"{order['command'][0]}: {getattr(error, 'strerror', None) or error}\n")
        sys.stderr.flush()
    finally:
        os._exit(127)


def _wait(program: int, woken: int, tidy_s: float) -> int:
    """Until the program ends by itself, or the worker closes its end."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == 0:
                return _end(program, tidy_s)
            os.read(woken, 4096)
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if found[0] == program:
                return found[1]


def _end(program: int, tidy_s: float) -> int:
    """A runtime that is about to make a container is let to, so that it knows of all that there is."""
    until = time.monotonic() + tidy_s
    while time.monotonic() < until:
        _end_contained()
        ended, status = os.waitpid(program, os.WNOHANG)
        if ended:
            return status
        time.sleep(_LOOK_S)
    os.kill(program, signal.SIGKILL)
    return os.waitpid(program, 0)[1]


def _let_tidy(tidy_s: float) -> None:
    """What a runtime has left to take away its container in the background: killed half-way, it would leave the rest."""
    until = time.monotonic() + tidy_s
    while time.monotonic() < until:
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(_LOOK_S)


def _end_contained() -> None:
    """Those below us that have process numbers of their own."""
    for pid in filter(_is_contained, _below(os.getpid(), _parents())):
        _signal(os.kill, pid, signal.SIGKILL)


def _below(pid: int, parents: dict[int, int]) -> list[int]:
    children = [child for child, parent in parents.items() if parent == pid]
    return children + [below for child in children for below in _below(child, parents)]


def _is_contained(pid: int) -> bool:
    return _numbers(pid) > _numbers(os.getpid())


def _numbers(pid: int) -> int:
    """How many a process has: one in each namespace that it is seen in."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((len(line.split()) for line in file if line.startswith("NSpid:")), 0)
    except OSError:
        return 0


def _end_all() -> None:
    """Children of those that are killed become ours: until there is none."""
    while True:
        for child in _children():
            os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return


def _children() -> list[int]:
    own = os.getpid()
    return [pid for pid, parent in _parents().items() if parent == own]


def _parents() -> dict[int, int]:
    """Of all processes."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    found[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:  # it has ended
                continue
    return found


def _signal(send: object, process: int, number: int) -> None:
    try:  # noqa: SIM105  (contextlib takes a millisecond to be there)
        send(process, number)  # type: ignore[operator]
    except OSError:  # it has ended
        pass


if __name__ == "__main__":
    main()
