"""Where time comes from: the machine, or a test.

`now` is the time durable decisions are made by; stores own a clock and nothing else asks the machine. The heartbeat and
in-memory waits use the event loop's monotonic time instead, because that never jumps.
"""

import time
from typing import Protocol

from mainspring.core.timer import Micros, seconds


class Clock(Protocol):
    """Whole microseconds since 1970, UTC."""

    def now(self) -> Micros: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> Micros:
        return time.time_ns() // 1000


class ManualClock:
    """Stands still until `advance`; for tests."""

    def __init__(self, start: Micros) -> None:
        self._now = start

    def now(self) -> Micros:
        return self._now

    def advance(self, by_s: float) -> None:
        self._now += seconds(by_s)
