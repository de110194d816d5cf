"""Secrets of tenants (see `faces.Secrets`): written, named, deleted, and never read back.

Values are sealed here, before they reach the store, and opened where jobs are handed to workers; no verb answers one, and no audit
record holds one.
"""

from collections.abc import Sequence

from mainspring.access.audit import Actor
from mainspring.core.job import DEFAULT_TENANT
from mainspring.core.options import check_name
from mainspring.core.secret import OBJECT_KEY, check_secret
from mainspring.core.timer import from_micros
from mainspring.errors import InvalidError, NotFoundError
from mainspring.secrets.envelope import required
from mainspring.secrets.rotation import rotate
from mainspring.store.service import SecretRecord
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine
from mainspring.verbs.tenants import require_tenant

_ADDRESSES = frozenset({"rotate"})  # which the API has another meaning for


class LocalSecrets:
    """Those of one tenant; where it is asked for all of them, a name is one of the default tenant."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._engine = engine
        self._store = engine.store
        self._tenant = tenant
        self._home = tenant or DEFAULT_TENANT
        self._actor = actor

    async def list(self) -> Sequence[d.SecretDocument]:
        found = await self._store.list_secrets(self._tenant)
        return [_document(secret) for secret in found if not secret.name.startswith(OBJECT_KEY)]

    async def set(self, name: str, value: str) -> d.SecretDocument:
        if check_name("name", name) in _ADDRESSES:
            raise InvalidError("name", f"{name!r} is a word of the API; use another name")
        key, sealed = self._engine.vault.seal(self._home, name, check_secret("value", value))
        await require_tenant(self._store, self._home)
        record = SecretRecord(
            tenant=self._home,
            name=name,
            key=key,
            sealed=sealed,
            changed_at=self._store.clock.now(),
            changed_by=self._actor.name,
        )
        await self._store.put_secrets([record])
        await self._note("set_secret", name, {"key": key})
        return _document(record)

    async def delete(self, name: str) -> None:
        if not await self._store.delete_secrets([(self._home, check_name("name", name))]):
            raise NotFoundError(f"there is no secret {name!r}; `mainspring secrets list` shows them")
        await self._note("delete_secret", name)

    async def rotate(self, after: str | None = None) -> d.RotationStep:
        keys = required(self._engine.keys)
        step = await rotate(self._store, keys, after)
        if after is None:
            await self._engine.audit.record(None, self._actor, "rotate_secrets", keys.current)
        return d.RotationStep(key=keys.current, changed=step.changed, unreadable=step.unreadable, next=step.next)

    async def _note(self, action: str, name: str, after: object = None) -> None:
        await self._engine.audit.record(self._home, self._actor, action, name, after=after)


def _document(secret: SecretRecord) -> d.SecretDocument:
    return d.SecretDocument(
        name=secret.name,
        tenant=secret.tenant,
        key=secret.key,
        changed_at=from_micros(secret.changed_at),
        changed_by=secret.changed_by,
    )
