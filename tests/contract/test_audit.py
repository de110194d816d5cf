"""Audit chains: numbered without gaps, each record tied to the one before."""

import asyncio

from contract.scene import START, Scene
from mainspring.core.chain import FIRST, digest_of, link
from mainspring.core.timer import SECOND
from mainspring.store.service import AuditEntry


async def chain(scene: Scene, tenant: str) -> list[AuditEntry]:
    """A whole chain, after a check that it holds."""
    entries = await scene.store.list_audit(tenant, after=0, limit=10_000)
    before = FIRST
    for number, entry in enumerate(entries, 1):
        assert (entry.tenant, entry.number) == (tenant, number)
        assert entry.hash == link(before, tenant, number, entry.at, entry.digest)
        assert entry.content is None or entry.digest == digest_of(entry.content)
        before = entry.hash
    return entries


async def test_records_are_chained_in_the_order_given_with_the_time_of_the_store(scene: Scene) -> None:
    await scene.store.append_audit([("acme", b"one"), ("acme", b"two")])
    scene.clock.advance(1)
    await scene.store.append_audit([("acme", b"three")])
    entries = await chain(scene, "acme")
    assert [(entry.content, entry.at - START) for entry in entries] == [(b"one", 0), (b"two", 0), (b"three", SECOND)]
    await scene.store.append_audit([])


async def test_each_tenant_has_a_chain_of_its_own(scene: Scene) -> None:
    await scene.store.append_audit([("acme", b"1"), ("beta", b"2"), ("acme", b"3")])
    assert [entry.content for entry in await chain(scene, "acme")] == [b"1", b"3"]
    assert [entry.content for entry in await chain(scene, "beta")] == [b"2"]
    assert await chain(scene, "nobody") == []


async def test_a_chain_is_read_in_pages(scene: Scene) -> None:
    await scene.store.append_audit([("acme", b"%d" % number) for number in range(7)])
    whole = await chain(scene, "acme")
    assert await scene.store.list_audit("acme", after=0, limit=3) == whole[:3]
    assert await scene.store.list_audit("acme", after=3, limit=3) == whole[3:6]
    assert await scene.store.list_audit("acme", after=6, limit=3) == whole[6:]
    assert await scene.store.list_audit("acme", after=7, limit=3) == []


async def test_many_who_append_at_once_make_one_chain_without_gaps(scene: Scene) -> None:
    """Through several stores, as many servers would, and also where they write to two chains in another order."""
    stores = [scene.store, await scene.backend.open(scene.clock), await scene.backend.open(scene.clock)]
    try:
        appends = [
            store.append_audit([(tenant, b"%s %d" % (tenant.encode(), number)) for tenant in tenants])
            for number in range(8)
            for store, tenants in zip(stores, (("acme", "beta"), ("beta", "acme"), ("acme",)), strict=True)
        ]
        await asyncio.gather(*appends)
    finally:
        for store in stores[1:]:
            await store.close()
    assert (len(await chain(scene, "acme")), len(await chain(scene, "beta"))) == (24, 16)
