"""The database's clock, which is the time of every node: this machine's, corrected by the difference measured last."""

import time
from typing import Any

from mainspring.core.timer import SECOND, Micros

_TRUSTED = SECOND


class DatabaseClock:
    """Microseconds since 1970 by the server's clock."""

    def __init__(self) -> None:
        self._ahead: Micros | None = None

    def now(self) -> Micros:
        return time.time_ns() // 1000 + (self._ahead or 0)

    async def set_by(self, connection: Any) -> None:
        """Ask the server; its answer was true half way between question and answer. Where the question or the answer was under way
        for long, nobody knows when it was true: then what was measured before is better."""
        before = time.time_ns() // 1000
        server = await connection.fetchval("select (extract(epoch from clock_timestamp()) * 1000000)::int8")
        after = time.time_ns() // 1000
        if self._ahead is None or after - before < _TRUSTED:
            self._ahead = server - (before + after) // 2
