"""How a job tells that it ran: a stamp in a memory-mapped file, the same for every system.

A job's argument is 100 characters long and carries the job's index, so the job function can write its times to a slot
of its own. That costs a few hundred nanoseconds and no system call, which keeps the telling out of what is measured,
and the stamps of a killed process stay in the page cache.
"""

import mmap
import os
import time
from pathlib import Path

ENV = "BENCH_EFFECTS"
PAYLOAD_LENGTH = 100
_INDEX = slice(0, 8)
_NAP = slice(8, 12)
_WORDS = 3  # first start, last end, number of ends
_WORD_BYTES = 8
_NO_NAP = "0000"


def payload(index: int, nap_ms: int = 0) -> str:
    """The argument of job `index`, which does nothing or sleeps for `nap_ms` milliseconds."""
    return f"{index:08d}{nap_ms:04d}".ljust(PAYLOAD_LENGTH, "x")


def payloads(first: int, count: int, nap_ms: int = 0) -> list[str]:
    """The arguments of `count` jobs with successive indices from `first`."""
    return [payload(index, nap_ms) for index in range(first, first + count)]


def naps(argument: str) -> bool:
    """Does this job sleep?"""
    return argument[_NAP] != _NO_NAP


class Effects:
    """The stamps of jobs 0 to `size` - 1, shared by the bench and every worker process."""

    def __init__(self, path: Path, size: int | None = None) -> None:
        """Open the file at `path`; with a `size`, make it anew with every slot empty."""
        if size is not None:
            with path.open("wb") as new:
                new.truncate(max(size, 1) * _WORDS * _WORD_BYTES)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._words = memoryview(self._map).cast("Q")
        self.path = path
        self.size = len(self._words) // _WORDS

    def start(self, index: int) -> None:
        """Stamp the start of a job; a second run does not move the first stamp."""
        if not self._words[index * _WORDS]:
            self._words[index * _WORDS] = time.time_ns()

    def end(self, index: int) -> None:
        """Stamp the end of a job and count it."""
        base = index * _WORDS
        self._words[base + 2] += 1
        self._words[base + 1] = time.time_ns()

    def started_at(self, index: int) -> int:
        """When the job first began (ns since the epoch), 0 if never."""
        return self._words[index * _WORDS]

    def ended_at(self, index: int) -> int:
        """When the job last ran to its end (ns since the epoch), 0 if never."""
        return self._words[index * _WORDS + 1]

    def runs(self, index: int) -> int:
        """How often the job ran to its end."""
        return self._words[index * _WORDS + 2]

    def ended(self, jobs: range) -> int:
        """How many of `jobs` ran to their end."""
        return sum(1 for index in jobs if self.ended_at(index))

    def close(self) -> None:
        """Let go of the mapping."""
        self._words.release()
        self._map.close()


_open: Effects | None = None


def run(argument: str) -> None:
    """The one job function of every system: stamp the start, sleep if told so, stamp the end."""
    global _open
    if _open is None:
        _open = Effects(Path(os.environ[ENV]))
    index = int(argument[_INDEX])
    _open.start(index)
    if naps(argument):
        time.sleep(int(argument[_NAP]) / 1000)
    _open.end(index)
