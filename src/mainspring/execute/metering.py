"""What attempts use, measured where they run: in the event loop, in a thread, in a process of the pool.

Used by the runner, the threads and the child. Guarantees: measuring never changes what a function does or raises; what cannot be
known stays None. A usage of less than a tenth of a millisecond is not made, sent and stored; it is added to that of a later attempt
(`Change`), so that sums are right and what does nothing costs little: see `bench/usage_cost.py`.
"""

import resource
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from time import perf_counter_ns, thread_time_ns
from types import CoroutineType
from typing import Any, Protocol

from msgspec.structs import replace

from mainspring.wire import Assignment, Outcome, Usage

LEAST_NS = 100_000
WORTH_NS = 1_000_000  # what is gathered is kept when it is so much: some batches of jobs later
_MOST_PURSES = 10_000
_FRESH_NS = 1_000_000


class Metered(Protocol):
    """Who steps are counted for."""

    cpu_ns: int


def cpu_usage(cpu_ns: int) -> Usage | None:
    """None where it is not worth keeping: less than what it costs to schedule the job."""
    return Usage(cpu_s=cpu_ns // 1000 / 1_000_000) if cpu_ns >= LEAST_NS else None


class Change:
    """CPU time that is not worth keeping by itself, gathered for each sum that it belongs to. In one thread."""

    def __init__(self) -> None:
        self._purses: dict[tuple[str, str, str | None], int] = {}

    def usage(self, assignment: Assignment, cpu_ns: int) -> Usage | None:
        """Of an attempt that used so much; where that is too little, None, or now and then what has been gathered."""
        if cpu_ns >= LEAST_NS:
            return cpu_usage(cpu_ns)
        purse = (assignment.tenant, assignment.kind, assignment.options.client)
        gathered = self._purses.get(purse, 0) + cpu_ns
        if gathered < WORTH_NS:
            self._purses[purse] = gathered
            return None
        del self._purses[purse]
        if len(self._purses) > _MOST_PURSES:
            self._purses.clear()
        return cpu_usage(gathered)


class StepMeter:
    """CPU time of the steps of coroutines in one thread: from where one is resumed to where it waits again, or ends.

    Asking the kernel for a thread's CPU time costs more than everything else here. So a step shorter than a millisecond counts
    as long as it lasted, and a longer one by the CPU time since a reading that was at most a millisecond old when it began.
    """

    def __init__(self) -> None:
        self._cpu_ns = self._read_at = 0

    def enter(self, call: Awaitable[Any], metered: Metered) -> tuple[object, Awaitable[object] | None]:
        """The first step. The value, and None; or, where it waits for something, what is to be awaited for the value."""
        coroutine = call if type(call) is CoroutineType else _awaiting(call)
        began = perf_counter_ns()  # what follows is `_begin` and `_used`, without the two calls: no-ops notice them
        if began - self._read_at > _FRESH_NS:
            self._cpu_ns, self._read_at = thread_time_ns(), began
        try:
            waits_for = coroutine.send(None)
        except StopIteration as end:
            lasted = perf_counter_ns() - began
            metered.cpu_ns = lasted if lasted < _FRESH_NS else self._used(began)
            return end.value, None
        except BaseException:
            metered.cpu_ns = self._used(began)
            raise
        metered.cpu_ns = self._used(began)
        return None, self._go_on(coroutine, waits_for, metered)

    @types.coroutine
    def _go_on(
        self, coroutine: Coroutine[Any, None, object], waits_for: object, metered: Metered
    ) -> Generator[Any, None, object]:
        while True:
            thrown: BaseException | None = None
            try:
                yield waits_for
            except BaseException as error:
                thrown = error
            began = self._begin()
            try:
                waits_for = coroutine.send(None) if thrown is None else coroutine.throw(thrown)
            except StopIteration as end:
                return end.value
            finally:
                metered.cpu_ns += self._used(began)

    def _begin(self) -> int:
        now = perf_counter_ns()
        if now - self._read_at > _FRESH_NS:
            self._cpu_ns, self._read_at = thread_time_ns(), now
        return now

    def _used(self, began: int) -> int:
        now = perf_counter_ns()
        lasted = now - began
        if lasted < _FRESH_NS:
            return lasted
        before, self._cpu_ns, self._read_at = self._cpu_ns, thread_time_ns(), now
        return min(lasted, self._cpu_ns - before)


async def _awaiting(call: Awaitable[Any]) -> object:
    """A function that is marked as async may answer with anything that can be awaited."""
    return await call


def in_thread(run: Callable[[], Outcome]) -> Outcome:
    """With the CPU time of this thread meanwhile."""
    began = thread_time_ns()
    outcome = run()
    return replace(outcome, usage=Usage(cpu_s=(thread_time_ns() - began) // 1000 / 1_000_000))


class ProcessMeter:
    """What this process has used since this was made: CPU and disk with its threads and the children that have ended; the peak
    of its own memory, or of its largest child's. For one attempt at a time."""

    def __init__(self) -> None:
        self._can_reset = _reset_peak()
        self._peak_kb = _child_peak_kb()
        self._disk = _disk_bytes()
        self._cpu_s = _cpu_s()

    def usage(self) -> Usage:
        cpu_s, disk = _cpu_s() - self._cpu_s, _disk_bytes()
        read, written = (None, None) if disk is None or self._disk is None else map(int.__sub__, disk, self._disk)
        return Usage(cpu_s=round(cpu_s, 6), peak_mb=self._peak_mb(), read_bytes=read, written_bytes=written)

    def _peak_mb(self) -> float | None:
        if not self._can_reset:
            return None
        of_children = _child_peak_kb()
        if of_children == self._peak_kb:
            of_children = 0  # an earlier attempt's child
        return round(max(peak_mb() or 0.0, of_children / 1024), 1)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _child_peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def _reset_peak() -> bool:
    """Linux only, and not in every sandbox."""
    try:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:
            file.write(b"5")
    except OSError:
        return False
    return True


def peak_mb(process: int | str = "self") -> float | None:
    """The most memory that a process has had; None when it has ended, or the system does not say. Not ru_maxrss, which is at least
    that of the process that started it."""
    found = _number(_read("status", process), b"VmHWM:")
    return None if found is None else found / 1024


def _disk_bytes() -> tuple[int, int] | None:
    """Read from and written to storage; what the page cache had is not read."""
    data = _read("io")
    read, written = _number(data, b"\nread_bytes:"), _number(data, b"\nwrite_bytes:")
    return None if read is None or written is None else (read, written)


def _read(name: str, process: int | str = "self") -> bytes:
    """Empty where the system has no such file, or keeps it to itself."""
    try:
        with open(f"/proc/{process}/{name}", "rb", buffering=0) as file:
            return file.read(8192)
    except OSError:
        return b""


def _number(data: bytes, label: bytes) -> int | None:
    at = data.find(label)
    return None if at < 0 else int(data[at + len(label) :].split(None, 1)[0])
