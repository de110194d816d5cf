"""The record of what people did, read and verified. Of all tenants (None): what concerns the whole installation."""

from msgspec import MsgspecError, Raw, Struct, json

from mainspring.access.audit import Actor
from mainspring.core.chain import Checked, verify
from mainspring.core.options import whole_number
from mainspring.core.timer import from_micros
from mainspring.store.service import ALL_TENANTS, AuditEntry
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine

MAX_PAGE = 1000
_MAX_NUMBER = 2**62


class _Content(Struct, frozen=True):
    """`access.audit.AuditContent`, with what was changed unread."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    origin: str | None = None
    before: Raw = Raw(b"null")
    after: Raw = Raw(b"null")


_decode = json.Decoder(_Content).decode


class LocalAudit:
    """The chain of one tenant."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._store = engine.store
        self._tenant = tenant or ALL_TENANTS

    async def list(self, *, after: int = 0, limit: int = 100) -> list[d.AuditDocument]:
        whole_number("after", after, 0, _MAX_NUMBER)
        whole_number("limit", limit, 1, MAX_PAGE)
        return [_document(entry) for entry in await self._store.list_audit(self._tenant, after=after, limit=limit)]

    async def verify(self) -> d.Verification:
        """Page by page; a record that is added meanwhile may or may not be among them."""
        erased = {tenant.name for tenant in await self._store.list_tenants() if tenant.erased_at is not None}
        checked = Checked()
        while entries := await self._store.list_audit(self._tenant, after=checked.number, limit=MAX_PAGE):
            checked = verify(self._tenant, entries, after=checked, erased=self._tenant in erased)
            if checked.broken_at is not None:
                break
        return d.Verification(tenant=self._tenant, records=checked.number, broken_at=checked.broken_at)


def _document(entry: AuditEntry) -> d.AuditDocument:
    content = _content(entry.content)
    return d.AuditDocument(
        tenant=entry.tenant,
        number=entry.number,
        at=from_micros(entry.at),
        digest=entry.digest.hex(),
        hash=entry.hash.hex(),
        actor=content.actor,
        action=content.action,
        target=content.target,
        origin=content.origin,
        before=content.before,
        after=content.after,
    )


def _content(data: bytes | None) -> _Content:
    if data is None:
        return _Content()
    try:
        return _decode(data)
    except MsgspecError:  # somebody wrote to the database; `verify` will say so
        return _Content(action="unreadable")
