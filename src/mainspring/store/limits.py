"""How much of a limit is free, computed the same way for every store. Pure.

A rate is a leaky bucket kept as one time: when the next start would be free if nothing more came.
"""

from math import ceil

from msgspec import Struct

from mainspring.core.job import Limit
from mainspring.core.timer import SECOND, Micros
from mainspring.errors import InvalidError
from mainspring.store.contract import LimitUse
from mainspring.store.service import Quota

_ROUNDING = 1e-6  # of a token


class LimitState(Struct):
    """A limit by name and key as it is now: its rule, the live jobs it counts, and its bucket."""

    rule: Limit
    held: int = 0
    next_free_at: Micros = 0

    def free(self, now: Micros) -> tuple[int | None, Micros | None]:
        """Starts it lets through now (None: any number), and when one more comes where its rate says so."""
        free = None if self.rule.concurrency is None else max(0, self.rule.concurrency - self.held)
        if self.rule.rate is None:
            return free, None
        tokens, next_at = self._tokens(now, self.rule.rate)
        if free is not None and free < tokens:
            return free, None
        return tokens, next_at

    def take(self, count: int, now: Micros) -> None:
        """So many have started."""
        self.held += count
        if self.rule.rate is not None:
            self.next_free_at = ceil(max(self.next_free_at, now) + count * SECOND / self.rule.rate)

    def use(self, now: Micros) -> LimitUse:
        if self.rule.rate is None:
            return LimitUse(self.held, None)
        tokens, next_at = self._tokens(now, self.rule.rate)
        return LimitUse(self.held, None if tokens else next_at)

    def _tokens(self, now: Micros, rate: float) -> tuple[int, Micros]:
        interval = SECOND / rate
        next_free_at = max(self.next_free_at, now)
        tokens = max(0, int(self.rule.burst - (next_free_at - now) / interval + _ROUNDING))
        return tokens, ceil(next_free_at + (tokens + 1 - self.rule.burst) * interval)


def admitted(wanted: int, limits: list[LimitState], now: Micros) -> tuple[int, Micros | None]:
    """How many of `wanted` jobs all these limits let through now, and when the next may come where that is known."""
    free, until = wanted, None
    for limit in limits:
        room, next_at = limit.free(now)
        if room is not None and room < free:
            free, until = room, next_at
        elif room is not None and room == free and next_at is not None:
            until = next_at
    return free, until


def tenant_limit(quota: Quota) -> Limit:
    """The limit `tenant/NAME` that a quota makes; unlimited where it says nothing of running jobs."""
    if quota.running is not None and quota.running < 1:
        raise InvalidError("running", "must be at least 1; pause the queues of a tenant that shall run nothing")
    return Limit(concurrency=quota.running)
