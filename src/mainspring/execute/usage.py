"""What attempts use, added up. Pure."""

from mainspring.wire import Usage


def together(one: Usage | None, other: Usage | None) -> Usage | None:
    """Of two parts of one attempt: sums, and the higher of the two peaks. What neither knows stays unknown."""
    if one is None or other is None:
        return one or other
    return Usage(
        cpu_s=one.cpu_s + other.cpu_s,
        peak_mb=max((peak for peak in (one.peak_mb, other.peak_mb) if peak is not None), default=None),
        read_bytes=_sum(one.read_bytes, other.read_bytes),
        written_bytes=_sum(one.written_bytes, other.written_bytes),
        received_bytes=_sum(one.received_bytes, other.received_bytes),
        sent_bytes=_sum(one.sent_bytes, other.sent_bytes),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other
