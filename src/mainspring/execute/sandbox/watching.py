"""Limits that nothing enforces by itself, looked at now and then while a program runs.

Always: the size of its folders, with files that are deleted and still open, and its CPU time. Where no group counts them: the
memory of all its processes, and how many there are. A program can pass a limit for as long as nobody looks, so these are a guard
against accidents and greed, not an exact border. Called in a thread.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from mainspring.execute.sandbox.folder import Folder
from mainspring.execute.sandbox.launch import Order
from mainspring.execute.sandbox.limits import OF_THE_REAPER
from mainspring.execute.sandbox.process import Process

EVERY_S = 0.25

_TICKS = os.sysconf("SC_CLK_TCK")
_MB = 1024 * 1024
_DELETED = " (deleted)"  # what the kernel adds to a file's name
_OWN = ("RssAnon:", "RssShmem:")
_IN_MEMORY = ("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV")


def exceeded(order: Order, process: Process, folder: Folder) -> str | None:
    """The limit that it has passed, in words."""
    processes = _tree(process.pid)
    if (excess := folder.excess(order.limits.disk_mb, _nameless(processes, in_memory=False))) is not None:
        return excess
    tree = order.tree
    counted = tree is not None and tree.has("memory") and tree.has("pids")
    return None if counted and order.limits.cpu_s is None else _exceeded_by_tree(order, process, processes)


def _exceeded_by_tree(order: Order, process: Process, processes: list[int]) -> str | None:
    limits = order.limits
    # The threads of an engine of containers are none of its program's.
    count = len(processes) if order.trusted else sum(map(_threads, processes))
    if count > limits.processes + OF_THE_REAPER + 1:
        return f"limit of {limits.processes} processes"
    memory = sum(_memory(pid) for pid in processes) + _nameless(processes, in_memory=True)
    process.seen_mb = max(process.seen_mb or 0.0, memory / _MB)
    if memory > limits.memory_mb * _MB:
        return f"memory limit of {limits.memory_mb} MB"
    if limits.cpu_s is not None and sum(_cpu_s(pid) for pid in processes) > limits.cpu_s:
        return f"CPU limit of {limits.cpu_s:g} s"
    return None


def _tree(root: int) -> list[int]:
    """Whoever's parent is gone has been given to bubblewrap's or the keeper's process, so all are below it."""
    found = [root]
    for pid in found:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
            found += [int(word) for thread in threads for word in _read(f"/proc/{pid}/task/{thread}/children").split()]
        except OSError:
            continue
    return found[1:]


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:  # it has ended
        return 0


def _nameless(processes: list[int], *, in_memory: bool) -> int:
    """Bytes that only descriptors lead to, on the disk or in memory."""
    found = _deleted(processes)
    sizes = {(each.st_dev, each.st_ino): each.st_blocks for link, each in found if _in_memory(link) is in_memory}
    return sum(sizes.values()) * 512


def _in_memory(link: str) -> bool:
    return link.startswith(_IN_MEMORY)


def _deleted(processes: list[int]) -> Iterator[tuple[str, os.stat_result]]:
    """Their open files that have no name any more."""
    for pid in processes:
        place = f"/proc/{pid}/fd"
        with contextlib.suppress(OSError):  # it has ended, or we may not look
            for name in os.listdir(place):
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    if (link := os.readlink(f"{place}/{name}")).endswith(_DELETED):
                        yield link, os.stat(f"{place}/{name}")


def _memory(pid: int) -> int:
    """What no file on the disk stands for. Memory that processes share counts for each that uses it."""
    lines = (line.split() for line in _read(f"/proc/{pid}/status").splitlines())
    return sum(int(words[1]) for words in lines if words[0] in _OWN) * 1024


def _cpu_s(pid: int) -> float:
    """With what its ended children used."""
    words = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(int(word) for word in words[11:15]) / _TICKS if words else 0.0


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
