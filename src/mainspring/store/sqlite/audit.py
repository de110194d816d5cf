"""Audit chains (see `store.service.Audit`). One writer appends at a time, so a chain's end is where it was read."""

from collections.abc import Sequence

from msgspec import structs

from mainspring.store.chains import NOTHING, next_entries
from mainspring.store.service import AuditEntry
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.writer import Tx


def append_audit(tx: Tx, contents: Sequence[tuple[str, bytes]]) -> None:
    tenants = {tenant for tenant, _ in contents}
    ends = {tenant: tx.execute(Q["last_audit"], (tenant,)).fetchone() or NOTHING for tenant in tenants}
    entries = next_entries(contents, ends, tx.now)
    tx.connection.executemany(Q["insert_audit"], [structs.astuple(entry) for entry in entries])


def list_audit(connection: Reader, tenant: str, after: int, limit: int) -> list[AuditEntry]:
    return [AuditEntry(*row) for row in connection.execute(Q["list_audit"], (tenant, after, limit))]
