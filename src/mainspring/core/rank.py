"""A ready job's place in the order, and its band.

The rank is a static number computed when the due time is known, so order costs nothing later. It is a time in Micros, and
smaller runs first: the due time minus one `BOOST` per priority step. Priority with ageing follows by itself: a job one
step lower overtakes newer ones once it has waited an hour longer. A deadline pulls the rank forward to the latest safe start
as if it were then of the highest priority. Ranks are comparable across bands, lanes and tenants.
"""

from enum import IntEnum

from mainspring.core.job import MAX_PRIORITY, MIN_PRIORITY
from mainspring.core.timer import HOUR, Micros

BOOST: Micros = HOUR
_MAX_BOOST = (MAX_PRIORITY - MIN_PRIORITY) * BOOST


class Band(IntEnum):
    """What overload may reduce or close, from the least to the most."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


def rank_of(due_at: Micros, priority: int, deadline_at: Micros | None = None, expected: Micros = 0) -> Micros:
    """`expected` is how long the job may take: its timeout where it has one."""
    rank = due_at - (priority - MIN_PRIORITY) * BOOST
    if deadline_at is None:
        return rank
    return min(rank, deadline_at - expected - _MAX_BOOST)


def band_of(priority: int, complexity: int) -> Band:
    """High: urgent, or ordinary and light. Low: unimportant, or ordinary and heavy. Medium: the rest."""
    weight = 2 * priority - complexity
    if weight >= 10:
        return Band.HIGH
    return Band.MEDIUM if weight >= 2 else Band.LOW
