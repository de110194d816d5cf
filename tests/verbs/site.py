"""A store with an engine over it, and people who ask it things."""

from typing import Any

from msgspec import json

from contract.backends import Backend
from contract.scene import JumpingClock, Scene
from mainspring.access.audit import Actor
from mainspring.access.keys import make_key
from mainspring.access.roles import Role
from mainspring.client.transport import Transport
from mainspring.client.verbs import Remote
from mainspring.core.job import Limit
from mainspring.core.options import parse_options
from mainspring.core.partition import format_id
from mainspring.objects.place import ObjectPlace
from mainspring.store.contract import Store
from mainspring.store.service import ALL_TENANTS
from mainspring.verbs import documents as d
from mainspring.verbs.declaring import DeclaredKind, synchronise
from mainspring.verbs.engine import Engine
from mainspring.verbs.faces import Verbs
from mainspring.verbs.local import LocalVerbs
from service.serving import api_over

ALICE = Actor("alice", "test")
NOBODY = "00000000-0001-7002-8000-000000000003"  # the id of no job


class Site(Scene):
    """Kinds: `send` in queue mail with two retries, `work` without defaults."""

    def __init__(self, backend: Backend, store: Store, clock: JumpingClock) -> None:
        super().__init__(backend, store, clock)
        self.engine = Engine(store, ObjectPlace("memory:///"))

    async def start(self) -> None:
        send = DeclaredKind("send", parse_options(queue="mail", retries=2, tags=["post"]), Limit())
        await synchronise(self.store, [send, DeclaredKind("work", parse_options(), Limit())], [], [])

    async def stop(self) -> None:
        self.engine.close()

    def verbs(self, tenant: str | None = "default") -> Verbs:
        return self.local(tenant)

    def local(self, tenant: str | None = "default") -> LocalVerbs:
        """Over the store, wherever `verbs` are."""
        return self.engine.verbs(tenant, ALICE)

    async def send(self, tenant: str = "default", **options: Any) -> str:
        """The id of a new job."""
        jobs = self.verbs(tenant).jobs
        (made,) = await jobs.submit([await jobs.draft(d.SubmitRequest(kind="send", options=options))])
        return format_id(made.id)

    async def end(self, job: bytes, state: str = "completed", **settlement: Any) -> None:
        """Run a ready job to its end."""
        session = await self.session()
        await self.assign(session, [job])
        record = await self.record(job)
        assert await self.settle(session, job, record.attempt, state, **settlement)

    async def audited(self, tenant: str = "default") -> list[tuple[str, str]]:
        """What stands in the audit chain: actions and targets."""
        entries = await self.store.list_audit(tenant, after=0, limit=1000)
        contents = [json.decode(entry.content or b"{}") for entry in entries]
        assert all(content["actor"].startswith("alice") for content in contents)
        return [(content["action"], content["target"]) for content in contents]


class SiteAtServer(Site):
    """The same behind a server, which alice asks with her key."""

    async def start(self) -> None:
        await super().start()
        key, record = make_key("alice", Role.ADMIN, ALL_TENANTS, now=self.clock.now(), created_by="test")
        await self.store.insert_keys([record])
        self._api = api_over(self.store)
        self.engine.close()
        self.engine, serving = await self._api.__aenter__()
        self._remote = Remote(Transport(serving.address, key, retry_for_s=1.0))

    async def stop(self) -> None:
        await self._remote.close()
        await self._api.__aexit__(None, None, None)

    def verbs(self, tenant: str | None = "default") -> Verbs:
        return self._remote.verbs(ALL_TENANTS if tenant is None else tenant)
