"""Sessions whose node is gone while their worker may live: left alone for a while, then ended.

A remote worker outlives the server it was registered with. It asks on, and the first server that it reaches adopts its session.
Here the time is counted in which nobody did: only time in which this node could reach the store, because without it nobody could
have adopted anything. A node whose API workers can ask waits for one lease; one without waits longer, because the server that they
are looking for may still come back.
"""

import time

from mainspring.runtime.log import get_logger
from mainspring.store.contract import Sessions
from mainspring.sweep.ownership import LEASE_S

PATIENCE_S = LEASE_S  # with an API
LONG_PATIENCE_S = 6 * LEASE_S  # without one

_log = get_logger("mainspring.node")


class Orphans:
    """Part of the rescuer, which calls `end_overdue` every second."""

    def __init__(self, store: Sessions) -> None:
        self.patience_s = LONG_PATIENCE_S
        self._store = store
        self._since_s: dict[bytes, float] = {}
        self._told = True  # there may be some already

    def look(self) -> None:
        """A node is gone."""
        self._told = True

    async def end_overdue(self, stood_still_s: float) -> bool:
        """End those that nobody adopted in time; True where there were some. Asks the store only while there are orphans."""
        if not self._told and not self._since_s:
            return False
        try:
            return await self._end_overdue(stood_still_s)
        except BaseException:
            self._since_s.clear()  # without the store they could not be adopted: their time begins anew
            self._told = True
            raise

    async def _end_overdue(self, stood_still_s: float) -> bool:
        orphans = await self._store.list_orphans()
        self._told = False
        now_s = time.monotonic()
        self._since_s = {id_: self._since_s.get(id_, now_s) + stood_still_s for id_ in orphans}
        overdue = [id_ for id_, since_s in self._since_s.items() if now_s - since_s >= self.patience_s]
        for session in overdue:
            await self._store.end_sessions([session], orphans[session])
            del self._since_s[session]
            _log.warning("a worker did not come back after its server had gone", session=session.hex())
        return bool(overdue)
