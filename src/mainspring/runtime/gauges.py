"""What the stages count and control reads. Plain numbers in one process; nothing here is durable."""

from msgspec import Struct


class Gauges(Struct):
    """Counters since the node started."""

    assigned: int = 0
    lost: int = 0  # assignments that lost their compare-and-set
    held: int = 0  # assignments that a limit held back
    settled: int = 0
    rejected: int = 0  # outcomes that were not current any more
    ripened: int = 0
    fired: int = 0
    rescued: int = 0
    pruned: int = 0
    removed: int = 0  # objects that nobody needs any more
