"""Keys and join tokens."""

import asyncio

import pytest
from msgspec import structs

from contract.scene import START, Heard, Scene
from mainspring.core.timer import SECOND, Micros
from mainspring.store.service import ALL_TENANTS, KeyRecord


def key(id_: str, **fields: object) -> KeyRecord:
    made = KeyRecord(
        id=id_,
        digest=id_.encode() * 8,
        name=f"name of {id_}",
        role="operator",
        tenant="acme",
        created_at=START,
        created_by="somebody",
    )
    return structs.replace(made, **fields)


async def test_a_key_is_read_as_it_was_stored(scene: Scene) -> None:
    full = key("full", tenant=ALL_TENANTS, requests_per_s=2.5, expires_at=START + SECOND)
    assert await scene.store.insert_keys([key("one"), full])
    assert await scene.store.read_keys(["full", "none", "one"]) == [full, None, key("one")]
    assert await scene.store.read_keys([]) == []


async def test_keys_are_listed_oldest_first_of_one_tenant_or_of_all(scene: Scene) -> None:
    young, old, other = key("young", created_at=START + 2), key("old"), key("other", tenant="beta")
    await scene.store.insert_keys([young, old, other])
    assert await scene.store.list_keys("acme") == [old, young]
    assert await scene.store.list_keys() == [old, other, young]
    assert await scene.store.list_keys("nobody") == []


async def test_a_key_is_revoked_once_and_stays_readable(scene: Scene) -> None:
    await scene.store.insert_keys([key("one"), key("two")])
    heard = Heard(scene.store)
    scene.clock.advance(3)
    assert await scene.store.revoke_keys(["one", "nobody"]) == 1
    assert len(heard.take("key")) == 1
    scene.clock.advance(3)
    assert await scene.store.revoke_keys(["one", "two"]) == 1
    times = [found.revoked_at for found in await scene.store.read_keys(["one", "two"]) if found is not None]
    assert times == [START + 3 * SECOND, START + 6 * SECOND]


async def test_an_id_is_taken_once_whoever_asks_for_it_at_the_same_time(scene: Scene) -> None:
    await scene.store.insert_keys([key("token", role="join")])
    stores = [scene.store, await scene.backend.open(scene.clock)]
    try:
        tries = (store.insert_keys([key("one", name=str(n))]) for n, store in enumerate(stores * 3))
        answers = await asyncio.gather(*tries)
    finally:
        await stores[1].close()
    assert sorted(answers) == [False] * 5 + [True]
    (one,) = await scene.store.read_keys(["one"])
    assert one is not None
    assert one.name == str(answers.index(True))
    before = await scene.everything()
    assert not await scene.store.insert_keys([key("other"), key("one")], spend="token")
    assert await scene.everything() == before


async def test_a_token_is_spent_in_the_transaction_that_stores_what_it_buys(scene: Scene) -> None:
    await scene.store.insert_keys([key("token", role="join")])
    scene.clock.advance(1)
    heard = Heard(scene.store)
    assert await scene.store.insert_keys([key("first")], spend="token")
    assert len(heard.take("key")) == 1
    assert not await scene.store.insert_keys([key("second")], spend="token")
    token, first, second = await scene.store.read_keys(["token", "first", "second"])
    assert token is not None
    assert (token.revoked_at, first, second) == (START + SECOND, key("first"), None)


@pytest.mark.parametrize(
    ("expires_at", "spent"), [(None, True), (START + 1, True), (START, False), (START - SECOND, False)]
)
async def test_an_expired_token_buys_nothing(scene: Scene, expires_at: Micros | None, spent: bool) -> None:
    await scene.store.insert_keys([key("token", role="join", expires_at=expires_at)])
    before = await scene.everything()
    assert await scene.store.insert_keys([key("new")], spend="token") == spent
    assert (await scene.everything() != before) == spent


async def test_an_unknown_token_buys_nothing(scene: Scene) -> None:
    assert not await scene.store.insert_keys([key("new")], spend="nobody")
    assert await scene.store.list_keys() == []


async def test_of_many_who_spend_a_token_at_once_one_gets_a_key(scene: Scene) -> None:
    """Also where they come through other processes."""
    await scene.store.insert_keys([key("token", role="join")])
    stores = [scene.store, await scene.backend.open(scene.clock)]
    try:
        tries = (store.insert_keys([key(f"new {n}")], spend="token") for n, store in enumerate(stores * 4))
        answers = await asyncio.gather(*tries)
    finally:
        await stores[1].close()
    assert sorted(answers) == [False] * 7 + [True]
    assert [found.id for found in await scene.store.list_keys()] == [f"new {answers.index(True)}", "token"]
