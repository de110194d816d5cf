"""What ended in the past, by kind and period: from the store's tallies to means and percentiles. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from mainspring.core.timer import SECOND, Micros, from_micros
from mainspring.store.contract import Tally
from mainspring.verbs import documents as d

_DID_NOT_RUN = -1


def periods_of(tallies: Iterable[Tally], kind: str | None) -> list[d.Period]:
    """By time, then by kind; periods in which nothing ended are left out."""
    grouped: dict[tuple[Micros, str], list[Tally]] = defaultdict(list)
    for tally in tallies:
        if kind in (None, tally.kind):
            grouped[tally.from_at, tally.kind].append(tally)
    return [_period(name, from_at, grouped[from_at, name]) for from_at, name in sorted(grouped)]


def _period(kind: str, from_at: Micros, tallies: Sequence[Tally]) -> d.Period:
    ended: Counter[str] = Counter()
    for tally in tallies:
        ended[tally.state] += tally.count
    ran = [tally for tally in tallies if tally.bin != _DID_NOT_RUN]
    count = sum(tally.count for tally in ran) or 1
    return d.Period(
        kind=kind,
        from_at=from_micros(from_at),
        ended=dict(ended),
        mean_wait_s=sum(tally.wait for tally in ran) / count / SECOND,
        mean_run_s=sum(tally.run for tally in ran) / count / SECOND,
        p50_s=percentile_s(ran, 0.50),
        p95_s=percentile_s(ran, 0.95),
        p99_s=percentile_s(ran, 0.99),
    )


def percentile_s(ran: Sequence[Tally], share: float) -> float:
    """The running time that this share did not exceed: the middle of its bin, which is at most 10 % off; 0 where nothing ran."""
    wanted = share * sum(tally.count for tally in ran)
    seen = 0
    for tally in sorted(ran, key=lambda tally: tally.bin):
        seen += tally.count
        if seen >= wanted:
            return float(2 ** ((tally.bin + 0.5) / 4)) / SECOND
    return 0.0
