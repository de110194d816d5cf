"""Sums of what attempts used, as every store makes them. Pure."""

from collections.abc import Iterable

from msgspec.structs import replace

from mainspring.core.timer import Micros
from mainspring.store.contract import UsageTally

_SUMMED = ("jobs", "attempts", "cpu_s", "read_bytes", "written_bytes", "received_bytes", "sent_bytes")


def add_usage(tallies: Iterable[UsageTally]) -> list[UsageTally]:
    """One for each client and kind, by their names."""
    sums: dict[tuple[str, str], UsageTally] = {}
    for tally in tallies:
        key = (tally.client or "", tally.kind)
        sums[key] = _sum(sums[key], tally) if key in sums else tally
    return [sums[key] for key in sorted(sums)]


def _sum(one: UsageTally, other: UsageTally) -> UsageTally:
    added = {name: _added(getattr(one, name), getattr(other, name)) for name in _SUMMED}
    peaks = [peak for peak in (one.peak_mb, other.peak_mb) if peak is not None]
    return replace(one, **added, peak_mb=max(peaks, default=None))


def _added(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def usage_until(since: Micros, until: Micros, cuts: Iterable[Micros | None]) -> Micros:
    """Where a step ends that goes no further than these; what ended at one time is in one step, so each goes on by something."""
    nearest = min((cut for cut in cuts if cut is not None), default=until)
    return max(nearest, min(since + 1, until))
