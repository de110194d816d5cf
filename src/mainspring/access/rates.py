"""Token buckets: so much at once, so much per second. Time is an argument: seconds of any clock that only goes forward.

In every window of t seconds at most `burst + rate * t` pass under one name (I14). The number of buckets is bounded: where more
names than `most` are active, the one that was used longest ago is forgotten, and starts again with a full bucket.
"""

from mainspring.access.keys import Caller
from mainspring.errors import LimitedError

MOST = 10_000


class Buckets:
    """One bucket per name, made when it is first used, full."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._levels: dict[str, tuple[float, float]] = {}  # name -> what is in it, since when; longest unused first

    def take(self, name: str, rate: float, burst: float, now: float, count: float = 1.0) -> float:
        """Take `count`: 0.0, or how many seconds it takes until so much is there, and then nothing was taken.

        More than `burst` is never there; whoever allows such a count must refuse it himself.
        """
        level, at = self._levels.pop(name, (burst, now))
        level = min(burst, level + max(0.0, now - at) * rate)
        missing = count - level
        if missing <= 0:
            level -= count
        self._levels[name] = (level, now)
        if len(self._levels) > self._most:
            del self._levels[next(iter(self._levels))]
        return max(0.0, missing / rate)

    def __len__(self) -> int:
        return len(self._levels)


def limit_requests(buckets: Buckets, caller: Caller, now: float) -> None:
    """Count one request of a key that has a rate; bursts are a second's worth, and at least one."""
    rate = caller.requests_per_s
    if rate is None:
        return
    wait_s = buckets.take(caller.key, rate, max(1.0, rate), now)
    if wait_s > 0:
        raise LimitedError(
            "requests_per_s", f"the key {caller.key} may ask {rate:g} times per second; ask less often", wait_s
        )
