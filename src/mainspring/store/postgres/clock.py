"""The database's clock, which is the time of every node: this machine's, corrected by the difference to the server's."""

import time
from typing import Any

from mainspring.core.timer import Micros

_LOOKS = 3


class DatabaseClock:
    """Microseconds since 1970 by the server's clock. Set to be behind it rather than ahead: nothing may start before its time."""

    def __init__(self) -> None:
        self._ahead: Micros | None = None  # how far the server's clock is ahead of this machine's

    def now(self) -> Micros:
        return time.time_ns() // 1000 + (self._ahead or 0)

    async def set_by(self, connection: Any) -> None:
        """Ask the server a few times. Each answer tells two bounds, as far apart as it took to come. What lies between the bounds
        of slow answers, as a busy process gets them, is better than they are."""
        looks = [await _look(connection) for _ in range(_LOOKS)]
        least, most = max(low for low, _ in looks), min(high for _, high in looks)
        if self._ahead is None or not least <= self._ahead <= most:
            self._ahead = least


async def _look(connection: Any) -> tuple[Micros, Micros]:
    """How far the server is ahead, if the answer took no time to come back, and if the question took none to arrive."""
    before = time.time_ns() // 1000
    server = await connection.fetchval("select (extract(epoch from clock_timestamp()) * 1000000)::int8")
    after = time.time_ns() // 1000
    return server - after, server - before
