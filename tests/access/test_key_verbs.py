"""Keys as people make and revoke them: nobody gets more than he has, and nobody locks himself out."""

import asyncio

import pytest
from msgspec import json

from access.scene import ROOT, bearer, make_key, make_tenant, text_of
from contract.backends import Fresh
from mainspring.access.audit import Actor
from mainspring.access.keys import Keyring
from mainspring.access.roles import Role
from mainspring.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, UnknownKeyError
from mainspring.objects.place import ObjectPlace
from mainspring.runtime.clock import ManualClock
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine
from mainspring.verbs.keys import enrol, first_key
from mainspring.verbs.local import LocalVerbs


async def test_the_secret_is_shown_once_and_the_key_works(engine: Engine, verbs: LocalVerbs) -> None:
    made = await verbs.keys.create(d.NewKey(name="ci", role="submitter", requests_per_s=5))
    assert (made.name, made.role, made.tenant, made.created_by) == ("ci", "submitter", "default", "root")
    caller = await Keyring(engine.store).identify(text_of(made))
    assert (caller.key, caller.role, caller.tenant) == (made.id, Role.SUBMITTER, "default")
    (listed,) = await verbs.keys.list()
    assert listed.key is None
    assert text_of(made)[-43:] not in json.encode([listed, await verbs.audit.list()]).decode()
    (note,) = await verbs.audit.list()
    assert (note.action, note.target, note.actor) == ("create_key", made.id, "root")


async def test_a_key_that_expires(engine: Engine, verbs: LocalVerbs, clock: ManualClock) -> None:
    made = await verbs.keys.create(d.NewKey(name="ci", role="viewer", expires_in="90d"))
    assert made.expires_at is not None
    assert (made.expires_at - made.created_at).days == 90
    clock.advance(90 * 86_400)
    with pytest.raises(UnknownKeyError):
        await Keyring(engine.store).identify(text_of(made))


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"role": "owner"}, "role"),
        ({"role": "join"}, "role"),
        ({"role": "Admin"}, "role"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"expires_in": "0s"}, "expires_in"),
        ({"expires_in": "soon"}, "expires_in"),
        ({"requests_per_s": 0}, "requests_per_s"),
        ({"requests_per_s": -1.0}, "requests_per_s"),
        ({"requests_per_s": float("nan")}, "requests_per_s"),
        ({"requests_per_s": True}, "requests_per_s"),
        ({"tenant": "a/b"}, "tenant"),
        ({"tenant": ""}, "tenant"),
    ],
)
async def test_what_is_wrong_is_named(verbs: LocalVerbs, said: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        await verbs.keys.create(d.NewKey(**{"name": "ci", "role": "viewer"} | said))  # type: ignore[arg-type]
    assert caught.value.field == field
    assert await verbs.keys.list() == []


async def test_tenants_must_be_there(engine: Engine, verbs: LocalVerbs) -> None:
    with pytest.raises(NotFoundError, match="no tenant 'acme'"):
        await verbs.keys.create(d.NewKey(name="ci", role="viewer", tenant="acme"))
    await make_tenant(engine, "acme")
    assert (await make_key(engine, tenant="acme")).tenant == "acme"
    await verbs.tenants.erase("acme")
    with pytest.raises(ConflictError, match="was erased"):
        await verbs.keys.create(d.NewKey(name="ci", role="viewer", tenant="acme"))


async def test_an_admin_makes_keys_of_his_tenant_only(engine: Engine) -> None:
    await make_tenant(engine, "acme")
    await make_tenant(engine, "other")
    admin = engine.verbs("acme", bearer(await make_key(engine, "admin", "acme"))).keys
    assert (await admin.create(d.NewKey(name="x", role="worker"))).tenant == "acme"
    assert (await admin.create(d.NewKey(name="x", role="admin", tenant="acme"))).tenant == "acme"
    assert (await admin.join_token("x")).tenant == "acme"
    for tenant in ("other", "default", "*", "nobody"):
        with pytest.raises(ForbiddenError, match="makes keys of that tenant only"):
            await admin.create(d.NewKey(name="x", role="viewer", tenant=tenant))


async def test_an_admin_of_all_tenants_makes_keys_of_each(engine: Engine) -> None:
    await make_tenant(engine, "acme")
    actor = bearer(await make_key(engine, "admin", "*"))
    for tenant in ("acme", "default", "*"):
        assert (
            await engine.verbs("default", actor).keys.create(d.NewKey(name="x", role="admin", tenant=tenant))
        ).tenant == tenant
    assert (await engine.verbs("acme", actor).keys.create(d.NewKey(name="x", role="viewer"))).tenant == "acme"
    assert (await engine.verbs(None, actor).keys.create(d.NewKey(name="x", role="viewer"))).tenant == "*"


@pytest.mark.parametrize("role", [role for role in Role if role not in (Role.ADMIN, Role.JOIN)])
@pytest.mark.parametrize("tenant", ["default", "*"])
async def test_nobody_else_makes_keys(engine: Engine, role: Role, tenant: str) -> None:
    verbs = engine.verbs("default", bearer(await make_key(engine, role, tenant)))
    with pytest.raises(ForbiddenError):
        await verbs.keys.create(d.NewKey(name="x", role="viewer"))
    with pytest.raises(ForbiddenError):
        await verbs.keys.join_token("x")
    assert len(await engine.store.list_keys()) == 1


async def test_keys_of_other_tenants_do_not_exist(engine: Engine) -> None:
    await make_tenant(engine, "acme")
    theirs, instance = await make_key(engine), await make_key(engine, "admin", "*")
    actor = bearer(await make_key(engine, "admin", "acme"))
    ours = engine.verbs("acme", actor).keys
    assert [key.tenant for key in await ours.list()] == ["acme"]
    for key in (theirs.id, instance.id, "aaaaaaaaaaaa", "", "\ud800", "x\0", "A" * 12):
        with pytest.raises(NotFoundError):
            await ours.revoke(key)
    assert all(key.revoked_at is None for key in await engine.store.list_keys())


async def test_revoking_ends_a_key_once(engine: Engine, verbs: LocalVerbs) -> None:
    keyring, key = Keyring(engine.store), await make_key(engine)
    await keyring.identify(text_of(key))
    await verbs.keys.revoke(key.id)
    await verbs.keys.revoke(key.id)
    with pytest.raises(UnknownKeyError):
        await keyring.identify(text_of(key))
    assert [note.action for note in await verbs.audit.list()] == ["create_key", "revoke_key"]
    assert (await verbs.keys.list())[0].revoked_at is not None


async def test_the_key_in_use_cannot_revoke_itself(engine: Engine) -> None:
    key, other = await make_key(engine, "admin", "*"), await make_key(engine, "admin", "*")
    verbs = engine.verbs("default", bearer(key))
    with pytest.raises(ConflictError, match="the key you use"):
        await verbs.keys.revoke(key.id)
    await verbs.keys.revoke(other.id)


async def test_a_join_token_enrols_one_worker(engine: Engine, verbs: LocalVerbs) -> None:
    token = await verbs.keys.join_token("build-7")
    assert (token.role, token.expires_at is not None) == ("join", True)
    made = await asyncio.gather(*(enrol(engine, bearer(token)) for _ in range(5)), return_exceptions=True)
    (key,) = [answer for answer in made if isinstance(answer, d.KeyDocument)]
    assert [type(answer) for answer in made].count(UnknownKeyError) == 4
    caller = await Keyring(engine.store).identify(text_of(key))
    assert (caller.role, caller.tenant, caller.name) == (Role.WORKER, "default", "build-7")
    with pytest.raises(UnknownKeyError):
        await Keyring(engine.store).identify(text_of(token))
    assert [note.action for note in await verbs.audit.list()] == ["create_join_token", "enrol_worker"]


async def test_an_expired_or_revoked_token_enrols_nobody(engine: Engine, verbs: LocalVerbs, clock: ManualClock) -> None:
    expired, revoked = await verbs.keys.join_token("a"), await verbs.keys.join_token("b", "2d")
    clock.advance(3600)
    await verbs.keys.revoke(revoked.id)
    for token in (expired, revoked):
        with pytest.raises(UnknownKeyError):
            await enrol(engine, bearer(token))
    assert {key.role for key in await verbs.keys.list()} == {"join"}


@pytest.mark.parametrize("role", ["admin", "worker"])
async def test_only_join_tokens_enrol(engine: Engine, role: str) -> None:
    with pytest.raises(ForbiddenError):
        await enrol(engine, bearer(await make_key(engine, role)))
    with pytest.raises(ForbiddenError):
        await enrol(engine, ROOT)


async def test_the_first_start_makes_one_key_whoever_starts_with_it(fresh: Fresh, clock: ManualClock) -> None:
    with fresh() as backend:
        stores = [await backend.open(clock) for _ in range(3)]
        texts = await asyncio.gather(*(first_key(store) for store in stores))
        (text,) = [text for text in texts if text is not None]
        caller = await Keyring(stores[0]).identify(text)
        assert (caller.role, caller.everywhere) == (Role.ADMIN, True)
        assert await first_key(stores[1]) is None
        (note,) = await Engine(stores[0], ObjectPlace("memory:///")).verbs(None, Actor("x", "y")).audit.list()
        assert (note.action, note.target) == ("create_key", caller.key)
        for store in stores:
            await store.close()


async def test_there_is_no_first_key_where_there_was_one(engine: Engine) -> None:
    key = await make_key(engine)
    await engine.store.revoke_keys([key.id])
    assert await first_key(engine.store) is None
