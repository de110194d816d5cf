"""The canceller: passes cancel requests on to the workers of this node.

Woken by a hint; the slow look covers hints that got lost.
"""

from mainspring.dispatch.desk import Desk

LOOK_S = 3.0


class Canceller:
    """Tells the desk to tell its workers."""

    name = "canceller"

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def run_once(self) -> float:
        await self._desk.tell_cancels()
        return LOOK_S
