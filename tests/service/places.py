"""Where the verbs are spoken: over a store, and over HTTP to a server on one. Each place is empty, and its clock stands still.

Nothing runs there by itself: tests end jobs by hand, through the `scene` of the store behind the verbs.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import UNSET, json

from contract.backends import Fresh
from contract.scene import START, JumpingClock, Scene
from mainspring.access.audit import Actor
from mainspring.client.transport import Transport
from mainspring.client.verbs import Remote
from mainspring.core.options import JobOptions
from mainspring.core.partition import format_id, parse_id
from mainspring.objects.place import ObjectPlace
from mainspring.store.contract import KindRecord, Store
from mainspring.verbs.engine import Engine
from mainspring.verbs.faces import Verbs
from service.serving import api_over

ROOT = Actor("root", "test")
KINDS = {"send": JobOptions(queue="mail", tags=("post",)), "count": JobOptions()}


class Place:
    """`verbs`: as an administrator of all tenants. `local`: the same over the store itself, to compare with."""

    def __init__(self, scene: Scene, engine: Engine, remote: Remote | None = None) -> None:
        self.scene = scene
        self.engine = engine
        self._remote = remote

    def verbs(self, tenant: str | None = "default") -> Verbs:
        return self.local(tenant) if self._remote is None else self._remote.verbs(tenant)

    @property
    def remote(self) -> Remote:
        assert self._remote is not None
        return self._remote

    def local(self, tenant: str | None = "default") -> Verbs:
        return self.engine.verbs(tenant, ROOT)

    async def submit(self, kind: str = "send", tenant: str = "default", **options: Any) -> str:
        """Straight into the store, so that every place has the same."""
        queue = KINDS[kind].queue
        if queue is not UNSET:
            options.setdefault("queue", queue)
        (job,) = await self.scene.submit(kind=kind, tenant=tenant, **options)
        return format_id(job)

    async def complete(self, job: str, result: bytes | None = None) -> None:
        """Let a ready job be done, by a worker of its own."""
        session, key = await self.scene.session(), parse_id(job)
        (won,) = (await self.scene.assign(session, [key])).won
        assert await self.scene.settle(session, key, won.attempt + 1, "completed", result=result)

    async def fail(self, job: str) -> None:
        session, key = await self.scene.session(), parse_id(job)
        (won,) = (await self.scene.assign(session, [key])).won
        assert await self.scene.fail(session, key, won.attempt + 1)


@asynccontextmanager
async def opened(fresh: Fresh, name: str) -> AsyncIterator[Place]:
    """`name`: "store" or "http"."""
    clock = JumpingClock(START)
    with fresh() as backend:
        store = await backend.open(clock)
        await store.put_kinds([KindRecord(kind, json.encode(options)) for kind, options in KINDS.items()], {})
        scene = Scene(backend, store, clock)
        try:
            async with _at_server(scene, store) if name == "http" else _over(scene, store) as place:
                yield place
        finally:
            await store.close()


@asynccontextmanager
async def _over(scene: Scene, store: Store) -> AsyncIterator[Place]:
    engine = Engine(store, ObjectPlace("memory:///"))
    yield Place(scene, engine)
    engine.close()


@asynccontextmanager
async def _at_server(scene: Scene, store: Store) -> AsyncIterator[Place]:
    async with api_over(store) as (engine, serving):
        remote = Remote(Transport(serving.address, serving.first_key, retry_for_s=1.0))
        yield Place(scene, engine, remote)
        await remote.close()
