"""The record of what people did: durable, grouped, without secrets, and verified."""

import asyncio
from typing import cast

import pytest
from msgspec import json, structs

from access.scene import ROOT, Watched, make_key, make_tenant, text_of
from contract.scene import START
from mainspring.access.audit import AuditLog
from mainspring.core.chain import verify
from mainspring.errors import InvalidError
from mainspring.store.contract import Store
from mainspring.store.service import ALL_TENANTS
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine
from mainspring.verbs.local import LocalVerbs


async def test_a_record_says_who_what_where_before_and_after(verbs: LocalVerbs, engine: Engine) -> None:
    await engine.audit.record("default", ROOT, "pause_queue", "mail", before={"paused": False}, after=d.Quota(queued=1))
    await engine.audit.record("default", ROOT, "delete_schedule", "daily")
    first, second = await verbs.audit.list()
    assert (first.number, first.actor, first.origin, first.action, first.target) == (
        1,
        "root",
        "test",
        "pause_queue",
        "mail",
    )
    assert json.decode(first.before) == {"paused": False}
    assert json.decode(first.after)["queued"] == 1
    assert (second.number, bytes(second.before), bytes(second.after)) == (2, b"null", b"null")
    assert [entry.number for entry in await verbs.audit.list(after=1)] == [2]
    assert [entry.number for entry in await verbs.audit.list(limit=1)] == [1]


async def test_records_that_come_together_share_appends(watched: Watched, verbs: LocalVerbs) -> None:
    log = AuditLog(cast(Store, watched))
    await asyncio.gather(*(log.record("default", ROOT, "act", str(number)) for number in range(100)))
    assert watched.asked["append_audit"] <= 2
    assert [entry.target for entry in await verbs.audit.list(limit=1000)] == [str(number) for number in range(100)]
    assert await verbs.audit.verify() == d.Verification(tenant="default", records=100, broken_at=None)


async def test_secrets_do_not_get_in(engine: Engine, verbs: LocalVerbs) -> None:
    key = await make_key(engine)
    await engine.audit.record("default", ROOT, "retry_job", text_of(key), after={"arguments": {"key": text_of(key)}})
    said = json.encode(await verbs.audit.list()).decode()
    assert text_of(key)[-43:] not in said
    assert f"msk_{key.id}_..." in said


async def test_a_chain_is_one_tenants(engine: Engine, verbs: LocalVerbs) -> None:
    await make_tenant(engine, "acme")
    await engine.audit.record("acme", ROOT, "act", "x")
    assert await verbs.audit.list() == []
    assert [entry.target for entry in await engine.verbs("acme", ROOT).audit.list()] == ["x"]
    (made,) = await engine.verbs(None, ROOT).audit.list()
    assert (made.tenant, made.action, made.target) == (ALL_TENANTS, "create_tenant", "acme")


async def test_pages_are_verified_one_after_the_other(
    engine: Engine, verbs: LocalVerbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.verbs.audit.MAX_PAGE", 3)
    for number in range(8):
        await engine.audit.record("default", ROOT, "act", str(number))
    assert (await verbs.audit.verify()).records == 8


async def test_what_was_changed_shows(engine: Engine) -> None:
    """What the store returned, with one record changed as somebody with the database could."""
    for number in range(3):
        await engine.audit.record("default", ROOT, "act", str(number))
    entries = await engine.store.list_audit("default", after=0, limit=10)
    assert verify("default", entries).broken_at is None
    entries[1] = structs.replace(entries[1], content=b'{"actor":"nobody"}')
    assert verify("default", entries).broken_at == 2
    assert entries[0].at == START


@pytest.mark.parametrize("bounds", [{"after": -1}, {"limit": 0}, {"limit": 1001}, {"after": True}])
async def test_pages_have_bounds(verbs: LocalVerbs, bounds: dict[str, int]) -> None:
    with pytest.raises(InvalidError) as caught:
        await verbs.audit.list(**bounds)
    assert caught.value.field in bounds
