"""Keys, tenants, templates and audit through a real server: the verbs mean there what they mean over a store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainspring import App
from mainspring.core.template import Placeholder
from mainspring.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    LimitedError,
    NotFoundError,
    UnknownKeyError,
)
from mainspring.verbs import documents as d
from mainspring.verbs.faces import Verbs
from service.serving import Served, served
from service.shop import Shop

WELCOME = d.TemplateDefinition(
    kind="send", arguments={"to": {"$": "to"}, "count": 2}, placeholders={"to": Placeholder()}
)


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[Served]:
    async with served(Shop(f"sqlite:///{folder}/jobs.db").app, keys=True) as running:
        yield running


@asynccontextmanager
async def asking(server: Served, key: str | None, tenant: str | None = None) -> AsyncIterator[Verbs]:
    async with App(server.url, key=key) as app:
        yield app.verbs(tenant)


@pytest.fixture
async def root(server: Served) -> AsyncIterator[Verbs]:
    """Whoever has the first key."""
    async with asking(server, server.key) as verbs:
        yield verbs


async def make_key(root: Verbs, role: str, tenant: str) -> str:
    made = await root.keys.create(d.NewKey(name=f"{role} of {tenant}", role=role, tenant=tenant))
    assert made.key is not None
    return made.key


async def test_a_tenant_and_its_people(server: Served, root: Verbs) -> None:
    await root.tenants.create(d.NewTenant(name="acme", quota=d.Quota(schedules=1)))
    admin = await make_key(root, "admin", "acme")
    async with asking(server, admin) as ours:
        viewer = await ours.keys.create(d.NewKey(name="v", role="viewer"))
        assert {key.tenant for key in await ours.keys.list()} == {"acme"}
        for tenant in ("*", "default"):
            with pytest.raises(ForbiddenError):
                await ours.keys.create(d.NewKey(name="v", role="viewer", tenant=tenant))
        with pytest.raises(ForbiddenError):
            await ours.tenants.list()
        with pytest.raises(ConflictError, match="the key you use"):
            await ours.keys.revoke(admin.split("_")[1])
        async with asking(server, viewer.key) as watching:
            assert list(await watching.templates.list()) == []
            with pytest.raises(ForbiddenError):
                await watching.keys.list()
            with pytest.raises(ForbiddenError):
                await watching.templates.put("welcome", WELCOME)
            await ours.keys.revoke(viewer.id)
            with pytest.raises(UnknownKeyError):
                await watching.templates.list()
    async with asking(server, admin, "default") as elsewhere:
        with pytest.raises(ForbiddenError):
            await elsewhere.keys.list()


async def test_templates_from_put_to_submit(server: Served, root: Verbs) -> None:
    await root.tenants.create(d.NewTenant(name="acme"))
    made = await root.templates.put("welcome", WELCOME)
    assert (made.version, made.definition) == (1, WELCOME)
    job = await root.templates.submit("welcome", d.TemplateSubmit(values={"to": "{to}"}))
    end = await root.jobs.wait(job.id)
    assert bytes(end.result) == b'"{to} x2"'
    with pytest.raises(InvalidError) as caught:
        await root.templates.submit("welcome", d.TemplateSubmit(values={"to": 1}))
    assert caught.value.field == "values.to"
    async with asking(server, await make_key(root, "submitter", "acme")) as theirs:
        with pytest.raises(NotFoundError):
            await theirs.templates.submit("welcome", d.TemplateSubmit(values={"to": "a"}, owner="default"))
        await root.templates.share("welcome", ["acme"])
        shared = await theirs.templates.submit("welcome", d.TemplateSubmit(values={"to": "a"}, owner="default"))
        assert (await theirs.jobs.read(shared.id)).tenant == "acme"
    async with asking(server, server.key, "default") as ours:
        with pytest.raises(NotFoundError):
            await ours.jobs.read(shared.id)
    assert (await root.templates.export()).templates == {"welcome": WELCOME}


async def test_quotas_answer_with_when_to_try_again(server: Served, root: Verbs) -> None:
    await root.tenants.create(d.NewTenant(name="acme", quota=d.Quota(submits_per_s=0.001)))
    async with asking(server, await make_key(root, "submitter", "acme")) as ours:
        refusal = await first_refusal(ours)
    assert refusal.field == "submits_per_s"
    assert refusal.retry_after_s > 100


async def first_refusal(verbs: Verbs) -> LimitedError:
    """The server hears of a quota by a hint, perhaps after a first job."""
    draft = await verbs.jobs.draft(d.SubmitRequest(kind="send", arguments={"to": "a"}))
    for _ in range(100):
        try:
            await verbs.jobs.submit([draft])
        except LimitedError as error:
            return error
    raise AssertionError("a hundred jobs were let in")


async def test_the_audit_tells_and_survives_an_erasure(server: Served, root: Verbs) -> None:
    await root.tenants.create(d.NewTenant(name="acme"))
    admin = await make_key(root, "admin", "acme")
    async with asking(server, admin) as ours:
        await ours.templates.put("welcome", WELCOME)
        told = await ours.audit.list()
        assert [record.action for record in told] == ["create_key", "put_template"]
        assert told[1].actor is not None
        assert told[1].actor.startswith("admin of acme (")
        assert told[1].origin == "127.0.0.1"
        assert await root.tenants.erase("acme") == 0
        with pytest.raises(UnknownKeyError):
            await ours.audit.list()
    async with asking(server, server.key, "acme") as theirs:
        assert {record.actor for record in await theirs.audit.list()} == {None}
        assert await theirs.audit.verify() == d.Verification(tenant="acme", records=2, broken_at=None)
    async with asking(server, server.key, "*") as everywhere:
        actions = [record.action for record in await everywhere.audit.list()]
        assert actions[:4] == ["create_key", "create_tenant", "erase_tenant", "erase_tenant"]
