"""Limits that nothing enforces by itself, looked at now and then while a program runs.

Always: the size of its folders and its CPU time. Where no group counts them: the memory of all its processes, and how many
there are. A program can pass a limit for as long as nobody looks, so these are a guard against accidents and greed, not an
exact border. Called in a thread.
"""

import os
from pathlib import Path

from mainspring.execute.sandbox.folder import Folder
from mainspring.execute.sandbox.launch import Order
from mainspring.execute.sandbox.limits import OF_THE_REAPER
from mainspring.execute.sandbox.process import Process

EVERY_S = 0.25

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MB = 1024 * 1024


def exceeded(order: Order, process: Process, folder: Folder) -> str | None:
    """The limit that it has passed, in words."""
    if (excess := folder.excess(order.limits.disk_mb)) is not None:
        return excess
    tree = order.tree
    counted = tree is not None and tree.has("memory") and tree.has("pids")
    return None if counted and order.limits.cpu_s is None else _exceeded_by_tree(order, process)


def _exceeded_by_tree(order: Order, process: Process) -> str | None:
    limits = order.limits
    processes = _tree(process.pid)
    if len(processes) > limits.processes + OF_THE_REAPER + 1:
        return f"limit of {limits.processes} processes"
    memory = sum(_memory(pid) for pid in processes)
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


def _memory(pid: int) -> int:
    words = _read(f"/proc/{pid}/statm").split()
    return (int(words[1]) - int(words[2])) * _PAGE if words else 0  # shared pages are not its own


def _cpu_s(pid: int) -> float:
    """With what its ended children used."""
    words = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(int(word) for word in words[11:15]) / _TICKS if words else 0.0


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
