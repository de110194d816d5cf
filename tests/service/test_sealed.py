"""Sealed tenants: what their jobs take and return is ciphertext in the store, and plain to everybody who may see it."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from mainspring import App, JobFailedError
from mainspring.app.handle import Job
from mainspring.core.secret import SEALED
from mainspring.core.template import Placeholder
from mainspring.errors import SecretsError
from mainspring.secrets.keys import VARIABLE
from mainspring.store.service import SealedIn
from mainspring.verbs import documents as d
from mainspring.verbs.declaring import synchronise
from service.vaults import NEW, OLD, Vaulted, vaulted

__all__ = ["vaulted"]

PATIENT = "the patient's name"  # what must not be found


async def seal(vaulted: Vaulted, sealed: bool = True) -> None:
    assert (await vaulted.app.verbs().tenants.seal("default", sealed)).sealed is sealed


def stored(vaulted: Vaulted) -> list[bytes]:
    """Arguments and results as they lie in the store."""
    rows = vaulted.rows("select arguments from spec") + vaulted.rows("select data from result")
    return [row[0] for row in rows]


def assert_sealed(vaulted: Vaulted, count: int) -> None:
    assert PATIENT not in vaulted.dump()
    found = stored(vaulted)
    assert len(found) == count
    assert all(data.startswith(SEALED + b"1:old:") for data in found)


async def test_rows_are_ciphertext_and_readers_see_nothing_of_that(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        await seal(vaulted)
        jobs = vaulted.app.verbs("default").jobs
        job = await vaulted.echo.submit(PATIENT)
        await node.tick()
        assert await job.result() == {"echo": PATIENT}
        assert vaulted.ran == [PATIENT]
        assert_sealed(vaulted, 2)
        shown = await jobs.read(job.id)
        assert json.decode(shown.arguments) == {"value": PATIENT}
        assert json.decode(shown.result) == {"echo": PATIENT}
        (ended,) = (await jobs.wait_any(d.WaitRequest(ids=[job.id], timeout_s=5))).ended
        assert json.decode(ended.result) == {"echo": PATIENT}


async def test_clones_and_replays_with_other_arguments(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        await seal(vaulted)
        jobs = vaulted.app.verbs("default").jobs
        job = await vaulted.echo.submit("x")
        await jobs.update(job.id, d.JobChange(arguments={"value": PATIENT}))
        assert json.decode((await jobs.read(job.id)).arguments) == {"value": PATIENT}
        await jobs.cancel(job.id)
        await jobs.retry(job.id, d.JobChange(arguments={"value": [PATIENT]}))
        (clone,) = await jobs.clone(job.id, [d.Variation()])
        await node.tick()
        assert json.decode((await jobs.wait(clone.id)).result) == {"echo": [PATIENT]}
        assert await job.result() == {"echo": [PATIENT]}
        assert_sealed(vaulted, 4)
        told = await vaulted.app.verbs("default").audit.list()
        assert '"arguments":"sealed"' in json.encode(told).decode()


async def test_schedules_fire_sealed_jobs(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        await seal(vaulted)
        schedules = vaulted.app.verbs("default").schedules
        await schedules.create(
            d.NewSchedule(name="hourly", kind="echo", arguments={"value": "hour"}, rule={"cron": "0 * * * *"})
        )
        made = await schedules.trigger("hourly")
        await node.tick()
        await node.advance("1h")
        first = node.now - timedelta(hours=5)
        assert await schedules.backfill("hourly", first, first + timedelta(hours=2)) >= 2
        await node.tick()
        assert vaulted.ran[:2] == ["hour", "hour"]
        assert json.decode((await vaulted.app.verbs().jobs.read(made.id)).arguments) == {"value": "hour"}
        assert all(data.startswith(SEALED) for data in stored(vaulted))


async def test_templates_and_transactions(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        await seal(vaulted)
        templates = vaulted.app.verbs("default").templates
        await templates.put(
            "t", d.TemplateDefinition(kind="echo", arguments={"value": {"$": "v"}}, placeholders={"v": Placeholder()})
        )
        await templates.submit("t", d.TemplateSubmit(values={"v": PATIENT}))
        async with vaulted.app.transaction() as tx:
            await vaulted.echo.within(tx).submit(PATIENT)
        await node.tick()
        assert vaulted.ran == [PATIENT, PATIENT]
        assert_sealed(vaulted, 4)


async def test_keys_and_unique_jobs_compare_plain_arguments(vaulted: Vaulted) -> None:
    async with vaulted.node():
        await seal(vaulted)
        for once in (
            vaulted.echo.options(key="k"),
            vaulted.echo.options(unique="1h"),
            vaulted.echo.options(cache="1h"),
        ):
            first, again = await once.submit(PATIENT), await once.submit(PATIENT)
            assert (again.id, again.existed) == (first.id, True)
        assert_sealed(vaulted, 3)


async def test_what_was_stored_before_and_after_stays_readable(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        jobs = [await vaulted.echo.submit("before")]
        await seal(vaulted)
        jobs.append(await vaulted.echo.submit("sealed"))
        await node.tick()
        await seal(vaulted, False)
        jobs.append(await vaulted.echo.submit("after"))
        await node.tick()
        assert [await job.result() for job in jobs] == [{"echo": word} for word in ("before", "sealed", "after")]
        assert sum(data.startswith(SEALED) for data in stored(vaulted)) == 3  # "before" ended when it was sealed


async def test_other_tenants_are_not_sealed(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        for name in ("acme", "beta"):
            await vaulted.app.verbs().tenants.create(d.NewTenant(name=name))
        await vaulted.app.verbs().tenants.seal("acme", True)
        jobs = [await vaulted.echo.options(tenant=tenant).submit(tenant) for tenant in ("acme", "beta")]
        await node.tick()
        assert [await job.result() for job in jobs] == [{"echo": "acme"}, {"echo": "beta"}]
        assert sorted(data.startswith(SEALED) for data in stored(vaulted)) == [False, False, True, True]


async def _swap(vaulted: Vaulted, where: SealedIn) -> None:
    store = vaulted.app.store
    (one, other), _ = await store.list_sealed(where, b"-", "", 10)
    assert await store.replace_sealed(where, [(one, other.sealed), (other, one.sealed)], "old") == 2


async def test_swapped_arguments_are_noticed(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        await seal(vaulted)
        jobs = [await vaulted.echo.submit(word) for word in ("one", "two")]
        await _swap(vaulted, "arguments")
        with pytest.raises(SecretsError, match="moved from another place"):
            await jobs[0].status()
        await node.tick()
        assert vaulted.ran == []
        for job in jobs:
            with pytest.raises(JobFailedError, match="moved from another place"):
                await job.result()


async def test_swapped_results_are_noticed(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        await seal(vaulted)
        jobs = [await vaulted.echo.submit(word) for word in ("one", "two")]
        await node.tick()
        await _swap(vaulted, "result")
        for job in jobs:
            with pytest.raises(SecretsError, match="moved from another place"):
                await job.result()
        other = await vaulted.echo.submit("three")
        await node.tick()
        ids = [*(job.id for job in jobs), other.id]
        answer = await vaulted.app.verbs("default").jobs.wait_any(d.WaitRequest(ids=ids))
        assert [end.id for end in answer.ended] == [other.id]  # whoever waits for others is not held up
        assert sorted(answer.unreadable) == sorted(ids[:2])


async def test_who_has_no_keys_can_neither_submit_nor_read_but_cancel(
    vaulted: Vaulted, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with vaulted.app:
        await seal(vaulted)
        job = await vaulted.echo.submit(PATIENT)
    monkeypatch.delenv(VARIABLE)
    async with vaulted.app:
        with pytest.raises(SecretsError, match="there are no keys"):
            await vaulted.echo.submit(PATIENT)
        with pytest.raises(SecretsError, match="there are no keys"):
            await job.status()
        assert await job.cancel()
        assert_sealed(vaulted, 1)


async def test_a_result_that_cannot_be_sealed_fails_its_job_alone(
    vaulted: Vaulted, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with vaulted.app:
        await vaulted.app.verbs().tenants.create(d.NewTenant(name="acme"))
        sealed = await vaulted.echo.options(tenant="acme").submit("before its tenant was sealed")
        other = await vaulted.echo.submit("other")
        await vaulted.app.verbs().tenants.seal("acme", True)
    monkeypatch.delenv(VARIABLE)
    async with vaulted.node() as node:
        await node.tick()
        assert await other.result() == {"echo": "other"}
        with pytest.raises(JobFailedError, match="the result cannot be sealed: there are no keys"):
            await sealed.result()
        assert (await sealed.status()).reason == "secrets"


def test_a_submit_without_an_event_loop_is_sealed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, OLD)
    app = App(f"sqlite:///{folder}/jobs.db")

    @app.job()
    async def echo(value: Any) -> None: ...

    with app.sync:
        app.sync.call(app.verbs().tenants.seal("default", True))
        with app.sync.transaction() as tx:
            job = echo.sync.within(tx).submit(PATIENT)
        (record,) = app.sync.call(app.store.read_jobs([job._job.key]))
        assert record is not None
        assert record.arguments.startswith(SEALED)


async def test_rotation_under_load(vaulted: Vaulted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Submits, runs and settings of secrets go on while everything gets the new key; nothing is lost, nothing keeps the old one."""
    async with vaulted.app:
        await seal(vaulted)
        old = await vaulted.app.submit_many([vaulted.echo.job(f"old {number}") for number in range(250)])
        await vaulted.app.verbs("default").secrets.set("api-token", "old value")
    monkeypatch.setenv(VARIABLE, f"{NEW},{OLD}")
    ready = asyncio.Event()
    running = asyncio.create_task(vaulted.app.run(signals=False, slots=5, ready=ready.set))
    await ready.wait()
    rotating = asyncio.create_task(_rotate_all(vaulted))
    new: list[Job[Any]] = []
    while not rotating.done():
        new.append(await vaulted.echo.submit(f"new {len(new)}"))
        await vaulted.app.verbs("default").secrets.set("other", f"value {len(new)}")
    assert await rotating > 0
    assert [await job.result(timeout=30) for job in old] == [{"echo": f"old {n}"} for n in range(250)]
    assert [await job.result(timeout=30) for job in new] == [{"echo": f"new {n}"} for n in range(len(new))]
    assert {data[:13] for data in stored(vaulted)} == {SEALED + b"1:new:"}
    assert {secret.key for secret in await vaulted.app.store.list_secrets()} == {"new"}
    vaulted.app.stop()
    await running
    monkeypatch.setenv(VARIABLE, NEW)  # the old key can go
    async with vaulted.node() as node:
        assert await old[0].result() == {"echo": "old 0"}
        job = await vaulted.use.submit()
        await node.tick()
        assert await job.result() == len("old value")


async def _rotate_all(vaulted: Vaulted) -> int:
    secrets = vaulted.app.verbs().secrets
    step = await secrets.rotate()
    changed = step.changed
    while step.next is not None:
        step = await secrets.rotate(step.next)
        changed += step.changed
        assert step.unreadable == 0
    return changed


async def test_rotation_counts_what_it_cannot_open(vaulted: Vaulted, monkeypatch: pytest.MonkeyPatch) -> None:
    async with vaulted.app:
        await seal(vaulted)
        await vaulted.echo.submit(PATIENT)
        await vaulted.app.verbs("default").secrets.set("api-token", "old value")
    monkeypatch.setenv(VARIABLE, NEW)
    async with vaulted.app:
        steps = [await vaulted.app.verbs().secrets.rotate(after) for after in (None, "arguments:", "result:")]
        assert [(step.changed, step.unreadable) for step in steps] == [(0, 1), (0, 1), (0, 0)]
        assert [step.next for step in steps] == ["arguments:", "result:", None]


async def test_a_node_without_keys_holds_up_nobody_else(vaulted: Vaulted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of a sealed tenant fail there, its schedules wait for a node that has them; others go on."""
    hourly: dict[str, Any] = {"kind": "echo", "arguments": {"value": "hour"}, "rule": {"cron": "0 * * * *"}}
    async with vaulted.app:
        await synchronise(vaulted.app.store, *vaulted.app.declared)
        for name in ("acme", "beta"):
            await vaulted.app.verbs().tenants.create(d.NewTenant(name=name))
        jobs = [await vaulted.echo.options(tenant=tenant).submit(tenant) for tenant in ("acme", "beta")]
        await vaulted.app.verbs().tenants.seal("acme", True)
    monkeypatch.delenv(VARIABLE)
    async with vaulted.node() as node:
        for name in ("acme", "beta"):
            await vaulted.app.verbs(name).schedules.create(d.NewSchedule(name="hourly", **hourly))
        await node.tick()
        with pytest.raises(JobFailedError, match="there are no keys"):  # its arguments were stored before
            await jobs[0].result()
        assert await jobs[1].result() == {"echo": "beta"}
        await node.advance("1h")
        runs = {name: (await vaulted.app.verbs(name).schedules.read("hourly")).runs for name in ("acme", "beta")}
        assert runs == {"acme": 0, "beta": 1}
