"""The window: the first ready jobs of every open stream, in order. Pure: no store, no clock.

A stream is one (partition, band, lane). Within a tenant, streams merge by rank; between tenants, round robin gives each the
same number of starts per round, and a tenant that has just become active goes first. The window holds a bounded number of
jobs, never the backlog: a stream that runs low asks to be read again before it is dry (`wanted`).
"""

from collections import deque
from collections.abc import Callable, Set
from heapq import heappop, heappush, heapreplace

from mainspring.core.timer import Micros
from mainspring.store.contract import Ready, Stream

WINDOW = 8192
MIN_READ, MAX_READ = 8, 1024
LOW = 64  # a stream with so few jobs left is read on
QUANTUM = (
    4  # jobs of one turn where there is room for many: a tenant's lie side by side, so a few cost little more than one
)
MAX_TURNS = (
    128  # tenants served at once: their jobs lie far apart, and who comes next should not wait for a long commit
)

Place = Callable[[int], bytes | None]  # lane -> the session that takes one job of it, None where nobody can
Choice = tuple[bytes, Stream, Ready]  # a session, and the job it gets


class StreamWindow:
    """The head of one stream. `cursor` is the last place read; `more` says that there may be jobs behind it."""

    __slots__ = ("buffer", "cursor", "more", "placed", "stream", "tenant")

    def __init__(self, stream: Stream, tenant: "TenantWindow") -> None:
        self.stream = stream
        self.tenant = tenant
        self.buffer: deque[Ready] = deque()
        self.cursor: tuple[Micros, bytes] | None = None
        self.more = True
        self.placed: bytes | None = None  # the job of its entry in the tenant's heap

    def __lt__(self, other: "StreamWindow") -> bool:
        return False  # two heap entries for one head are equally good

    def lower(self, rank: Micros) -> None:
        """A job of this rank has come: what was read from there on is read again."""
        while self.buffer and self.buffer[-1].rank >= rank:
            self.buffer.pop()
        if self.cursor is not None and self.cursor >= (rank, b""):
            self.cursor = (rank, b"")
        self.more = True


class TenantWindow:
    """A tenant's streams, merged by rank. A heap entry whose job is not its stream's first any more is stale and skipped."""

    __slots__ = ("dry", "heap", "streams", "waiting")

    def __init__(self) -> None:
        self.heap: list[tuple[Micros, bytes, StreamWindow]] = []
        self.streams = 0
        self.waiting = False  # in the ring
        self.dry = 0  # streams whose next job is not known: it may come before everything else of this tenant


class Window:
    """All open streams of a node."""

    def __init__(self) -> None:
        self.streams: dict[Stream, StreamWindow] = {}
        self.thirsty: set[Stream] = set()  # dry: their tenant cannot be served until they are read
        self._low: set[Stream] = set()
        self._tenants: dict[str, TenantWindow] = {}
        self._ring: deque[TenantWindow] = deque()

    def open(self, stream: Stream, tenant: str, rank: Micros) -> None:
        """A stream has a job of this rank, and its lane may be served."""
        window = self.streams.get(stream)
        if window is None:
            window = self._add(stream, tenant)
        window.lower(rank)
        self._place(window)

    def close(self, stream: Stream) -> None:
        """The stream's lane may not be served now."""
        window = self.streams.get(stream)
        if window is not None:
            window.buffer.clear()
            self._drop(window)

    def read_size(self) -> int:
        """How many jobs to read of each stream so that all of them share the window."""
        return max(MIN_READ, min(MAX_READ, WINDOW // max(1, len(self.streams))))

    def wanted(self) -> list[tuple[Stream, tuple[Micros, bytes] | None]]:
        """The streams to read now, and from where on."""
        return [(stream, self.streams[stream].cursor) for stream in self.thirsty | self._low]

    def fill(self, stream: Stream, jobs: list[Ready], asked: int, taken: Set[bytes] = frozenset()) -> None:
        """The answer to a stream that was wanted. `taken`: jobs that are being assigned, and read once more."""
        window = self.streams.get(stream)
        if window is None:
            return
        self._quench(window)
        self._low.discard(stream)
        window.buffer.extend([job for job in jobs if job.job not in taken] if taken else jobs)
        window.more = len(jobs) == asked
        if jobs:
            window.cursor = (jobs[-1].rank, jobs[-1].job)
        self._place(window)

    def choose(self, capacity: int, place: Place) -> list[Choice]:
        """Up to `capacity` jobs in their fair order, each given to the session that `place` names."""
        chosen: list[Choice] = []
        ring, taken, idle, turns = self._ring, 0, 0, 0
        quantum = max(1, min(QUANTUM, capacity // 64), capacity // max(1, len(ring)))
        aside: list[StreamWindow] = []
        while taken < capacity and idle < len(ring) and turns < MAX_TURNS:
            tenant = ring.popleft()
            tenant.waiting = False
            got = 0 if tenant.dry else self._serve(tenant, min(quantum, capacity - taken), place, chosen, aside)
            idle = 0 if got else idle + 1
            taken += got
            turns += got > 0
            if tenant.streams:
                tenant.waiting = True
                ring.append(tenant)
        for window in aside:
            self._place(window)
        return chosen

    def _serve(
        self, tenant: TenantWindow, quota: int, place: Place, chosen: list[Choice], aside: list[StreamWindow]
    ) -> int:
        heap, taken = tenant.heap, 0
        while heap and taken < quota:
            _, job, window = heap[0]
            buffer = window.buffer
            if not buffer or buffer[0].job != job:
                heappop(heap)
                window.placed = None if window.placed == job else window.placed
                continue
            session = place(window.stream[2])
            if session is None:
                heappop(heap)
                window.placed = None
                aside.append(window)
                continue
            chosen.append((session, window.stream, buffer.popleft()))
            taken += 1
            if window.more and len(buffer) <= LOW:
                self._low.add(window.stream)
            if buffer:
                head = buffer[0]
                heapreplace(heap, (head.rank, head.job, window))
                window.placed = head.job
                continue
            heappop(heap)
            window.placed = None
            self._place(window)
            if tenant.dry:
                break
        return taken

    def _add(self, stream: Stream, tenant: str) -> StreamWindow:
        owner = self._tenants.setdefault(tenant, TenantWindow())
        owner.streams += 1
        if not owner.waiting:
            owner.waiting = True
            self._ring.appendleft(owner)
        window = self.streams[stream] = StreamWindow(stream, owner)
        return window

    def _drop(self, window: StreamWindow) -> None:
        self._quench(window)
        self._low.discard(window.stream)
        if self.streams.pop(window.stream, None) is None:
            return
        tenant = window.tenant
        tenant.streams -= 1
        if tenant.waiting and not tenant.streams:
            tenant.waiting = False
            self._ring.remove(tenant)

    def _place(self, window: StreamWindow) -> None:
        """Put a stream where it belongs: in its tenant's order, among the thirsty, or nowhere."""
        if window.buffer:
            head = window.buffer[0]
            if window.placed != head.job:
                heappush(window.tenant.heap, (head.rank, head.job, window))
                window.placed = head.job
        elif not window.more:
            self._drop(window)
        elif window.stream not in self.thirsty:
            self.thirsty.add(window.stream)
            window.tenant.dry += 1

    def _quench(self, window: StreamWindow) -> None:
        if window.stream in self.thirsty:
            self.thirsty.remove(window.stream)
            window.tenant.dry -= 1
