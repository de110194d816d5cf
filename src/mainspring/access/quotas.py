"""Quotas: how much a tenant may have at once, kept where things come in.

Jobs that wait are counted in the background, for at most `SHARE` of the time, because counting costs a step per waiting job. What
this server took in since the count began is added, so its own submits never exceed a quota; what other servers took in shows
with the next count. Jobs that started since the last count still seem to wait: a refusal may come a moment too early, and says
when to try again. Jobs that run are limited by the store as it assigns them, exactly.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

from mainspring.access.rates import Buckets
from mainspring.errors import ForbiddenError, InvalidError, LimitedError
from mainspring.runtime.service import Service
from mainspring.store.contract import Catalog, Hint, Schedules
from mainspring.store.service import Quota, TenantRecord, Tenants

SHARE = 0.05
LEAST_REST_S = 1.0
BURST_S = 10.0  # `submits_per_s` lets so many seconds' worth through at once
SCHEDULES_RETRY_S = 60.0  # a place for a schedule comes free when somebody deletes one, not with time

_NO_QUOTA = Quota()


class QuotaStore(Tenants, Catalog, Schedules, Protocol):
    """What quotas need of a store."""

    def subscribe(self, listener: Callable[[Hint], None]) -> Callable[[], None]: ...


class Quotas:
    """The tenants' quotas, and how much of them is used. Call `start` before the first `jobs`."""

    name = "quotas"

    def __init__(self, store: QuotaStore, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        self._tenants: dict[str, TenantRecord] = {}
        self._lanes: dict[int, str] = {}
        self._waiting: Counter[str] = Counter()  # at the last count
        self._since: Counter[str] = Counter()  # taken in since that count began
        self._coming: Counter[str] = Counter()  # being taken in now
        self._next_count_at = 0.0
        self._rates = Buckets()
        self._schedules = asyncio.Lock()
        self._service = Service(self)
        self._unsubscribe: Callable[[], None] | None = None

    async def start(self) -> None:
        self._unsubscribe = self._store.subscribe(self._hear)
        await self.run_once()
        self._service.start()

    async def stop(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        await self._service.stop()

    async def run_once(self) -> float | None:
        """Read the quotas, and count what waits if one of them asks for it; None: rest until a tenant changes."""
        self._tenants = {tenant.name: tenant for tenant in await self._store.list_tenants()}
        if all(tenant.quota.queued is None for tenant in self._tenants.values()):
            return None
        began = self._monotonic()
        await self._count()
        ended = self._monotonic()
        rest_s = max(LEAST_REST_S, (ended - began) * (1 / SHARE - 1))
        self._next_count_at = ended + rest_s
        return rest_s

    async def _count(self) -> None:
        before = self._since.copy()
        lanes = await self._store.count_waiting()
        unknown = [number for number in lanes if number not in self._lanes]
        found = await self._store.read_lanes(unknown) if unknown else {}
        names = self._lanes | {number: lane.tenant for number, lane in found.items()}
        self._lanes = {number: names[number] for number in lanes if number in names}
        self._waiting = Counter()
        for number, tenant in self._lanes.items():
            self._waiting[tenant] += lanes[number]
        self._since -= before  # what had been taken in when the count began is in it

    def _hear(self, hint: Hint) -> None:
        if hint.topic == "tenant":
            self._service.wake()

    @contextmanager
    def jobs(self, tenant: str, count: int) -> Iterator[None]:
        """Room for jobs that the block submits; `LimitedError` where there is none."""
        quota = self._quota(tenant)
        if quota.queued is not None:
            self._check_queued(tenant, count, quota.queued)
        if quota.submits_per_s is not None:
            self._check_rate(tenant, count, quota.submits_per_s)
        if quota.queued is None:
            yield
            return
        self._coming[tenant] += count
        try:
            yield
        finally:
            self._coming[tenant] -= count
            self._since[tenant] += count

    @asynccontextmanager
    async def schedules(self, tenant: str, count: int = 1) -> AsyncIterator[None]:
        """Room for schedules that the block creates; `LimitedError` where there is none."""
        most = self._quota(tenant).schedules
        if most is None:
            yield
            return
        async with self._schedules:  # else two that come together would both see the last free place
            there = len(await self._store.list_schedules(tenant))
            if there + count > most:
                problem = f"tenant {tenant!r} has {there} of {most} schedules; delete one, or ask for a higher quota"
                raise LimitedError("schedules", problem, SCHEDULES_RETRY_S)
            yield

    def _quota(self, tenant: str) -> Quota:
        found = self._tenants.get(tenant)
        if found is None:
            return _NO_QUOTA
        if found.erased_at is not None:
            raise ForbiddenError(f"tenant: {tenant!r} was erased; nothing can be added to it")
        return found.quota

    def _check_queued(self, tenant: str, count: int, most: int) -> None:
        _refuse_more_than(most, tenant, count)
        waiting = self._waiting[tenant] + self._since[tenant] + self._coming[tenant]
        if waiting + count > most:
            problem = f"{waiting} of the {most} jobs that tenant {tenant!r} may have waiting are there; try again later"
            raise LimitedError("queued", problem, max(0.1, self._next_count_at - self._monotonic()))

    def _check_rate(self, tenant: str, count: int, rate: float) -> None:
        burst = max(1.0, rate * BURST_S)
        _refuse_more_than(int(burst), tenant, count)
        wait_s = self._rates.take(tenant, rate, burst, self._monotonic(), count)
        if wait_s > 0:
            raise LimitedError("submits_per_s", f"tenant {tenant!r} may submit {rate:g} jobs per second", wait_s)


def _refuse_more_than(most: int, tenant: str, count: int) -> None:
    """What can never pass is not worth waiting for."""
    if count > most:
        raise InvalidError(
            "jobs", f"tenant {tenant!r} may never submit more than {most} at once, not {count}; split them"
        )
