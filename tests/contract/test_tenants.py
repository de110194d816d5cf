"""Tenants: what they may have at once, and that nothing is left of one that is erased."""

import asyncio
from typing import Any

import pytest

from contract.backends import Backend
from contract.scene import FAILURE, START, Heard, Scene, make_schedule
from contract.test_audit import chain
from contract.test_keys import key
from contract.test_secrets import secret
from contract.test_templates import template
from mainspring.core.job import Limit
from mainspring.core.timer import SECOND
from mainspring.errors import InvalidError
from mainspring.store.contract import MissedRecord, Pick, QueueRecord
from mainspring.store.service import Quota, TenantRecord
from mainspring.wire import Progress

Rows = set[tuple[str, str]]  # table, and a row of it as text

TENANT = "tenant/acme"
LIMITS = ((TENANT, ""),)


async def put(scene: Scene, name: str, **quota: Any) -> bool:
    (answer,) = await scene.store.put_tenants([TenantRecord(name, Quota(**quota), scene.clock.now())])
    return answer


# --- quotas


async def test_a_tenant_keeps_its_quota_until_it_gets_another(scene: Scene) -> None:
    heard = Heard(scene.store)
    assert await put(scene, "beta", queued=5, schedules=1, submits_per_s=0.5)
    assert len(heard.take("tenant")) == 1
    assert await put(scene, "acme")
    scene.clock.advance(5)
    assert await put(scene, "beta", queued=7)
    assert await scene.store.list_tenants() == [
        TenantRecord("acme", Quota(), START),
        TenantRecord("beta", Quota(queued=7), START),
    ]


async def test_a_quota_on_running_jobs_is_a_limit(scene: Scene) -> None:
    await put(scene, "acme", running=3)
    assert await scene.store.list_limits() == {TENANT: Limit(concurrency=3)}
    await put(scene, "acme", running=2, queued=9)
    assert await scene.store.list_limits() == {TENANT: Limit(concurrency=2)}
    await put(scene, "acme", queued=9)
    assert await scene.store.list_limits() == {}


async def test_a_quota_of_no_running_jobs_is_refused_with_what_to_do(scene: Scene) -> None:
    with pytest.raises(InvalidError, match="running: must be at least 1"):
        await put(scene, "acme", running=0)
    assert await scene.store.list_tenants() == []


async def test_i13_a_tenant_never_has_more_running_than_its_quota(scene: Scene) -> None:
    """Over several queues and sessions, asked by many at once."""
    sessions = [await scene.session() for _ in range(4)]
    await put(scene, "acme", running=3)
    for queue in ("a", "b"):
        await scene.submit(10, tenant="acme", queue=queue)
    done = 0
    while seen := await scene.ready():
        picks = [Pick(session, jobs, LIMITS) for place, session in enumerate(sessions) if (jobs := seen[place::4])]
        await asyncio.gather(*(scene.store.assign_jobs([pick]) for pick in picks))
        live = scene.rows("select session, job from live")
        assert len(live) == 3 or not await scene.ready()
        assert await scene.held(TENANT) == len(live) <= 3
        session, job = live[0]
        assert await scene.settle(session, job, 1, "completed")
        done += 1
    assert done >= 17


# --- erasing


async def belongings(scene: Scene, tenant: str) -> list[bytes]:
    """One of everything that a tenant can have; its jobs."""
    store = scene.store
    session = await scene.session()
    await put(scene, tenant, running=50)
    limits = ((f"tenant/{tenant}", ""), (f"queue/{tenant}/q", ""), ("kind/work", f"{tenant}/k"))
    await store.put_queue(QueueRecord(tenant, "q", True, Limit(concurrency=50, rate=1000.0, burst=50)))
    await scene.kinds({"work": Limit(rate=1000.0, burst=100)})
    job: dict[str, Any] = {"tenant": tenant, "queue": "q", "limit_key": "k", "client": f"{tenant} client"}
    ended = [await scene.started(session, **job) for _ in range(3)]
    await scene.settle(session, ended[0], 1, "completed", result=b'"of %s"' % tenant.encode())
    await scene.settle(session, ended[1], 1, "failed", failure=FAILURE, counts="failure")
    await scene.settle(session, ended[2], 1, "cancelled", reason=f"{tenant} wanted it")
    live = await scene.submit(2, **job)
    await scene.assign(session, live, limits)
    await store.cancel_jobs(live[:1])
    await store.mark_running([(live[1], 1)], [Progress(live[1], 1, 50.0, f"{tenant} at work")])
    waiting = [*await scene.submit(2, **job), *await scene.submit(2, delay=60, start_by=90, **job)]
    waiting += [(await scene.insert(key="order", **job))[0].id, (await scene.insert(unique=60, **job))[0].id]
    chained = await scene.chain(3, **job)
    fired = await _schedule(scene, tenant)
    node = await scene.new_node(f"node {session.decode()}".encode())
    await store.insert_session(f"{tenant} worker".encode(), node, "worker", tenant=tenant)
    await store.insert_keys([key(f"{tenant} key", tenant=tenant), key(f"{tenant} second", tenant=tenant)])
    await store.put_secrets([secret("s", tenant), secret("t", tenant)])
    await store.put_templates([template("t", tenant=tenant), template("t", 2, tenant=tenant)])
    await store.append_audit([(tenant, b"did %d in " % number + tenant.encode()) for number in range(3)])
    return [*ended, *live, *waiting, *chained, *fired]


async def _schedule(scene: Scene, tenant: str) -> list[bytes]:
    id_ = f"{tenant}/s"
    assert await scene.store.put_schedules([make_schedule("s", id=id_, tenant=tenant)]) == [True]
    (record,) = await scene.store.read_schedules([id_])
    assert record is not None
    step = scene.firing(record, [START], missed=[MissedRecord(id_, START, START, 1, "overlap")])
    assert await scene.store.fire_schedules([step]) == [True]
    return [batch.ids[0] for batch in step.jobs]


def rows(backend: Backend, scene: Scene) -> Rows:
    """All there is. `mark` is PostgreSQL's own memory of what has committed."""
    return {(name, repr(row)) for name, found in backend.dump(scene.store).items() for row in found if name != "mark"}


def mentions(row: tuple[str, str], tenant: str, jobs: list[bytes]) -> bool:
    return tenant in row[1] or any(repr(job)[2:-1] in row[1] for job in jobs)


@pytest.mark.parametrize("limit", [1, 7, 1000])
async def test_nothing_is_left_of_an_erased_tenant_and_nothing_of_others_is_touched(scene: Scene, limit: int) -> None:
    jobs = await belongings(scene, "acme")
    await belongings(scene, "beta")
    others = {row for row in rows(scene.backend, scene) if not mentions(row, "acme", jobs)}
    erased = [await scene.store.erase_tenant("acme", limit)]
    while erased[-1] == limit:
        erased.append(await scene.store.erase_tenant("acme", limit))
    assert sum(erased) == len(jobs)
    left = rows(scene.backend, scene)
    assert {name for name, row in left if mentions((name, row), "acme", jobs)} == {"tenant", "audit"}
    assert {row for row in left if not mentions(row, "acme", jobs)} == others
    assert await scene.store.read_jobs(jobs) == [None] * len(jobs)
    assert await scene.store.erase_tenant("acme", limit) == 0


async def test_an_erased_tenants_chain_stays_verifiable_without_its_content(scene: Scene) -> None:
    await scene.store.append_audit([("acme", b"secret"), ("beta", b"kept"), ("acme", b"too")])
    before = await chain(scene, "acme")
    assert await scene.store.erase_tenant("acme", 10) == 0
    after = await chain(scene, "acme")
    assert [entry.content for entry in after] == [None, None]
    assert [entry.hash for entry in after] == [entry.hash for entry in before]
    assert [entry.content for entry in await chain(scene, "beta")] == [b"kept"]
    await scene.store.append_audit([("acme", b"erased")])
    assert [entry.content for entry in await chain(scene, "acme")] == [None, None, b"erased"]


async def test_the_name_of_an_erased_tenant_is_not_given_again(scene: Scene) -> None:
    await put(scene, "acme", running=2)
    scene.clock.advance(1)
    heard = Heard(scene.store)
    await scene.store.erase_tenant("acme", 10)
    told = {hint.topic for hint in heard.hints}
    assert {"tenant", "key", "secret", "queue", "schedule"} <= told
    gone = TenantRecord("acme", Quota(), START, START + SECOND)
    assert await scene.store.list_tenants() == [gone]
    assert not await put(scene, "acme", running=3)
    scene.clock.advance(1)
    await scene.store.erase_tenant("acme", 10)
    assert (await scene.store.list_tenants(), await scene.store.list_limits()) == ([gone], {})


async def test_a_tenant_that_nobody_made_can_be_erased(scene: Scene) -> None:
    (job,) = await scene.submit(1, tenant="acme")
    assert await scene.store.erase_tenant("acme", 10) == 1
    assert await scene.store.read_jobs([job]) == [None]
    assert [tenant.erased_at for tenant in await scene.store.list_tenants()] == [START]


async def test_i13_what_an_erased_tenants_live_jobs_held_is_free_and_their_outcomes_are_late(scene: Scene) -> None:
    session = await scene.session()
    await scene.kinds({"work": Limit(concurrency=1)})
    job = await scene.submit_one(tenant="acme")
    limits = (("kind/work", "acme/"),)
    await scene.assign(session, [job], limits)
    assert await scene.held(*limits[0]) == 1
    heard = Heard(scene.store)
    await scene.store.erase_tenant("acme", 10)
    assert heard.take("settled") != []
    assert await scene.held(*limits[0]) == 0
    assert not await scene.settle(session, job, 1, "completed")
    assert scene.count("live") == 0


async def test_i10_jobs_of_others_that_waited_for_an_erased_one_may_start(scene: Scene) -> None:
    (grandparent,) = await scene.chain(1, tenant="beta")
    parent = await scene.submit_after(grandparent, tenant="acme")
    child = await scene.submit_after(parent, tenant="beta")
    assert await scene.state(child) == "blocked"
    assert await scene.store.erase_tenant("acme", 10) == 1
    assert {ready.job for ready in await scene.ready()} == {grandparent, child}
    assert scene.count("edge") == 0


async def test_a_template_is_no_longer_shared_with_a_tenant_that_is_erased(scene: Scene) -> None:
    shared = template("t", tenant="beta", shared_with=("acme", "gamma"))
    await scene.store.put_templates([shared, template("own")])
    await scene.store.erase_tenant("acme", 10)
    assert [found.shared_with for found in await scene.store.list_templates("beta")] == [("gamma",)]
    assert await scene.store.list_templates("acme") == []


async def test_a_tenant_whose_name_begins_like_anothers_is_left_alone(scene: Scene) -> None:
    for name in ("acme0", "acme-2", "acm"):
        await belongings(scene, name)
    before = rows(scene.backend, scene)
    await scene.store.erase_tenant("acme", 10)
    assert {row for row in rows(scene.backend, scene) if row[0] != "tenant"} == {
        row for row in before if row[0] != "tenant"
    }
