"""The pruner: retention. Old ended jobs go, a batch at a time, so that nobody waits for it.

It keeps up with whatever ends. While a batch is full it goes on at once, with one twice as large up to a bound: what a busy
store needs, and what leaves a quiet one alone. While jobs keep coming of age it looks every second, and where none does once
a minute, or ten times in the shortest time anything is kept.
"""

from mainspring.core.lifecycle import State
from mainspring.core.timer import seconds
from mainspring.runtime.clock import Clock
from mainspring.runtime.gauges import Gauges
from mainspring.store.contract import Timers

LEAST = 500
MOST = 5000
SOON_S = 1.0
LOOK_S = 60.0


class Pruner:
    """Deletes jobs that ended longer ago than `keep_s`; failed ones, which people look at, are kept for `keep_failed_s`."""

    name = "pruner"

    def __init__(self, store: Timers, clock: Clock, gauges: Gauges, keep_s: float, keep_failed_s: float) -> None:
        self._store = store
        self._clock = clock
        self._gauges = gauges
        self._keep_s = {State.COMPLETED: keep_s, State.CANCELLED: keep_s, State.FAILED: keep_failed_s}
        self._look_s = min(LOOK_S, max(SOON_S, min(keep_s, keep_failed_s) / 10))
        self._batch = LEAST

    async def run_once(self) -> float:
        now = self._clock.now()
        before = {str(state): now - seconds(keep_s) for state, keep_s in self._keep_s.items()}
        pruned = await self._store.prune_jobs(before, self._batch)
        self._gauges.pruned += pruned
        if pruned == self._batch:
            self._batch = min(2 * self._batch, MOST)
            return 0
        self._batch = LEAST
        return SOON_S if pruned else self._look_s
