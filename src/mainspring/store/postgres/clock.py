"""The database's clock, which is the time of every node: this machine's, corrected by the difference measured last."""

import time
from typing import Any

from mainspring.core.timer import Micros


class DatabaseClock:
    """Microseconds since 1970 by the server's clock."""

    def __init__(self) -> None:
        self._ahead: Micros = 0

    def now(self) -> Micros:
        return time.time_ns() // 1000 + self._ahead

    async def set_by(self, connection: Any) -> None:
        """Ask the server; its answer was true half way between question and answer."""
        before = time.time_ns() // 1000
        server = await connection.fetchval("select (extract(epoch from clock_timestamp()) * 1000000)::int8")
        self._ahead = server - (before + time.time_ns() // 1000) // 2
