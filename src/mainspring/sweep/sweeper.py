"""The sweeper: timers whose time has come become ready jobs, and jobs too late to start expire.

It sleeps until the earliest due time it knows of, and is woken by a hint when an earlier one is set. The slow look every
`LOOK_S` covers hints that got lost. Nothing ripens early: the store compares with its own clock.
"""

from collections.abc import Sequence

from mainspring.core.timer import SECOND, Micros, seconds
from mainspring.runtime.clock import Clock
from mainspring.runtime.gauges import Gauges
from mainspring.store.contract import Hint, Timers

LOOK_S = 10.0
BATCH = 2000


class Sweeper:
    """Ripens the timers of the partitions that this node owns."""

    name = "sweeper"

    def __init__(self, store: Timers, clock: Clock, gauges: Gauges) -> None:
        self._store = store
        self._clock = clock
        self._gauges = gauges
        self.partitions: Sequence[int] = ()
        self.next_at: Micros | None = 0
        self._look_at: Micros = 0

    async def run_once(self) -> float:
        now = self._clock.now()
        look = seconds(LOOK_S)
        is_time = not 0 < self._look_at - now <= look  # also where the clock was set back
        if is_time or (self.next_at is not None and now >= self.next_at):
            self._look_at = now + look
            self.next_at = None  # a hint that comes while the store is at work is not overwritten below
            moved, next_at = await self._ripen()
            self._gauges.ripened += moved
            self._hear_of(next_at)
        return self._rest_s()

    async def _ripen(self) -> tuple[int, Micros | None]:
        try:
            return await self._store.ripen_timers(self.partitions, BATCH)
        except BaseException:
            self.next_at = 0  # what is due is still due
            raise

    def own(self, partitions: Sequence[int]) -> None:
        self.partitions = partitions
        self.next_at = 0

    def hear(self, hint: Hint) -> bool:
        """Does this hint shorten the rest?"""
        if hint.topic != "timer" or (self.next_at is not None and hint.at >= self.next_at):
            return False
        self.next_at = hint.at
        return True

    def _hear_of(self, at: Micros | None) -> None:
        if at is not None and (self.next_at is None or at < self.next_at):
            self.next_at = at

    def _rest_s(self) -> float:
        """Never short of the due time: waking early would cost a second look. Never long: the clock may be set meanwhile."""
        until = self._look_at if self.next_at is None else min(self.next_at, self._look_at)
        return min(LOOK_S, max(0.0, (until - self._clock.now()) / SECOND))
