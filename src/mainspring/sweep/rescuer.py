"""The rescuer: attempts that died with their worker become pending again.

Sessions end in three ways: their node's lease ran out (see `ownership`) and they lived in its process, or nobody adopted them (see
`orphans`), or their worker was silent for a lease while this node was there to hear it. Time in which the node itself stood still
does not count against a worker. The store is asked only when a
session has ended so, here or with another node; a node that ends sessions and dies is itself missed by the others, who then
rescue in its place.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from mainspring.runtime.gauges import Gauges
from mainspring.store.contract import Attempts, Sessions
from mainspring.sweep.orphans import Orphans
from mainspring.sweep.ownership import LEASE_S

LOOK_S = 1.0  # for silent workers, in memory
SLOW_LOOK_S = 60.0
BATCH = 500


class RescueStore(Attempts, Sessions, Protocol):
    """What the rescuer needs of a store."""


class Rescuer:
    """Ends silent sessions and orphans, and rescues the live rows of ended ones."""

    name = "rescuer"

    def __init__(
        self, store: RescueStore, gauges: Gauges, end_silent: Callable[[float], Awaitable[list[bytes]]]
    ) -> None:
        self.orphans = Orphans(store)
        self._store = store
        self._gauges = gauges
        self._end_silent = end_silent
        self._looked_s = time.monotonic()
        self._rescue_at_s = 0.0

    def look(self) -> None:
        """Sessions or nodes may have ended; the caller wakes the service."""
        self._rescue_at_s = 0.0
        self.orphans.look()

    async def run_once(self) -> float:
        now_s = time.monotonic()
        stood_still_s = max(0.0, now_s - self._looked_s - 2 * LOOK_S)
        self._looked_s = now_s
        silent = await self._end_silent(LEASE_S + stood_still_s)
        if await self.orphans.end_overdue(stood_still_s) or silent:
            self._rescue_at_s = 0.0
        if now_s < self._rescue_at_s:
            return LOOK_S
        self._rescue_at_s = now_s + SLOW_LOOK_S
        return 0 if await self._rescue() == BATCH else LOOK_S

    async def _rescue(self) -> int:
        try:
            rescued = await self._store.rescue_attempts(BATCH)
        except BaseException:
            self._rescue_at_s = 0.0
            raise
        if rescued == BATCH:
            self._rescue_at_s = 0.0
        self._gauges.rescued += rescued
        return rescued
