"""Tenants: made, changed, erased."""

import pytest
from msgspec import json

from access.scene import ROOT, make_key, make_tenant, text_of
from contract.scene import make_batch
from mainspring.access.keys import Keyring
from mainspring.errors import ConflictError, InvalidError, NotFoundError, UnknownKeyError
from mainspring.store.contract import JobFilter
from mainspring.verbs import documents as d
from mainspring.verbs import tenants
from mainspring.verbs.engine import Engine
from mainspring.verbs.local import LocalVerbs


async def test_made_listed_changed(engine: Engine, verbs: LocalVerbs) -> None:
    made = await verbs.tenants.create(d.NewTenant(name="acme", quota=d.Quota(queued=5, submits_per_s=0.5)))
    assert (made.name, made.quota, made.erased_at) == ("acme", d.Quota(queued=5, submits_per_s=0.5), None)
    changed = await verbs.tenants.set_quota("acme", d.Quota(running=2))
    assert (changed.quota, changed.created_at) == (d.Quota(running=2), made.created_at)
    assert await verbs.tenants.list() == [changed]
    limit = (await engine.store.list_limits())["tenant/acme"]
    assert limit.concurrency == 2
    create, change = await engine.verbs(None, ROOT).audit.list()
    assert (create.action, change.action, change.target) == ("create_tenant", "set_quota", "acme")
    assert json.decode(change.before) == {"queued": 5, "running": None, "schedules": None, "submits_per_s": 0.5}


async def test_the_default_tenant_is_there_and_stays(verbs: LocalVerbs) -> None:
    assert (await verbs.tenants.set_quota("default", d.Quota(queued=5))).quota.queued == 5
    with pytest.raises(ConflictError, match="default tenant stays"):
        await verbs.tenants.erase("default")


async def test_a_name_is_given_once(verbs: LocalVerbs) -> None:
    await verbs.tenants.create(d.NewTenant(name="acme"))
    with pytest.raises(ConflictError, match="there already"):
        await verbs.tenants.create(d.NewTenant(name="acme"))
    await verbs.tenants.erase("acme")
    with pytest.raises(ConflictError, match="was erased"):
        await verbs.tenants.create(d.NewTenant(name="acme"))
    with pytest.raises(ConflictError, match="was erased"):
        await verbs.tenants.set_quota("acme", d.Quota())


async def test_unknown_tenants(verbs: LocalVerbs) -> None:
    with pytest.raises(NotFoundError):
        await verbs.tenants.set_quota("acme", d.Quota())
    with pytest.raises(NotFoundError):
        await verbs.tenants.erase("acme")
    assert await verbs.tenants.list() == []


@pytest.mark.parametrize("name", ["", "*", "a/b", "a\nb", "x" * 201])
async def test_names_that_are_none(verbs: LocalVerbs, name: str) -> None:
    with pytest.raises(InvalidError) as caught:
        await verbs.tenants.create(d.NewTenant(name=name))
    assert caught.value.field == "name"


@pytest.mark.parametrize(
    ("field", "value"),
    [("queued", -1), ("running", True), ("schedules", 2**40), ("submits_per_s", 0), ("submits_per_s", float("inf"))],
)
async def test_quotas_that_are_none(verbs: LocalVerbs, field: str, value: float) -> None:
    quota = d.Quota(**{field: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidError) as caught:
        await verbs.tenants.create(d.NewTenant(name="acme", quota=quota))
    assert caught.value.field == f"quota.{field}"
    with pytest.raises(InvalidError) as caught:
        await verbs.tenants.set_quota("default", quota)
    assert caught.value.field == field


async def test_erasing_takes_everything_but_the_hashes(
    engine: Engine, verbs: LocalVerbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "ERASE_CHUNK", 3)
    await make_tenant(engine, "acme")
    key, keyring = await make_key(engine, tenant="acme"), Keyring(engine.store)
    await keyring.identify(text_of(key))
    theirs = engine.verbs("acme", ROOT)
    await theirs.templates.put("t", d.TemplateDefinition(kind="send"))
    for tenant in ("acme", "default"):
        batch, lane = make_batch(engine.store.clock.now(), arguments=[b"{}"] * 7, tenant=tenant)
        await engine.store.insert_jobs([batch], [lane])
    assert await verbs.tenants.erase("acme") == 7
    with pytest.raises(UnknownKeyError):
        await keyring.identify(text_of(key))
    assert (await theirs.templates.list(), await theirs.keys.list()) == ([], [])
    left = await engine.store.list_jobs(JobFilter(), before=None, limit=100)
    assert {job.tenant for job in left} == {"default"}
    assert len(left) == 7
    notes = await theirs.audit.list()
    assert len(notes) == 2
    assert {(note.actor, note.action, bytes(note.before), bytes(note.after)) for note in notes} == {
        (None, None, b"null", b"null")
    }
    assert (await theirs.audit.verify()).broken_at is None
    *_, begun, ended = await engine.verbs(None, ROOT).audit.list()
    assert (begun.action, ended.action) == ("erase_tenant", "erase_tenant")
    assert json.decode(ended.after) == {"jobs": 7}
    assert await verbs.tenants.erase("acme") == 0  # again: it goes on where it stopped, and here nothing is left
