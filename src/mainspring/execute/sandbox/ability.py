"""What this machine can do to keep programs apart, tried out once, and what is allowed here.

MAINSPRING_ISOLATION, the worker's policy:

    auto       sandboxed where that works, else bare (the default)
    required   sandboxed, or not at all
    off        always bare

MAINSPRING_SCRIPT_CPUS, what programs may use: `all-but-one` leaves a CPU to the worker and the rest of the machine where there are
at least two (the default), `all` does not.

Without a sandbox a program is bare: a clean environment, a folder of its own, its limits, its end; but it sees what its
user sees, and the network.
"""

import atexit
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct

from mainspring.errors import InvalidError
from mainspring.execute.sandbox.bubblewrap import SHELL, find_binaries
from mainspring.execute.sandbox.cgroups import Tree, find_tree
from mainspring.execute.sandbox.folder import Folder, sweep_folders
from mainspring.execute.sandbox.launch import LaunchError, Order, launch, said
from mainspring.execute.sandbox.seccomp import filter_program
from mainspring.execute.sandbox.users import Users

Isolation = Literal["auto", "required"]

_POLICIES = ("auto", "required", "off")
_CPUS = ("all-but-one", "all")
_INSTALL = "install the package bubblewrap of your system, or pip install 'mainspring[sandbox]'"


class Ability(Struct, frozen=True):
    """`binary`: bubblewrap's, if it works here; else `why_not`. `tree`: where groups of processes can be made."""

    binary: str | None
    why_not: str | None
    tree: Tree | None
    users: Users


@cache
def ability() -> Ability:
    """Takes a moment, the first time: a sandbox is made and left again."""
    sweep_folders()
    tree = find_tree()
    if tree is not None:
        atexit.register(_close, tree, os.getpid())
    users = Users()
    why_not: str | None = f"there is no bubblewrap: {_INSTALL}"
    for binary in find_binaries():
        why_not = _try_out(binary, users)
        if why_not is None:
            return Ability(binary, None, tree, users)
    return Ability(None, why_not, tree, users)


def _close(tree: Tree, owner: int) -> None:
    if os.getpid() == owner:  # not a fork of it
        tree.close()


def policy(environ: Mapping[str, str] = os.environ) -> str:
    return _one_of(_POLICIES, "MAINSPRING_ISOLATION", environ)


def program_cpus(environ: Mapping[str, str] = os.environ) -> list[int]:
    """Their numbers."""
    every = sorted(os.sched_getaffinity(0))
    keep_one = _one_of(_CPUS, "MAINSPRING_SCRIPT_CPUS", environ) == "all-but-one"
    return every[1:] if keep_one and len(every) > 1 else every


def _one_of(words: Sequence[str], name: str, environ: Mapping[str, str]) -> str:
    """What the owner says; else the first."""
    given = environ.get(name, words[0])
    if given not in words:
        raise InvalidError(name, f"{given!r} is none of {', '.join(words)}")
    return given


def choose(isolation: Isolation, allowed: str) -> str | None:
    """Bubblewrap's binary, or None for bare; `InvalidError` where the job or the worker wants what is not there."""
    if allowed == "off":
        if isolation == "required":
            raise InvalidError("isolation", "this worker has MAINSPRING_ISOLATION=off and sandboxes nothing")
        return None
    found = ability()
    if found.binary is None and "required" in (isolation, allowed):
        raise InvalidError("isolation", f"no sandbox on this machine: {found.why_not}")
    return found.binary


def missing() -> str | None:
    """Why programs cannot be run here as the policy says; None where they can. Whoever asks before the first job saves that one the
    moment, and gets the groups while the worker is still alone in its own."""
    if sys.platform != "linux":
        return "it needs Linux"
    ability()
    try:
        choose("auto", policy()), program_cpus()
    except InvalidError as error:
        return str(error)
    return None


def describe() -> str:
    """For people: how programs are kept apart here."""
    found, allowed = ability(), policy()
    if allowed == "off":
        kept = "not sandboxed (MAINSPRING_ISOLATION=off)"
    elif found.binary is None:
        kept = f"not sandboxed: {found.why_not}"
    else:
        kept = f"sandboxed by {found.binary}"
    return f"{kept}; {_counting(found.tree)}; {_cpus()}"


def _counting(tree: Tree | None) -> str:
    counted = [name for name in ("memory", "pids", "cpu") if tree is not None and tree.has(name)]
    if tree is None or not counted:
        return "no cgroup can be written, so limits hold for each process and are watched"
    return f"{', '.join(counted)} limited by cgroups, version {2 if tree.unified else 1}"


def _cpus() -> str:
    count, every = len(program_cpus()), len(os.sched_getaffinity(0))
    return f"{count} of {every} CPUs" if count < every else "all CPUs"


def _try_out(binary: str, users: Users) -> str | None:
    try:
        filter_program()
    except ImportError:
        return f"pyseccomp is not installed: {_INSTALL.rpartition('or ')[2]}"
    except (RuntimeError, OSError) as error:
        return f"{error}: install the library libseccomp2 of your system"
    uid = users.take()
    with tempfile.TemporaryDirectory(prefix="mainspring-job-") as name:
        folder = Folder(Path(name))
        folder.make(uid)
        order = Order(command=[SHELL, "-c", "exit 0"], binary=binary, uid=uid, tree=None)
        try:
            _run(order, folder)
        except (OSError, LaunchError) as error:
            return f"bubblewrap does not work: {error}"
        return None


def _run(order: Order, folder: Folder) -> None:
    process = launch(order, folder)
    stdout, stderr = process.take_streams()
    try:
        if code := process.wait_here():
            raise LaunchError(said(stderr) or f"a program in it ended with exit code {code}")
    finally:
        os.close(stdout)
        os.close(stderr)
        process.close()
