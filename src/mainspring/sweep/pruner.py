"""The pruner: retention. Old ended jobs go, a small batch at a time, so that nobody waits for it."""

from mainspring.core.lifecycle import State
from mainspring.core.timer import seconds
from mainspring.runtime.clock import Clock
from mainspring.runtime.gauges import Gauges
from mainspring.store.contract import Timers

BATCH = 500
PAUSE_S = 0.01
LOOK_S = 60.0


class Pruner:
    """Deletes jobs that ended longer ago than `keep_s`; failed ones, which people look at, are kept for `keep_failed_s`."""

    name = "pruner"

    def __init__(self, store: Timers, clock: Clock, gauges: Gauges, keep_s: float, keep_failed_s: float) -> None:
        self._store = store
        self._clock = clock
        self._gauges = gauges
        self._keep_s = {State.COMPLETED: keep_s, State.CANCELLED: keep_s, State.FAILED: keep_failed_s}

    async def run_once(self) -> float:
        now = self._clock.now()
        before = {str(state): now - seconds(keep_s) for state, keep_s in self._keep_s.items()}
        pruned = await self._store.prune_jobs(before, BATCH)
        self._gauges.pruned += pruned
        return PAUSE_S if pruned == BATCH else LOOK_S
