"""Kinds are everybody's: guests add some, and change none."""

import pytest

from access.scene import bearer, make_key, make_tenant
from mainspring.errors import ForbiddenError
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine

SAME = d.KindDeclaration(name="send", options={"queue": "mail"})
OTHER = d.KindDeclaration(name="send", options={"queue": "spam"})
LIMITED = d.KindDeclaration(
    name="send", options={"queue": "mail"}, limit=d.LimitDocument(concurrency=1, rate_per_s=None, burst=None)
)
NEW = d.KindDeclaration(name="guess")


async def test_a_guest_adds_kinds_and_changes_none(engine: Engine) -> None:
    await make_tenant(engine, "acme")
    guest = engine.verbs("acme", bearer(await make_key(engine, "worker", "acme"))).system
    await guest.declare(d.Declarations(kinds=[SAME, NEW]))
    for changed in (OTHER, LIMITED):
        with pytest.raises(ForbiddenError, match="'send' is declared with other options or limits"):
            await guest.declare(d.Declarations(kinds=[changed]))
    assert (
        await engine.verbs("acme", bearer(await make_key(engine, "worker", "acme"))).jobs.draft(
            d.SubmitRequest(kind="send")
        )
    ).options.queue == "mail"


@pytest.mark.parametrize("tenant", ["default", "*"])
async def test_those_of_the_house_change_them(engine: Engine, tenant: str) -> None:
    system = engine.verbs("default", bearer(await make_key(engine, "worker", tenant))).system
    await system.declare(d.Declarations(kinds=[LIMITED]))
    assert (await engine.store.list_limits())["kind/send"].concurrency == 1
