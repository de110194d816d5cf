"""The rescuer: attempts that died with their worker become pending again.

Sessions end in two ways: their node's lease ran out (see `ownership`), or their worker was silent for a lease while this node
was there to hear it. Time in which the node itself stood still does not count against a worker.
"""

import time
from collections.abc import Awaitable, Callable

from mainspring.runtime.gauges import Gauges
from mainspring.store.contract import Attempts
from mainspring.sweep.ownership import LEASE_S

LOOK_S = 1.0
BATCH = 500


class Rescuer:
    """Ends silent sessions and rescues the live rows of ended ones."""

    name = "rescuer"

    def __init__(self, store: Attempts, gauges: Gauges, end_silent: Callable[[float], Awaitable[list[bytes]]]) -> None:
        self._store = store
        self._gauges = gauges
        self._end_silent = end_silent
        self._looked_s = time.monotonic()

    async def run_once(self) -> float:
        now_s = time.monotonic()
        stood_still_s = max(0.0, now_s - self._looked_s - 2 * LOOK_S)
        self._looked_s = now_s
        await self._end_silent(LEASE_S + stood_still_s)
        rescued = await self._store.rescue_attempts(BATCH)
        self._gauges.rescued += rescued
        return 0 if rescued == BATCH else LOOK_S
