"""Which worker takes a job: tenant, slots, resources, labels and kinds. Pure: no store, no clock but the `now_s` it is given.

A worker serves a lane if it knows the kind, has the labels and is large enough; it takes a job if enough of it is free.
Among those that can, the one with the most free slots does. A lane that fits a worker's total but never its free part would
starve behind small jobs; after `RESERVE_AFTER_S` it reserves a worker, which then takes nothing else until that job is in.
"""

from collections.abc import Iterable

from mainspring.core.job import Resources
from mainspring.core.lane import Lane
from mainspring.wire import WorkerInfo

RESERVE_AFTER_S = 2.0

_NOTHING = Resources()


class Seat:
    """A session as the matcher sees it: what it is, and what of it is free."""

    __slots__ = ("coming", "cpu", "gpu", "info", "memory_mb", "reserved_for", "session", "slots", "tenant")

    def __init__(self, session: bytes, info: WorkerInfo, tenant: str | None = None) -> None:
        """`tenant`: the only one whose jobs it takes."""
        self.session = session
        self.info = info
        self.tenant = tenant
        self.slots = 0  # what the worker last said it can take, less what it was given since
        self.coming = 0  # of that, what is being assigned and has not reached the worker's mailbox
        self.cpu = info.resources.cpu
        self.memory_mb = info.resources.memory_mb
        self.gpu = info.resources.gpu
        self.reserved_for: int | None = None

    def serves(self, lane: Lane) -> bool:
        if self.tenant is not None and self.tenant != lane.tenant:
            return False
        total = self.info.resources
        return lane.kind in self.info.kinds and lane.labels <= self.info.labels and _within(lane.resources, total)

    def has_room(self, lane: Lane) -> bool:
        needs = lane.resources
        return needs.cpu <= self.cpu and needs.memory_mb <= self.memory_mb and needs.gpu <= self.gpu

    def take(self, needs: Resources) -> None:
        self.slots -= 1
        self.coming += 1
        self.occupy(needs)

    def occupy(self, needs: Resources) -> None:
        self.cpu -= needs.cpu
        self.memory_mb -= needs.memory_mb
        self.gpu -= needs.gpu

    def give_back(self, needs: Resources) -> None:
        """A job has ended. Its slot is not ours to count: the worker says with each pull how many are free."""
        self.cpu += needs.cpu
        self.memory_mb += needs.memory_mb
        self.gpu += needs.gpu


def _within(needs: Resources, has: Resources) -> bool:
    return needs.cpu <= has.cpu and needs.memory_mb <= has.memory_mb and needs.gpu <= has.gpu


class Matcher:
    """Places single jobs of lanes on seats."""

    def __init__(self) -> None:
        self.seats: dict[bytes, Seat] = {}
        self._serving: dict[int, list[Seat]] = {}
        self._waiting_since_s: dict[int, float] = {}

    def add(self, seat: Seat) -> None:
        self.seats[seat.session] = seat
        self._serving.clear()

    def remove(self, session: bytes) -> None:
        self.seats.pop(session, None)
        self._serving.clear()

    def capacity(self) -> int:
        return sum(seat.slots for seat in self.seats.values())

    def serves(self, number: int, lane: Lane) -> bool:
        """Is there a worker that could ever take jobs of this lane?"""
        return bool(self._seats_for(number, lane))

    def place(self, number: int, lane: Lane, now_s: float) -> bytes | None:
        """The session that takes one job of the lane now, charged for it."""
        best = _roomiest(self._seats_for(number, lane), number, lane)
        if best is None:
            if lane.resources != _NOTHING:
                self._reserve(number, lane, now_s)
            return None
        best.take(lane.resources)
        if lane.resources != _NOTHING:
            self.release(number)  # whichever worker it had reserved
        return best.session

    def release(self, number: int) -> None:
        """The lane got what it waited for, or has nothing ready any more: it needs no reservation."""
        self._waiting_since_s.pop(number, None)
        for seat in self.seats.values():
            if seat.reserved_for == number:
                seat.reserved_for = None

    def _reserve(self, number: int, lane: Lane, now_s: float) -> None:
        since_s = self._waiting_since_s.setdefault(number, now_s)
        if now_s - since_s < RESERVE_AFTER_S or any(seat.reserved_for == number for seat in self.seats.values()):
            return
        free = [seat for seat in self._seats_for(number, lane) if seat.reserved_for is None]
        if free:
            max(free, key=lambda seat: (seat.gpu, seat.cpu, seat.memory_mb)).reserved_for = number

    def _seats_for(self, number: int, lane: Lane) -> list[Seat]:
        seats = self._serving.get(number)
        if seats is None:
            seats = self._serving[number] = [seat for seat in self.seats.values() if seat.serves(lane)]
        return seats


def _roomiest(seats: Iterable[Seat], number: int, lane: Lane) -> Seat | None:
    best, most = None, 0
    for seat in seats:
        if seat.slots > most and seat.reserved_for in (None, number) and seat.has_room(lane):
            best, most = seat, seat.slots
    return best
