"""What jobs used in a time, summed by client and kind: in bounded steps, up to a bounded number of jobs."""

from collections.abc import Iterable, Sequence

from msgspec.structs import asdict, replace

from mainspring.core.timer import Micros, from_micros
from mainspring.store.contract import Store, UsageTally
from mainspring.store.usage import add_usage
from mainspring.verbs import documents as d

MAX_JOBS = 500_000  # looked at for one report
MAX_SUMS = 1000  # in one report
_STEP = 20_000

Counted = tuple[list[UsageTally], Micros]


async def usage_report(store: Store, tenants: Sequence[str], since: Micros, until: Micros, by: str) -> d.UsageReport:
    """Of these tenants; up to where all of them were looked at."""
    most = max(1, MAX_JOBS // max(1, len(tenants)))
    counted = {tenant: await _count(store, tenant, since, until, most) for tenant in tenants}
    reached = min((each for _, each in counted.values()), default=until)
    for tenant, (_, each) in counted.items():
        if each > reached:
            counted[tenant] = await _count(store, tenant, since, reached, most)
    groups = [(tenant, tally) for tenant, (tallies, _) in counted.items() for tally in _grouped(tallies, by)]
    groups.sort(key=lambda group: -group[1].cpu_s)
    total = _total(tally for _, tally in groups)
    return d.UsageReport(
        since=from_micros(since),
        until=from_micros(reached),
        total=_sum(None, total, ""),
        sums=[_sum(tenant, tally, by) for tenant, tally in groups[:MAX_SUMS]],
        more=max(0, len(groups) - MAX_SUMS),
    )


async def _count(store: Store, tenant: str, since: Micros, until: Micros, most: int) -> Counted:
    """About so many jobs."""
    found: list[UsageTally] = []
    jobs = 0
    while since < until and jobs < most:
        tallies, since = await store.tally_usage(tenant, since, until, min(_STEP, most))
        jobs += sum(tally.jobs for tally in tallies)
        found = add_usage([*found, *tallies])
    return found, since


def _grouped(tallies: Iterable[UsageTally], by: str) -> list[UsageTally]:
    if by == "client":
        return add_usage(replace(tally, kind="") for tally in tallies)
    if by == "kind":
        return add_usage(replace(tally, client=None) for tally in tallies)
    return list(tallies)


def _total(tallies: Iterable[UsageTally]) -> UsageTally:
    nothing = UsageTally(None, "", 0, 0, 0.0)
    (total,) = add_usage([nothing, *(replace(tally, client=None, kind="") for tally in tallies)])
    return total


def _sum(tenant: str | None, tally: UsageTally, by: str) -> d.UsageSum:
    fields = asdict(tally) | {"cpu_s": round(tally.cpu_s, 6), "kind": tally.kind if "kind" in by else None}
    return d.UsageSum(tenant=tenant, **fields)
