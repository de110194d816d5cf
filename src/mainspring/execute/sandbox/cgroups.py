"""Groups of processes that the kernel counts and limits together: cgroups, of either version.

`find_tree` looks once where this worker may make groups, below its own, so whatever limits the worker limits its jobs too. Version
2 has one tree, version 1 one for each controller; a machine may have a mix. What cannot be written is left out, and `tree.has`
says what there is: without `memory` and `pids` others must watch over the program. All programs of a worker are in one group, in
which each has its own: so they share the CPU evenly, and all together get a tenth of what the worker gets if both want it: what
schedules jobs, and functions that take a moment, do not wait for programs.

Guarantees: a group is gone when `close` returns, unless a process in it cannot be ended; groups that a killed worker has left
are removed by the next one on the machine.
"""

import contextlib
import errno
import itertools
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from mainspring.execute.sandbox.limits import OF_THE_REAPER, Limits

_CONTROLLERS = ("memory", "pids", "cpu")
_PREFIX = "mainspring-"
_LEAF = "mainspring-worker"
_MB = 1024 * 1024
_GONE_S = 2.0
_LIGHT = {"cpu.weight": "10", "cpu.shares": "102"}  # by version; others have 100, and 1024


_numbers = itertools.count(1)


class Tree(Struct, frozen=True):
    """Where groups are made: a folder for each controller, in version 2 the same for all."""

    folders: dict[str, str]
    unified: bool

    def has(self, controller: str) -> bool:
        return controller in self.folders

    def make(self, limits: Limits) -> "Group":
        name = f"{os.getpid()}-{next(_numbers)}"
        group = Group({each: Path(folder, name) for each, folder in self.folders.items()}, self.unified)
        try:
            group.open(limits)
        except BaseException:
            group.close()
            raise
        return group

    def lighten(self) -> None:
        """Programs get a tenth of the CPU time that the worker gets, if both want it."""
        if (folder := self.folders.get("cpu")) is not None:
            name = "cpu.weight" if self.unified else "cpu.shares"
            with contextlib.suppress(OSError):
                Path(folder, name).write_text(_LIGHT[name])

    def close(self) -> None:
        """With the groups that a host has left which was killed."""
        for room in map(Path, set(self.folders.values())):
            for group in room.glob("*/"):
                _end(group)
            _remove(room)


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
        memory = str(limits.memory_mb * _MB)
        if self._unified:
            self._write("memory", "memory.max", memory)
            self._write("memory", "memory.swap.max", "0", optional=True)
            self._write("memory", "memory.oom.group", "1", optional=True)
        else:
            # With swap is never less than without: this one goes first when the limit rises, and last when it falls.
            self._write("memory", "memory.memsw.limit_in_bytes", memory, optional=True)
            self._write("memory", "memory.limit_in_bytes", memory)
            self._write("memory", "memory.memsw.limit_in_bytes", memory, optional=True)
        self._write("pids", "pids.max", str(limits.processes + OF_THE_REAPER))

    def add(self, pid: int) -> None:
        """And with it everything that it will start. May take some milliseconds: for the kernel it is a rare event."""
        for folder in self._each():
            folder.joinpath("cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """Has the kernel killed a process of it for its memory?"""
        text = self._read("memory", "memory.events" if self._unified else "memory.oom_control")
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in text.splitlines())

    def peak_mb(self) -> float | None:
        text = self._read("memory", "memory.peak" if self._unified else "memory.max_usage_in_bytes")
        return int(text) / _MB if text.strip().isdigit() else None

    def close(self) -> None:
        """End what is left in it, and remove it."""
        for folder in self._each():
            _end(folder)

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
        paths = _paths(Path("/proc/self/cgroup").read_text() if own is None else own)
        places = _places(Path("/proc/self/mounts").read_text() if mounts is None else mounts)
    except OSError:
        return None
    if "" in paths and "" in places:
        folder = places[""] / paths[""].lstrip("/")
        if wanted := _prepared(folder):
            above = folder.parent if folder.name == _LEAF else folder
            if (room := _room(above)) and _allow(room, wanted):
                return _tree(dict.fromkeys(wanted, room), unified=True)
    found = {
        each: _room(places[each] / paths[each].lstrip("/")) for each in _CONTROLLERS if each in {*paths} & {*places}
    }
    rooms = {each: room for each, room in found.items() if room is not None}
    return _tree(rooms, unified=False) if rooms else None


def _tree(rooms: Mapping[str, Path], *, unified: bool) -> Tree:
    tree = Tree({each: str(room) for each, room in rooms.items()}, unified)
    tree.lighten()
    return tree


def _paths(own: str) -> dict[str, str]:
    """In which group this process is, by controller; "" stands for version 2."""
    parts = [line.split(":", 2) for line in own.splitlines()]
    return {controller: path for _, names, path in parts for controller in names.split(",")}


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


def _prepared(own: Path) -> list[str]:
    """The controllers of version 2 that groups below this one can have.

    Version 2 lets a group have processes or limited groups below it, not both: so the worker moves down into a leaf. Only where it
    is alone in its group, as a service with `Delegate=yes` is; others' processes are not ours to move.
    """
    wanted = sorted(set(_CONTROLLERS) & set(_words(own / "cgroup.controllers")))
    if not wanted or not os.access(own, os.W_OK) or not os.access(own / "cgroup.procs", os.W_OK):
        return []
    if own.name == _LEAF:  # it is down there already
        return wanted
    return wanted if _move_down(own) and _allow(own, wanted) else []


def _allow(folder: Path, controllers: list[str]) -> bool:
    try:
        folder.joinpath("cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in controllers))
    except OSError:
        return False
    return True


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


def _room(above: Path) -> Path | None:
    """The group of all programs of this worker; None where none can be made. Those of workers that are gone go, also of one
    that had the number that this one has."""
    for left in above.glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX)
        if owner.isdigit() and (owner == str(os.getpid()) or not Path("/proc", owner).exists()):
            for group in (*left.glob("*/"), left):
                _remove(group)
    room = above / f"{_PREFIX}{os.getpid()}"
    try:
        room.mkdir(exist_ok=True)
    except OSError:
        return None
    return room


def _end(group: Path) -> None:
    deadline = time.monotonic() + _GONE_S
    while not _remove(group) and time.monotonic() < deadline:
        _kill(group)
        time.sleep(0.001)  # a killed process leaves its groups a moment later


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
