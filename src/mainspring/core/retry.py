"""When a failed job tries again: exponential backoff with full jitter.

Full jitter (a uniform draw between zero and the exponential bound) spreads the retries of jobs that failed together, so a
service that comes back is not met by all of them at once.
"""

from msgspec import Struct

_MAX_DOUBLINGS = 60  # beyond it, any cap has been reached


class Backoff(Struct, frozen=True):
    """`base_s` doubles with each failure up to `cap_s`; the wait is drawn below that bound."""

    base_s: float = 2.0
    cap_s: float = 3600.0

    def bound_s(self, failures: int) -> float:
        """The longest wait after this many failures (1 = the first)."""
        return min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))

    def delay_s(self, failures: int, random01: float) -> float:
        return self.bound_s(failures) * random01
