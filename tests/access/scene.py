"""Short words for tests of access."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from mainspring.access.audit import Actor, actor_of
from mainspring.access.keys import Caller
from mainspring.access.roles import Role
from mainspring.store.contract import Store
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine

ROOT = Actor("root", "test")


class Watched:
    """A store that counts what it is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found
        counted: Callable[..., Any] = found

        def call(*arguments: Any, **named: Any) -> Any:
            self.asked[name] += 1
            return counted(*arguments, **named)

        return call


class Seconds:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def make_key(engine: Engine, role: str = "viewer", tenant: str = "default", **said: Any) -> d.KeyDocument:
    return await engine.verbs(None, ROOT).keys.create(d.NewKey(name="k", role=role, tenant=tenant, **said))


async def make_tenant(engine: Engine, name: str, **quota: Any) -> None:
    await engine.verbs(None, ROOT).tenants.create(d.NewTenant(name=name, quota=d.Quota(**quota)))


def bearer(key: d.KeyDocument) -> Actor:
    """Whoever uses this key."""
    return actor_of(Caller(key.id, key.name, Role(key.role), key.tenant), "10.0.0.1")


def text_of(key: d.KeyDocument) -> str:
    assert key.key is not None
    return key.key
