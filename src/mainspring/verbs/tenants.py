"""Tenants: made with a quota, changed, erased. For those who may act for all of them.

The tenant `default` is always there, made or not. What is done to tenants is in the record of the whole installation, not in their
own, which goes when one is erased.
"""

import math

from mainspring.access.audit import Actor
from mainspring.core.job import DEFAULT_TENANT
from mainspring.core.options import check_tenant
from mainspring.core.timer import from_micros
from mainspring.errors import ConflictError, InvalidError, NotFoundError
from mainspring.secrets.envelope import try_keys
from mainspring.store.contract import Store
from mainspring.store.service import Quota, TenantRecord
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine

MAX_QUOTA = 1_000_000_000
ERASE_CHUNK = 1000  # jobs in one transaction: others write between two


async def require_tenant(store: Store, name: str) -> None:
    """`NotFoundError` where there is none, `ConflictError` where it was erased."""
    found = await _find(store, name)
    if found is None and name != DEFAULT_TENANT:
        raise NotFoundError(f"there is no tenant {name!r}; make it with `mainspring tenants create`")
    if found is not None and found.erased_at is not None:
        raise ConflictError(f"tenant: {name!r} was erased, and its name is not given again")


async def _find(store: Store, name: str) -> TenantRecord | None:
    return next((tenant for tenant in await store.list_tenants() if tenant.name == name), None)


class LocalTenants:
    """The tenants of a store."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._store = engine.store
        self._audit = engine.audit
        self._keys = engine.keys
        self._actor = actor

    async def list(self) -> list[d.TenantDocument]:
        return [_document(tenant) for tenant in await self._store.list_tenants()]

    async def create(self, new: d.NewTenant) -> d.TenantDocument:
        name, quota = check_tenant("name", new.name), _quota("quota.", new.quota)
        found = await _find(self._store, name)
        if found is not None:
            gone = "was erased, and its name is not given again" if found.erased_at is not None else "is there already"
            raise ConflictError(f"name: the tenant {name!r} {gone}; use another name")
        made = _document(await self._put(name, quota))
        await self._audit.record(None, self._actor, "create_tenant", name, after=made.quota)
        return made

    async def set_quota(self, name: str, quota: d.Quota) -> d.TenantDocument:
        checked = _quota("", quota)
        await require_tenant(self._store, check_tenant("name", name))
        found = await _find(self._store, name)
        before = None if found is None else _document(found).quota
        made = _document(await self._put(name, checked))
        await self._audit.record(None, self._actor, "set_quota", name, before, made.quota)
        return made

    async def seal(self, name: str, sealed: bool) -> d.TenantDocument:
        await require_tenant(self._store, check_tenant("name", name))
        if sealed:
            try_keys(self._keys)
        if not await self._store.seal_tenant(name, sealed):
            raise ConflictError(f"tenant: {name!r} was erased meanwhile")
        await self._audit.record(None, self._actor, "seal_tenant", name, after={"sealed": sealed})
        found = await _find(self._store, name)
        if found is None:
            raise ConflictError(f"tenant: {name!r} was erased meanwhile")
        return _document(found)

    async def _put(self, name: str, quota: Quota) -> TenantRecord:
        now = self._store.clock.now()
        (stored,) = await self._store.put_tenants([TenantRecord(name, quota, now)])
        found = await _find(self._store, name)
        if not stored or found is None:
            raise ConflictError(f"tenant: {name!r} was erased meanwhile")
        return found

    async def erase(self, name: str) -> int:
        """Begins with the keys, so that nobody comes in while the rest goes. Repeated, it goes on where it stopped."""
        if check_tenant("name", name) == DEFAULT_TENANT:
            raise ConflictError("name: the default tenant stays, because requests that name no tenant mean it")
        found = await _find(self._store, name)
        if found is None:
            raise NotFoundError(f"there is no tenant {name!r}")
        await self._audit.record(None, self._actor, "erase_tenant", name, before=_document(found).quota)
        await self._store.revoke_keys([key.id for key in await self._store.list_keys(name)])
        jobs = chunk = await self._store.erase_tenant(name, ERASE_CHUNK)
        while chunk == ERASE_CHUNK:
            chunk = await self._store.erase_tenant(name, ERASE_CHUNK)
            jobs += chunk
        await self._audit.record(None, self._actor, "erase_tenant", name, after={"jobs": jobs})
        return jobs


def _quota(path: str, given: d.Quota) -> Quota:
    for name in ("queued", "running", "schedules"):
        value = getattr(given, name)
        if value is not None and (type(value) is not int or not 0 <= value <= MAX_QUOTA):
            raise InvalidError(path + name, f"expected a whole number from 0 to {MAX_QUOTA}, or null for no limit")
    return Quota(
        queued=given.queued,
        running=given.running,
        schedules=given.schedules,
        submits_per_s=check_rate(f"{path}submits_per_s", given.submits_per_s),
    )


def check_rate(field: str, rate: float | None) -> float | None:
    """So many per second; None: as many as they like."""
    if rate is None:
        return None
    if (
        isinstance(rate, bool)
        or not isinstance(rate, int | float)
        or not math.isfinite(rate)
        or not 0 < rate <= MAX_QUOTA
    ):
        raise InvalidError(field, f"expected a number above 0, up to {MAX_QUOTA}, or null for no limit")
    return float(rate)


def _document(tenant: TenantRecord) -> d.TenantDocument:
    quota = tenant.quota
    return d.TenantDocument(
        name=tenant.name,
        quota=d.Quota(
            queued=quota.queued, running=quota.running, schedules=quota.schedules, submits_per_s=quota.submits_per_s
        ),
        created_at=from_micros(tenant.created_at),
        erased_at=None if tenant.erased_at is None else from_micros(tenant.erased_at),
        sealed=tenant.sealed,
    )
