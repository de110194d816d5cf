"""Keys and join tokens: made, listed, revoked; the first key of an installation; the key of an enrolled worker.

Nobody makes a key with more rights than his own: only an administrator makes keys at all, for his own tenant, or for any with a
key of all tenants. Whoever has the store itself (`actor.caller` None) may make any. The key that asks cannot revoke itself, so
nobody locks himself out by a slip.
"""

from msgspec import structs

from mainspring.access.audit import Actor, AuditLog
from mainspring.access.keys import is_key_id, make_key
from mainspring.access.roles import Role
from mainspring.core.duration import parse_duration
from mainspring.core.options import check_name, check_tenant
from mainspring.core.timer import Micros, from_micros, seconds
from mainspring.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, UnknownKeyError
from mainspring.store.contract import Store
from mainspring.store.service import ALL_TENANTS, KeyRecord
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine
from mainspring.verbs.tenants import check_rate, require_tenant

FIRST_ID = "veryfirstkey"  # of the key that the first start makes: an id can be taken once, so two servers make one key
_MADE = "create_key"


class LocalKeys:
    """The keys of one tenant, or of all."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._store = engine.store
        self._audit = engine.audit
        self._tenant = tenant
        self._actor = actor

    async def list(self) -> list[d.KeyDocument]:
        return [_document(key) for key in await self._store.list_keys(self._tenant)]

    async def create(self, new: d.NewKey) -> d.KeyDocument:
        role = _role(new.role)
        rate = check_rate("requests_per_s", new.requests_per_s)
        return await self._make(_MADE, check_name("name", new.name), role, new.tenant, new.expires_in, rate)

    async def join_token(self, name: str, expires_in: str | float = "1h") -> d.KeyDocument:
        return await self._make("create_join_token", check_name("name", name), Role.JOIN, None, expires_in)

    async def _make(
        self,
        action: str,
        name: str,
        role: Role,
        wanted: str | None,
        expires_in: str | float | None,
        rate: float | None = None,
    ) -> d.KeyDocument:
        tenant = wanted if wanted is not None else self._tenant or ALL_TENANTS
        await self._check_grant(tenant)
        now = self._store.clock.now()
        expires_at = _expiry(expires_in, now)
        made_by = self._actor.name
        text, record = make_key(
            name, role, tenant, now=now, created_by=made_by, expires_at=expires_at, requests_per_s=rate
        )
        if not await self._store.insert_keys([record]):
            raise ConflictError("key: its random id is taken, which hardly ever happens; try again")
        document = _document(record)
        await self._audit.record(tenant, self._actor, action, record.id, after=document)
        return structs.replace(document, key=text)

    async def _check_grant(self, tenant: str) -> None:
        """May the actor make keys of this tenant?"""
        caller = self._actor.caller
        if caller is not None and caller.role is not Role.ADMIN:
            raise ForbiddenError(f"a key of role {caller.role} makes no keys; use one of role admin")
        if caller is not None and not caller.everywhere and caller.tenant != tenant:
            raise ForbiddenError(f"tenant: your key is one of {caller.tenant!r} and makes keys of that tenant only")
        if tenant != ALL_TENANTS:
            await require_tenant(self._store, check_tenant("tenant", tenant))

    async def revoke(self, key: str) -> None:
        found = (await self._store.read_keys([key]))[0] if is_key_id(key) else None
        if found is None or not self._reaches(found):
            raise NotFoundError(f"there is no key {key[:40]!a}; `mainspring keys list` shows the ids")
        if self._actor.caller is not None and self._actor.caller.key == key:
            raise ConflictError("key: this is the key you use; revoke it with another one")
        if await self._store.revoke_keys([key]):
            await self._audit.record(found.tenant, self._actor, "revoke_key", key, before=_document(found))

    def _reaches(self, key: KeyRecord) -> bool:
        """Keys of all tenants are in no tenant's list, but within reach of whoever may act for all."""
        if key.tenant == ALL_TENANTS:
            return self._actor.caller is None or self._actor.caller.everywhere
        return self._tenant in (None, key.tenant)


async def enrol(engine: Engine, token: Actor) -> d.KeyDocument:
    """Spend the join token that the actor came with: the key of a worker, once."""
    caller = token.caller
    if caller is None or caller.role is not Role.JOIN:
        raise ForbiddenError("only a join token enrols a worker; make one with `mainspring keys join-token`")
    now = engine.store.clock.now()
    text, record = make_key(caller.name, Role.WORKER, caller.tenant, now=now, created_by=token.name)
    if not await engine.store.insert_keys([record], spend=caller.key):
        raise UnknownKeyError("the join token has been used, was revoked or has expired; ask for another")
    document = _document(record)
    await engine.audit.record(caller.tenant, token, "enrol_worker", record.id, after=document)
    return structs.replace(document, key=text)


async def first_key(store: Store) -> str | None:
    """The text of an administrator's key of all tenants where there was no key at all; None where there was one, or where
    another server was first."""
    if await store.list_keys():
        return None
    text, record = make_key(
        "first", Role.ADMIN, ALL_TENANTS, now=store.clock.now(), created_by="first start", id=FIRST_ID
    )
    if not await store.insert_keys([record]):
        return None
    actor = Actor("first start", "server")
    await AuditLog(store).record(None, actor, _MADE, record.id, after=_document(record))
    return text


def _role(text: str) -> Role:
    known = [role for role in Role if role is not Role.JOIN]
    if text == Role.JOIN:
        raise InvalidError("role", "join is for join tokens; make one with `mainspring keys join-token`")
    if text not in known:
        raise InvalidError("role", f"{text[:40]!a} is no role; there are {', '.join(known)}")
    return Role(text)


def _expiry(expires_in: str | float | None, now: Micros) -> Micros | None:
    if expires_in is None:
        return None
    period_s = parse_duration("expires_in", expires_in)
    if period_s <= 0:
        raise InvalidError("expires_in", "must be longer than nothing")
    return now + seconds(period_s)


def _document(key: KeyRecord) -> d.KeyDocument:
    return d.KeyDocument(
        id=key.id,
        name=key.name,
        role=key.role,
        tenant=key.tenant,
        created_at=from_micros(key.created_at),
        created_by=key.created_by,
        requests_per_s=key.requests_per_s,
        expires_at=None if key.expires_at is None else from_micros(key.expires_at),
        revoked_at=None if key.revoked_at is None else from_micros(key.revoked_at),
    )
