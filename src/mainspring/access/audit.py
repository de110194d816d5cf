"""The record of what people did: who, what, to what, from where, before and after.

Records of a tenant form a chain (`core.chain`); what concerns all tenants is in the chain of ALL_TENANTS. A record is durable when
`record` returns. Records that arrive while one append is under way go together into the next, so many actors share commits.
Secrets of keys never get in, whatever a caller hands over.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, json

from mainspring.access.gathering import Gathering
from mainspring.access.keys import Caller, without_secrets
from mainspring.store.service import ALL_TENANTS, Audit

_RECORDS_PER_APPEND = 500


class Actor(Struct, frozen=True):
    """Who does something, and from where ("cli", "app", an address). `caller` None: somebody who has the store itself, and so may
    do everything."""

    name: str
    origin: str
    caller: Caller | None = None


class AuditContent(Struct, frozen=True):
    """What a record says. `before` and `after`: what was changed, as it is shown; None where there is nothing to show."""

    actor: str
    action: str
    target: str
    origin: str
    before: Any = None
    after: Any = None


def actor_of(caller: Caller, origin: str) -> Actor:
    """A caller as he stands in the record: by the name and the id of his key."""
    return Actor(f"{caller.name} ({caller.key})", origin, caller)


class AuditLog:
    """Appends records, in the order in which they came."""

    def __init__(self, store: Audit) -> None:
        self._store = store
        self._appending = Gathering(self._append, _RECORDS_PER_APPEND)

    async def record(
        self, tenant: str | None, actor: Actor, action: str, target: str, before: object = None, after: object = None
    ) -> None:
        """`tenant` None: it concerns all of them. `before` and `after`: anything that is JSON, documents too."""
        content = AuditContent(actor.name, action, target, actor.origin, before, after)
        await self._appending.ask((tenant or ALL_TENANTS, without_secrets(json.encode(content))))

    async def _append(self, contents: Sequence[tuple[str, bytes]]) -> Sequence[None]:
        await self._store.append_audit(contents)
        return [None] * len(contents)
