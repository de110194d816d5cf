"""Groups of processes that the kernel counts and limits together: cgroups, of either version.

`find_tree` looks once where this worker may make groups, below its own, so whatever limits the worker limits its jobs too. Version
2 has one tree, version 1 one for each controller; a machine may have a mix. What cannot be written is left out, and `tree.has`
says what there is: without `memory` and `pids` others must watch over the program.

Guarantees: a group is gone when `close` returns, unless a process in it cannot be ended; groups that a killed worker has left
are removed by the next one on the machine.
"""

import contextlib
import errno
import os
import signal
import time
from pathlib import Path

from mainspring.execute.sandbox.limits import OF_THE_REAPER, Limits

_CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")  # the last is part of cpu in version 2
_PREFIX = "mainspring-"
_LEAF = "mainspring-worker"
_WEIGHT = 20  # of a job's group, where 100 is usual: the worker itself goes first
_MB = 1024 * 1024
_GONE_S = 2.0


class Tree:
    """Where groups are made: a folder for each controller, in version 2 the same for all."""

    def __init__(self, folders: dict[str, Path], unified: bool) -> None:
        self.folders = folders
        self.unified = unified
        self._count = 0

    def has(self, controller: str) -> bool:
        return controller in self.folders

    def make(self, limits: Limits) -> "Group":
        self._count += 1
        name = f"{_PREFIX}{os.getpid()}-{self._count}"
        group = Group({each: folder / name for each, folder in self.folders.items()}, self.unified)
        try:
            group.open(limits)
        except BaseException:
            group.close()
            raise
        return group

    def sweep(self) -> None:
        """Remove what workers that are gone have left."""
        for folder in set(self.folders.values()):
            for left in folder.glob(f"{_PREFIX}*-*"):
                owner = left.name.split("-")[1]
                if owner.isdigit() and not Path("/proc", owner).exists():
                    _remove(left)


class Group:
    """One program's processes."""

    def __init__(self, folders: dict[str, Path], unified: bool) -> None:
        self._folders = folders
        self._unified = unified

    def open(self, limits: Limits) -> None:
        for folder in self._each():
            folder.mkdir(exist_ok=True)
        self.limit(limits)

    def limit(self, limits: Limits) -> None:
        """Also later: the limits of a program that waits for its work."""
        memory, processes = str(limits.memory_mb * _MB), str(limits.processes + OF_THE_REAPER)
        if self._unified:
            self._write("memory", "memory.max", memory)
            self._write("memory", "memory.swap.max", "0", optional=True)
            self._write("memory", "memory.oom.group", "1", optional=True)
            self._write("cpu", "cpu.weight", str(_WEIGHT))
        else:
            # With swap is never less than without: this one goes first when the limit rises, and last when it falls.
            self._write("memory", "memory.memsw.limit_in_bytes", memory, optional=True)
            self._write("memory", "memory.limit_in_bytes", memory)
            self._write("memory", "memory.memsw.limit_in_bytes", memory, optional=True)
            self._write("cpu", "cpu.shares", str(_WEIGHT * 1024 // 100))
        self._write("pids", "pids.max", processes)

    def add(self, *pids: int) -> None:
        """And with them everything that they will start."""
        for folder in self._each():
            for pid in pids:
                folder.joinpath("cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """Has the kernel killed a process of it for its memory?"""
        text = self._read("memory", "memory.events" if self._unified else "memory.oom_control")
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in text.splitlines())

    def peak_mb(self) -> float | None:
        text = self._read("memory", "memory.peak" if self._unified else "memory.max_usage_in_bytes")
        return int(text) / _MB if text.strip().isdigit() else None

    def cpu_s(self) -> float | None:
        if not self._unified:
            text = self._read("cpuacct", "cpuacct.usage")
            return int(text) / 1e9 if text.strip().isdigit() else None
        for line in self._read("cpu", "cpu.stat").splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
        return None

    def close(self) -> None:
        """End what is left in it, and remove it."""
        deadline = time.monotonic() + _GONE_S
        for folder in self._each():
            while not _remove(folder) and time.monotonic() < deadline:
                _kill(folder)
                time.sleep(0.001)  # in a thread of the launcher: a killed process leaves its groups a moment later

    def _each(self) -> list[Path]:
        return list(dict.fromkeys(self._folders.values()))

    def _write(self, controller: str, name: str, value: str, *, optional: bool = False) -> None:
        """`optional`: a file that not every kernel has."""
        if controller not in self._folders:
            return
        with contextlib.suppress(*((OSError,) if optional else ())):
            self._folders[controller].joinpath(name).write_text(value)

    def _read(self, controller: str, name: str) -> str:
        try:
            return self._folders[controller].joinpath(name).read_text()
        except (KeyError, OSError):
            return ""


def find_tree(own: str | None = None, mounts: str | None = None) -> Tree | None:
    """None where no group can be made. `own`, `mounts`: the kernel's words in /proc/self/cgroup and /proc/self/mounts."""
    try:
        tree = _tree(
            Path("/proc/self/cgroup").read_text() if own is None else own,
            Path("/proc/self/mounts").read_text() if mounts is None else mounts,
        )
    except OSError:
        return None
    if tree is not None:
        tree.sweep()
    return tree


def _tree(own: str, mounts: str) -> Tree | None:
    paths = {controller: path for _, names, path in _lines(own) for controller in names.split(",")}
    places = _places(mounts)
    if (root := places.get("")) is not None and "" in paths:
        folders = _of_version_2(root / paths[""].lstrip("/"))
        if folders:
            return Tree(folders, unified=True)
    folders = {
        each: places[each] / paths[each].lstrip("/") for each in _CONTROLLERS if each in paths and each in places
    }
    writable = {each: folder for each, folder in folders.items() if _can_make(folder)}
    return Tree(writable, unified=False) if writable else None


def _lines(own: str) -> list[tuple[str, str, str]]:
    parts = [line.split(":", 2) for line in own.splitlines()]
    return [(number, names, path) for number, names, path in parts]


def _places(mounts: str) -> dict[str, Path]:
    """Where each controller is mounted; "" stands for version 2."""
    places: dict[str, Path] = {}
    for line in mounts.splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup2":
            places[""] = Path(place)
        elif kind == "cgroup":
            places |= {option: Path(place) for option in options.split(",") if option in _CONTROLLERS}
    return places


def _of_version_2(own: Path) -> dict[str, Path]:
    """Version 2 lets a group have processes or limited groups below it, not both: so the worker moves down into a leaf. Only
    where it is alone in its group, as a service with `Delegate=yes` or in a container is; others' processes are not ours to move.
    """
    wanted = {"memory", "pids", "cpu"} & set(_words(own / "cgroup.controllers"))
    if not wanted or not os.access(own / "cgroup.procs", os.W_OK) or not os.access(own, os.W_OK):
        return {}
    if own.name == _LEAF:  # a worker before this one, in the same process
        own = own.parent
    elif not _move_down(own):
        return {}
    try:
        own.joinpath("cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in sorted(wanted)))
    except OSError:
        return {}
    return dict.fromkeys(wanted, own)


def _move_down(own: Path) -> bool:
    pids = _words(own / "cgroup.procs")
    if (
        pids != [str(os.getpid())] and own.joinpath("cgroup.type").exists()
    ):  # the root of all has no such file, nor that rule
        return False
    if not own.joinpath("cgroup.type").exists():
        return True
    leaf = own / _LEAF
    try:
        leaf.mkdir(exist_ok=True)
        leaf.joinpath("cgroup.procs").write_text(pids[0])
    except OSError:
        return False
    return True


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _can_make(folder: Path) -> bool:
    trial = folder / f"{_PREFIX}{os.getpid()}-trial"
    try:
        trial.mkdir()
    except OSError:
        return False
    return _remove(trial)


def _remove(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


def _kill(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.joinpath("cgroup.kill").write_text("1")
        return
    for pid in _words(folder / "cgroup.procs"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
