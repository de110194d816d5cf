"""Who bears a key, and how rarely the store is asked."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from access.scene import Seconds, Watched, make_key, text_of
from mainspring.access import keys
from mainspring.access.keys import FRESH_S, Keyring
from mainspring.access.roles import Role
from mainspring.errors import UnknownKeyError
from mainspring.runtime.clock import ManualClock
from mainspring.store.contract import Store
from mainspring.store.service import KeyRecord
from mainspring.verbs.engine import Engine

SECRET = "A" * 43


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def keyring(watched: Watched, seconds: Seconds) -> Iterator[Keyring]:
    made = Keyring(cast(Store, watched), seconds)
    yield made
    made.close()


async def test_a_key_is_known_for_a_while(keyring: Keyring, watched: Watched, seconds: Seconds, engine: Engine) -> None:
    key = await make_key(engine, "operator", requests_per_s=5)
    for _ in range(10):
        caller = await keyring.identify(text_of(key))
    assert (caller.key, caller.name, caller.role, caller.tenant) == (key.id, "k", Role.OPERATOR, "default")
    assert caller.requests_per_s == 5
    assert watched.asked["read_keys"] == 1
    seconds.now += FRESH_S
    await keyring.identify(text_of(key))
    assert watched.asked["read_keys"] == 2


async def test_a_revoked_key_is_refused_at_once_where_the_hint_arrives(keyring: Keyring, engine: Engine) -> None:
    key = await make_key(engine)
    await keyring.identify(text_of(key))
    await engine.store.revoke_keys([key.id])
    with pytest.raises(UnknownKeyError):
        await keyring.identify(text_of(key))


async def test_a_revoked_key_is_refused_soon_where_no_hint_arrives(
    keyring: Keyring, seconds: Seconds, engine: Engine
) -> None:
    key = await make_key(engine)
    await keyring.identify(text_of(key))
    keyring.close()
    await engine.store.revoke_keys([key.id])
    await keyring.identify(text_of(key))
    seconds.now += FRESH_S
    with pytest.raises(UnknownKeyError):
        await keyring.identify(text_of(key))
    keyring.close = lambda: None


async def test_expiry_is_by_the_stores_clock(keyring: Keyring, engine: Engine, clock: ManualClock) -> None:
    key = await make_key(engine, expires_in="10s")
    await keyring.identify(text_of(key))
    clock.advance(10)
    with pytest.raises(UnknownKeyError):
        await keyring.identify(text_of(key))


async def test_a_repeated_unknown_key_costs_one_query(keyring: Keyring, watched: Watched, seconds: Seconds) -> None:
    for _ in range(10):
        with pytest.raises(UnknownKeyError):
            await keyring.identify(f"msk_aaaaaaaaaaaa_{SECRET}")
    assert watched.asked["read_keys"] == 1
    seconds.now += FRESH_S
    with pytest.raises(UnknownKeyError):
        await keyring.identify(f"msk_aaaaaaaaaaaa_{SECRET}")
    assert watched.asked["read_keys"] == 2


async def test_guessing_the_secret_of_a_known_key_costs_nothing(
    keyring: Keyring, watched: Watched, engine: Engine
) -> None:
    key = await make_key(engine)
    await keyring.identify(text_of(key))
    for _ in range(10):
        with pytest.raises(UnknownKeyError):
            await keyring.identify(f"msk_{key.id}_{SECRET}")
    assert watched.asked["read_keys"] == 1
    assert (await keyring.identify(text_of(key))).key == key.id


@pytest.mark.parametrize("text", ["", "msk_", "Bearer x", "msk_AAAAAAAAAAAA_" + SECRET, "\ud800", "x" * 100_000])
async def test_what_is_no_key_costs_nothing(keyring: Keyring, watched: Watched, text: str) -> None:
    with pytest.raises(UnknownKeyError):
        await keyring.identify(text)
    assert not watched.asked["read_keys"]


async def test_keys_that_are_tried_together_share_queries(keyring: Keyring, watched: Watched) -> None:
    tries = [keyring.identify(f"msk_aaaaaaaaaa{a}{b}_{SECRET}") for a in "abcdefgh" for b in "abcdefgh"]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert all(isinstance(answer, UnknownKeyError) for answer in answers)
    assert watched.asked["read_keys"] <= 2


async def test_trying_ids_does_not_push_out_keys_in_use(
    keyring: Keyring, watched: Watched, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "MOST", 5)
    key = await make_key(engine)
    await keyring.identify(text_of(key))
    for a in "abcdefgh":
        with pytest.raises(UnknownKeyError):
            await keyring.identify(f"msk_aaaaaaaaaaa{a}_{SECRET}")
    before = watched.asked["read_keys"]
    await keyring.identify(text_of(key))
    assert watched.asked["read_keys"] == before
    assert len(keyring._unknown) == 5


async def test_a_key_that_is_revoked_while_it_is_read_is_not_remembered(
    keyring: Keyring, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await make_key(engine)
    read = engine.store.read_keys

    async def slowly(ids: Sequence[str]) -> list[KeyRecord | None]:
        found = await read(ids)
        await engine.store.revoke_keys([key.id])
        return found

    monkeypatch.setattr(engine.store, "read_keys", slowly)
    assert (await keyring.identify(text_of(key))).key == key.id  # it was good when it was read
    with pytest.raises(UnknownKeyError):
        await keyring.identify(text_of(key))
