"""Hints: gathered while a transaction runs, told after it has committed."""

from collections.abc import Callable, Iterable

from mainspring.core.timer import Micros
from mainspring.store.contract import Hint, Stream

MAX_STREAMS = 100  # a longer list of streams is sent to other processes as "look at all of them"

#: What to look at when hints may have been lost.
EVERYTHING = [
    Hint(topic)
    for topic in ("ready", "timer", "settled", "cancel", "schedule", "queue", "tenant", "key", "secret", "node")
]


class Hints:
    """What a transaction's writes mean for others."""

    def __init__(self) -> None:
        self.streams: dict[Stream, Micros] = {}
        self.next_due: Micros | None = None
        self.topics: set[str] = set()

    def ready(self, partition: int, band: int, lane: int, rank: Micros) -> None:
        """A stream got a job of this rank."""
        key = (partition, band, lane)
        self.streams[key] = min(rank, self.streams.get(key, rank))

    def due(self, at: Micros) -> None:
        """A timer was set."""
        self.next_due = at if self.next_due is None else min(at, self.next_due)

    def add(self, hints: Iterable[Hint]) -> None:
        """Those of another transaction."""
        for hint in hints:
            if hint.topic == "ready" and hint.streams:
                for partition, band, lane, rank in hint.streams:
                    self.ready(partition, band, lane, rank)
            elif hint.topic == "timer":
                self.due(hint.at)
            else:
                self.topics.add(hint.topic)

    def hints(self) -> list[Hint]:
        hints = [Hint(topic) for topic in sorted(self.topics)]
        if self.streams and "ready" not in self.topics:
            hints.append(Hint("ready", streams=[(*stream, rank) for stream, rank in self.streams.items()]))
        if self.next_due is not None:
            hints.append(Hint("timer", at=self.next_due))
        return hints


class Listeners:
    """Who in this process wants to hear."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Hint], None]] = []

    def subscribe(self, listener: Callable[[Hint], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, hints: Iterable[Hint]) -> None:
        for listener in tuple(self._listeners):
            for hint in hints:
                listener(hint)


def shortened(hint: Hint) -> Hint:
    """As it goes to other processes."""
    return Hint(hint.topic) if len(hint.streams) > MAX_STREAMS else hint
