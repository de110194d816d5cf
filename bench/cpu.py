"""CPU time of processes, as Linux counts it."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, without its children."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS


def tree_cpu_s(pid: int) -> float:
    """CPU seconds of a process and of its children, those that have ended included."""
    fields = _stat(pid)
    own = sum(map(int, fields[11:15])) / _TICKS
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(_still(int(child)) for child in children)


def _still(pid: int) -> float:
    """A child that ends between the list and the look is its parent's by then, and counted at the next look."""
    try:
        return cpu_s(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def _stat(pid: int) -> list[str]:
    """The fields of the kernel's line about a process, from its state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
