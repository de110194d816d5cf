"""Tenants and their quotas, and the end of one (see `store.service.Tenants`)."""

from collections.abc import Sequence

from msgspec import json

from mainspring.store.limits import tenant_limit
from mainspring.store.rows import tenant_of
from mainspring.store.service import Quota, TenantRecord
from mainspring.store.sqlite.catalog import put_limit
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.jobs import EVERY_BYTE, Array, array, unlock
from mainspring.store.sqlite.timers import PRUNED
from mainspring.store.sqlite.writer import Tx

_RELEASED = ("release_jobs", "release_cancels", "release_progress", "release_active")
_ERASED = (
    *("erase_schedules", "erase_missed", "erase_queues", "erase_limits", "erase_limit_states", "erase_lanes"),
    *("erase_sessions", "erase_templates", "erase_template_versions", "erase_shares", "erase_keys", "erase_audit"),
    "erase_secrets",
)


def put_tenants(tx: Tx, tenants: Sequence[TenantRecord]) -> list[bool]:
    tx.topics.add("tenant")
    return [_put(tx, tenant) for tenant in tenants]


def _put(tx: Tx, tenant: TenantRecord) -> bool:
    limit = tenant_limit(tenant.quota)
    tx.execute(Q["put_tenant"], (tenant.name, json.encode(tenant.quota), tenant.created_at))
    if tx.connection.changes() != 1:
        return False
    put_limit(tx, f"tenant/{tenant.name}", limit)
    return True


def seal_tenant(tx: Tx, name: str, sealed: bool) -> bool:
    tx.topics.add("tenant")
    tx.execute(Q["seal_tenant"], (name, json.encode(Quota()), tx.now, sealed))
    return tx.connection.changes() == 1


def list_tenants(connection: Reader) -> list[TenantRecord]:
    return [tenant_of(row) for row in connection.execute(Q["list_tenants"])]


def erase_tenant(tx: Tx, name: str, limit: int) -> int:
    tx.execute(Q["mark_erased"], (name, json.encode(Quota()), tx.now))
    jobs = [row[0] for row in tx.execute(Q["ended_jobs_of"], (name, limit))]
    if jobs:
        _erase_jobs(tx, array(jobs))
    others = [row[0] for row in tx.execute(Q["other_jobs_of"], (name, limit - len(jobs)))]
    if others:
        _erase_jobs(tx, array(others))
    if len(jobs) + len(others) < limit:
        _erase_rest(tx, name)
    return len(jobs) + len(others)


def _erase_jobs(tx: Tx, ids: Array) -> None:
    """With all that belongs to them. Those of others who waited for them wait no more."""
    tx.execute(Q["erase_children"], (ids,))
    unlock(tx, ids)
    tx.execute(Q["assigned_ready"], (ids, tx.partitions, EVERY_BYTE))
    tx.execute(Q["erase_timer"], (ids, tx.partitions, EVERY_BYTE))
    tx.execute(Q["erase_live"], (ids,))
    tx.execute(Q["erase_finished"], (ids,))
    tx.execute(Q["prune_expiry"], (ids, tx.partitions, EVERY_BYTE))
    for query in (*_RELEASED, *PRUNED):
        tx.execute(Q[query], (ids,))
    tx.topics.add("settled")  # what they held of limits is free


def _erase_rest(tx: Tx, name: str) -> None:
    """`0` is the character behind the slash, which no tenant's name has in it."""
    for query in _ERASED:
        wanted = (name, f"{name}/", f"{name}0")
        tx.execute(Q[query], wanted[: 3 if "?3" in Q[query] else 1])
    tx.topics |= {"tenant", "key", "secret", "queue", "schedule"}
