"""A node that others have ended starts again in the same process, whatever is in the way."""

import asyncio
from typing import Any

import pytest

from faults.checks import check_effects, check_tables
from faults.harness import PATIENCE_S, Site
from mainspring.errors import StoreUnavailableError
from mainspring.store.contract import Store
from mainspring.sweep import ownership


@pytest.mark.parametrize("refusals", [0, 2], ids=["at-once", "disk-full-for-a-while"])
async def test_a_node_that_was_ended_starts_again(site: Site, monkeypatch: pytest.MonkeyPatch, refusals: int) -> None:
    monkeypatch.setattr(ownership, "BEAT_S", 0.1)
    jobs = site.jobs()
    async with jobs.app as app:
        ready = asyncio.Event()
        run = asyncio.create_task(app.run(signals=False, grace=0, ready=ready.set))
        await ready.wait()
        gate = site.folder / "gate"
        held = await jobs.gated.submit(str(gate))
        await _runs(site, 1)

        _refuse(monkeypatch, app.store, refusals)
        (node,) = await app.store.list_nodes()
        assert await app.store.end_nodes({node.id: None}) == 1
        await _runs(site, 2)  # rescued from the old node, started by the new one
        gate.touch()
        await held.result(timeout=30)
        fresh = await jobs.quick.submit(1)
        await fresh.result(timeout=30)
        (reborn,) = await app.store.list_nodes()
        assert reborn.id != node.id
        app.stop()
        await run
    assert check_effects(site, [held.id, fresh.id]) == (3, 1, 0)
    check_tables(site)


async def _runs(site: Site, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(site.effects()) < count:  # noqa: ASYNC110  (a file tells)
            await asyncio.sleep(0.01)


def _refuse(monkeypatch: pytest.MonkeyPatch, store: Store, times: int) -> None:
    real, left = store.insert_node, [None] * times

    async def insert_node(*arguments: Any) -> None:
        if left:
            left.pop()
            raise StoreUnavailableError("the disk is full")
        await real(*arguments)

    monkeypatch.setattr(store, "insert_node", insert_node)
