"""Secrets, and the change of what is sealed while everything else goes on."""

import asyncio

import pytest
from msgspec import structs

from contract.scene import START, Heard, Scene
from mainspring.core.secret import SEALED
from mainspring.store.service import Quota, SealedIn, SealedRow, SecretRecord, TenantRecord

OLD, NEW = SEALED + b"1:old:", SEALED + b"1:new:"


def secret(name: str, tenant: str = "acme", *, key: str = "old", value: bytes = b"x") -> SecretRecord:
    sealed = SEALED + b"1:" + key.encode() + b":" + value
    return SecretRecord(tenant=tenant, name=name, key=key, sealed=sealed, changed_at=START, changed_by="somebody")


async def all_sealed(scene: Scene, where: SealedIn, mark: bytes = NEW, limit: int = 2) -> list[SealedRow]:
    """Page by page."""
    found: list[SealedRow] = []
    after: str | None = ""
    while after is not None:
        page, after = await scene.store.list_sealed(where, mark, after, limit)
        assert len(page) <= limit
        found += page
    return found


async def test_a_secret_is_read_as_it_was_put(scene: Scene) -> None:
    heard = Heard(scene.store)
    await scene.store.put_secrets([secret("one"), secret("two"), secret("one", "beta", value=b"other")])
    assert len(heard.take("secret")) == 1
    wanted = [("beta", "one"), ("acme", "none"), ("acme", "two"), ("beta", "two")]
    other = secret("one", "beta", value=b"other")
    assert await scene.store.read_secrets(wanted) == [other, None, secret("two"), None]
    assert await scene.store.read_secrets([]) == []


async def test_putting_again_replaces(scene: Scene) -> None:
    await scene.store.put_secrets([secret("one")])
    fresh = structs.replace(secret("one", key="new"), changed_at=START + 5, changed_by="another")
    await scene.store.put_secrets([secret("one", value=b"between"), fresh])
    assert await scene.store.list_secrets() == [fresh]


async def test_secrets_are_listed_by_name_of_one_tenant_or_of_all(scene: Scene) -> None:
    made = [secret("b"), secret("a"), secret("Z"), secret("a", "beta")]
    await scene.store.put_secrets(made)
    assert [found.name for found in await scene.store.list_secrets("acme")] == ["Z", "a", "b"]
    assert len(await scene.store.list_secrets()) == 4
    assert await scene.store.list_secrets("nobody") == []


async def test_deleting_touches_nothing_of_others(scene: Scene) -> None:
    await scene.store.put_secrets([secret("one"), secret("one", "beta"), secret("two")])
    heard = Heard(scene.store)
    assert await scene.store.delete_secrets([("acme", "one"), ("acme", "none"), ("beta", "two")]) == 1
    assert len(heard.take("secret")) == 1
    assert await scene.store.list_secrets() == [secret("two"), secret("one", "beta")]


async def test_sealed_secrets_are_found_page_by_page(scene: Scene) -> None:
    names = ["a", "b/c", "ä", "z"]
    await scene.store.put_secrets([secret(name) for name in names] + [secret("m", key="new"), secret("a", "beta")])
    found = await all_sealed(scene, "secret", limit=2)
    assert [row.place for row in found] == ["acme/a", "acme/b/c", "acme/z", "acme/ä", "beta/a"]
    assert {row.sealed for row in found} == {OLD + b"x"}


async def test_sealed_arguments_and_results_are_found_among_others(scene: Scene) -> None:
    session = await scene.session()
    plain = await scene.submit(3)
    sealed = [(await scene.insert(arguments=[OLD + b"%d" % n]))[0].id for n in range(5)]
    new = (await scene.insert(arguments=[NEW + b"n"]))[0].id
    await scene.assign(session, [*plain, *sealed, new])
    for number, job in enumerate(sealed):
        assert await scene.settle(session, job, 1, "completed", result=OLD + b"result %d" % number)
    assert await scene.settle(session, plain[0], 1, "completed", result=b'"sealed:1:old:x"')
    assert {row.place for row in await all_sealed(scene, "arguments")} == {job.hex() for job in sealed}
    found = {row.place: row.sealed for row in await all_sealed(scene, "result")}
    assert found == {job.hex(): OLD + b"result %d" % number for number, job in enumerate(sealed)}


@pytest.mark.parametrize("where", ["secret", "arguments", "result"])
async def test_what_is_sealed_is_replaced_where_it_is_as_it_was_read(scene: Scene, where: SealedIn) -> None:
    await scene.store.put_secrets([secret("one"), secret("two")])
    session = await scene.session()
    for _ in range(2):
        job = (await scene.insert(arguments=[OLD + b"x"]))[0].id
        await scene.assign(session, [job])
        await scene.settle(session, job, 1, "completed", result=OLD + b"x")
    first, second = await all_sealed(scene, where)
    stale = structs.replace(second, sealed=OLD + b"y")
    gone = structs.replace(first, place="acme/gone" if where == "secret" else bytes(16).hex())
    rows = [(row, NEW + b"x") for row in (gone, stale, first)]
    assert await scene.store.replace_sealed(where, rows, "new") == 1
    assert await all_sealed(scene, where) == [second]
    assert await all_sealed(scene, where, OLD) == [structs.replace(first, sealed=NEW + b"x")]
    assert await scene.store.replace_sealed(where, [(first, NEW + b"z")], "new") == 0
    if where == "secret":
        assert [found.key for found in await scene.store.list_secrets()] == ["new", "old"]


async def test_a_value_that_is_set_while_all_are_rewrapped_is_not_lost(scene: Scene) -> None:
    other = await scene.backend.open(scene.clock)
    try:
        for number in range(10):
            await scene.store.put_secrets([secret("one", value=b"%d" % number)])
            (row,) = await all_sealed(scene, "secret")
            fresh = secret("one", key="new", value=b"set %d" % number)
            await asyncio.gather(
                other.put_secrets([fresh]), scene.store.replace_sealed("secret", [(row, NEW + b"wrapped")], "new")
            )
            assert await scene.store.list_secrets() == [fresh]
    finally:
        await other.close()


async def test_a_tenant_is_sealed_and_unsealed_whatever_its_quota(scene: Scene) -> None:
    heard = Heard(scene.store)
    assert await scene.store.seal_tenant("acme", True)
    assert len(heard.take("tenant")) == 1
    assert await scene.store.put_tenants([TenantRecord("acme", Quota(queued=5), START)]) == [True]
    assert await scene.store.list_tenants() == [TenantRecord("acme", Quota(queued=5), START, sealed=True)]
    assert await scene.store.seal_tenant("acme", False)
    assert await scene.store.list_tenants() == [TenantRecord("acme", Quota(queued=5), START)]


async def test_an_erased_tenant_is_not_sealed(scene: Scene) -> None:
    await scene.store.erase_tenant("acme", 10)
    assert not await scene.store.seal_tenant("acme", True)
    assert [tenant.sealed for tenant in await scene.store.list_tenants()] == [False]
