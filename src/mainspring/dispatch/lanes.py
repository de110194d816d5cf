"""Which lanes may be read: served by a worker, not paused, not at a limit.

A closed lane costs nothing: its streams are remembered here and read only when it opens. What a node itself runs under a
limit is counted here, so that it asks the store for no more than the limit can give; the store has the last word.
"""

from collections import Counter

from mainspring.core.job import Limit
from mainspring.core.lane import Lane
from mainspring.core.timer import Micros
from mainspring.store.contract import QueueRecord, Stream

LimitKey = tuple[str, str]  # the limit's name, and the key it counts by

_UNLIMITED = 1 << 30


class LaneState:
    """A lane and why it is closed, if it is."""

    __slots__ = ("held_until", "lane", "limits", "number", "parked")

    def __init__(self, number: int, lane: Lane) -> None:
        self.number = number
        self.lane = lane
        self.limits: tuple[LimitKey, ...] = ()
        self.held_until: Micros | None = None  # at a limit until then; -1: until a job of this limit ends
        self.parked: dict[Stream, Micros] = {}  # streams with ready jobs while closed, and their lowest rank

    def park(self, stream: Stream, rank: Micros) -> None:
        self.parked[stream] = min(rank, self.parked.get(stream, rank))


class Lanes:
    """Every lane this node has seen ready jobs of."""

    def __init__(self) -> None:
        self.known: dict[int, LaneState] = {}
        self._paused: set[tuple[str, str]] = set()
        self._rules: dict[str, Limit] = {}
        self._running: Counter[LimitKey] = Counter()

    def learn(self, lanes: dict[int, Lane]) -> None:
        for number, lane in lanes.items():
            state = self.known[number] = LaneState(number, lane)
            state.limits = self._limits_of(lane)

    def configure(self, queues: list[QueueRecord], rules: dict[str, Limit]) -> None:
        """Pauses and limits as the store has them now."""
        self._paused = {(queue.tenant, queue.name) for queue in queues if queue.paused}
        self._rules = rules
        for state in self.known.values():
            state.limits = self._limits_of(state.lane)
            state.held_until = None

    def is_open(self, state: LaneState, now: Micros) -> bool:
        """Served or not is the matcher's question; this is the rest."""
        if state.held_until is not None:
            if state.held_until < 0 or now < state.held_until:
                return False
            state.held_until = None
        return (state.lane.tenant, state.lane.queue) not in self._paused

    def room(self, limit: LimitKey) -> int:
        """How many more jobs under a limit it makes sense to ask for."""
        rule = self._rules[limit[0]]
        room = rule.burst if rule.rate is not None else _UNLIMITED
        return room if rule.concurrency is None else min(room, rule.concurrency - self._running[limit])

    def started(self, state: LaneState) -> None:
        for limit in state.limits:
            self._running[limit] += 1

    def ended(self, state: LaneState, count: int) -> list[LaneState]:
        """So many jobs of the lane have ended; answers the lanes that may go on because of it."""
        for limit in state.limits:
            self._running[limit] = max(0, self._running[limit] - count)
        touched = set(state.limits)
        return [other for other in self.known.values() if other.held_until == -1 and touched & set(other.limits)]

    def next_opening(self) -> Micros | None:
        """When the next lane held by a rate opens by itself."""
        times = [s.held_until for s in self.known.values() if s.held_until is not None and s.held_until >= 0]
        return min(times, default=None)

    def _limits_of(self, lane: Lane) -> tuple[LimitKey, ...]:
        candidates = (
            (f"queue/{lane.tenant}/{lane.queue}", ""),
            (f"kind/{lane.kind}", f"{lane.tenant}/{lane.limit_key or ''}"),
            (f"tenant/{lane.tenant}", ""),
        )
        return tuple(limit for limit in candidates if limit[0] in self._rules)
