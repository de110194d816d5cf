"""How many jobs ended lately: a look that costs the same whatever the rate is."""

from collections import Counter

from mainspring.core.job import DEFAULT_TENANT
from mainspring.core.timer import SECOND
from mainspring.store.contract import Store

PERIOD_S = 60
_MOST_SEEN = 5000  # where more ended, these tell the rate


async def ended_per_s(store: Store, tenant: str | None) -> dict[str, float]:
    """By queue, over the last minute; where very many ended, over the first part of it."""
    since = store.clock.now() - PERIOD_S * SECOND
    ended = await store.list_ended(await tenants_meant(store, tenant), since, _MOST_SEEN)
    period_s: float = PERIOD_S
    if len(ended) == _MOST_SEEN:
        period_s = max(1, ended[-1].finished_at - since) / SECOND
    counted = Counter(job.queue for job in ended)
    return {queue: round(count / period_s, 3) for queue, count in counted.items()}


async def tenants_meant(store: Store, tenant: str | None) -> list[str]:
    """One, or all that anything is known of beside their jobs."""
    if tenant is not None:
        return [tenant]
    named = {record.name for record in await store.list_tenants() if record.erased_at is None}
    named |= {queue.tenant for queue in await store.list_queues()}
    named |= {schedule.tenant for schedule in await store.list_schedules()}
    return sorted(named | {DEFAULT_TENANT})
