"""Audit chains (see `store.service.Audit`). Appends to one chain come one after the other: each waits for the lock of its chain."""

from collections.abc import Sequence

from msgspec import structs

from mainspring.store.chains import next_entries
from mainspring.store.postgres.database import Tx
from mainspring.store.service import AuditEntry


async def append_audit(tx: Tx, contents: Sequence[tuple[str, bytes]]) -> None:
    """The ends are read in a statement of their own: those that were appended while we waited are among them."""
    tenants = sorted({tenant for tenant, _ in contents})
    if not tenants:
        return
    await tx.fetch("lock_chains", [f"mainspring {tx.q.schema} audit {tenant}" for tenant in tenants])
    rows = await tx.fetch("chain_ends", tenants)
    ends = {tenant: (number, hash_) for tenant, number, hash_, _ in rows}
    now = max([tx.now, *(at for *_, at in rows)])  # who waited for longer than others is not written down as earlier
    entries = next_entries(contents, ends, now)
    await tx.fetch("append_audit", *map(list, zip(*map(structs.astuple, entries), strict=True)))


async def list_audit(tx: Tx, tenant: str, after: int, limit: int) -> list[AuditEntry]:
    return [AuditEntry(*row) for row in await tx.fetch("list_audit", tenant, after, limit)]
