"""Limits as users write them: `concurrency=5`, `rate="100/m"`."""

import re

from mainspring.core.job import Limit
from mainspring.core.options import whole_number
from mainspring.errors import InvalidError

_RATE = re.compile(r"(\d{1,9})/(s|m|h|d)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MAX_CONCURRENCY = 1_000_000


def parse_limit(concurrency: int | None, rate: str | None) -> Limit:
    """A rate of "100/m" lets 100 jobs start at once after a quiet minute, and 100 in any minute that follows a busy one."""
    if concurrency is not None:
        whole_number("concurrency", concurrency, 1, _MAX_CONCURRENCY)
    if rate is None:
        return Limit(concurrency)
    found = _RATE.fullmatch(rate) if isinstance(rate, str) else None
    if found is None or int(found[1]) == 0:
        raise InvalidError(
            "rate", f"expected a number above 0 per s, m, h or d, such as '10/s' or '100/m', got {rate!r}"
        )
    count = int(found[1])
    return Limit(concurrency, count / _SECONDS[found[2]], count)
