"""Where a job goes on from after its attempt has ended: checkpoints, one object per attempt (`core.objects.checkpoint`).

`save` and `load` move bytes and are for types as well as for functions; `Checkpoints` is what `Context.checkpoint` calls, with
JSON in them. Guarantees: what was saved is durable, and the next attempt gets the newest that any attempt before it saved,
whoever runs it and however the one before ended. An attempt writes under its own number only, so one that was replaced, and does
not know it yet, never overwrites what a later one reads.
"""

import asyncio
import time

from mainspring.core.duration import parse_duration
from mainspring.core.objects import CHECKPOINTS, attempt_of, checkpoint
from mainspring.core.options import Duration
from mainspring.execute.exact import exact_json
from mainspring.execute.services import Services

_LAST_SAVE_S = 5.0  # after the function has ended: no outcome waits longer for what would only save work


async def save(services: Services, data: bytes) -> None:
    """Replace what this attempt has saved before."""
    await services.put(checkpoint(services.assignment.attempt), data)


async def load(services: Services) -> bytes | None:
    """The newest of the attempts before; the runner keeps it in `services.resume` before the function begins."""
    found = await services.find(CHECKPOINTS)
    if not found:
        return None
    return await services.read(max((each.name for each in found), key=attempt_of))


class Checkpoints:
    """Those of one attempt."""

    __slots__ = ("_saved_s", "_services", "_unsaved")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._saved_s: float | None = None
        self._unsaved: bytes | None = None

    async def save(self, state: object, every: Duration | None) -> None:
        """`every`: hold it back if the last one was saved less long ago; the newest is saved when the function ends."""
        data = exact_json("state", state)
        early = every is not None and self._is_early(parse_duration("every", every))
        self._hold(data)  # also where it is saved now: a stop may come meanwhile
        if early:
            return
        await save(self._services, data)
        self._saved_s = time.monotonic()
        if self._unsaved is data:
            self._unsaved = None

    def _is_early(self, every_s: float) -> bool:
        return self._saved_s is not None and time.monotonic() - self._saved_s < every_s

    def _hold(self, data: bytes) -> None:
        self._unsaved = data
        if self._save_last not in self._services.closers:
            self._services.closers.append(self._save_last)

    async def _save_last(self) -> None:
        if self._unsaved is not None:
            async with asyncio.timeout(_LAST_SAVE_S):
                await save(self._services, self._unsaved)
