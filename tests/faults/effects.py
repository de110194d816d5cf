"""The effect log: what jobs wrote down about their runs, outside of Mainspring."""

from pathlib import Path
from typing import NamedTuple


class Effect(NamedTuple):
    """One run of a job, as it told itself."""

    job: str
    attempt: int
    pid: int
    at_s: float  # monotonic, the same in every process


def read_effects(log: Path) -> list[Effect]:
    lines = (line.split() for line in log.read_text().splitlines())
    return [Effect(job, int(attempt), int(pid), int(at_ns) / 1e9) for job, attempt, pid, at_ns in lines]
