"""The next links of audit chains, made the same way by every store. Pure.

A store reads where the chains end, in the transaction that writes what it gets here: then no two records get one number.
"""

from collections.abc import Mapping, Sequence

from mainspring.core.chain import FIRST, digest_of, link
from mainspring.core.timer import Micros
from mainspring.store.service import AuditEntry

End = tuple[int, bytes]  # number and hash of a chain's last record

NOTHING: End = (0, FIRST)


def next_entries(contents: Sequence[tuple[str, bytes]], ends: Mapping[str, End], now: Micros) -> list[AuditEntry]:
    """The records (tenant, content) as links behind the ends of their chains; a tenant without an end has no chain yet."""
    last = dict(ends)
    entries = []
    for tenant, content in contents:
        number, before = last.get(tenant, NOTHING)
        digest = digest_of(content)
        hash_ = link(before, tenant, number + 1, now, digest)
        entries.append(AuditEntry(tenant, number + 1, now, content, digest, hash_))
        last[tenant] = (number + 1, hash_)
    return entries
