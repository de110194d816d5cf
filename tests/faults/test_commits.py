"""The connection breaks exactly at a COMMIT, before the server got it, after it has committed, or while it is still on its way.

Every verb answers with the truth, as if nothing had happened, and nothing is done twice.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import asyncpg
import pytest

from contract.backends import PostgresBackend, fresh_schema
from contract.scene import FAILURE, LEASE_S, START, TABLES, JumpingClock, Scene
from faults import crash
from mainspring.core.job import Limit, Resources
from mainspring.core.lane import Lane
from mainspring.core.timer import SECOND
from mainspring.store.contract import Change, KindRecord, Pick, QueueRecord, Settlement
from mainspring.store.service import KeyRecord, Quota, SealedRow, SecretRecord, TemplateRecord, TenantRecord
from mainspring.wire import Progress
from postgres.proxy import Proxy, When
from postgres.server import Server

Act = Callable[[], Coroutine[Any, Any, Any]]
Prepare = Callable[[Scene], Coroutine[Any, Any, Act]]
Counts = dict[str, int]


class Verbs:
    """For each verb, what comes before it, and the call; its answer without ids, which differ from run to run."""

    async def insert_jobs(self, scene: Scene) -> Act:
        async def act() -> Any:
            return [(answer.existed, answer.conflict) for answer in await scene.insert(arguments=[b"{}"] * 3)]

        return act

    async def insert_jobs_by_copy(self, scene: Scene) -> Act:
        async def act() -> Any:
            return [answer.existed for answer in await scene.insert(arguments=[b"{}"] * 300)]

        return act

    async def insert_jobs_with_a_key(self, scene: Scene) -> Act:
        async def act() -> Any:
            first, again = [(await scene.insert(key="once"))[0] for _ in range(2)]
            return first.id == again.id, first.existed, again.existed

        return act

    async def insert_jobs_with_a_key_that_is_taken(self, scene: Scene) -> Act:
        taken = await scene.submit_one(key="once")

        async def act() -> Any:
            (same,), (other,) = await asyncio.gather(
                scene.insert(key="once"), scene.insert(key="once", arguments=[b'{"x":1}'])
            )
            return same.id == taken, same.existed, same.conflict, other.conflict

        return act

    async def assign_jobs(self, scene: Scene) -> Act:
        session, _, ready = await scene.session(), await scene.submit(3), await scene.ready()

        async def act() -> Any:
            answer = await scene.assign_stale(session, ready)
            return [won.attempt for won in answer.won], answer.lost

        return act

    async def assign_jobs_that_somebody_else_has(self, scene: Scene) -> Act:
        session, first = await scene.session(), await scene.session()
        await scene.submit(3)
        ready = await scene.ready()
        await scene.assign_stale(first, ready)

        async def act() -> Any:
            answer = await scene.assign_stale(session, ready)
            return len(answer.won), len(answer.lost)

        return act

    async def assign_jobs_under_a_limit(self, scene: Scene) -> Act:
        await scene.limit("queue/default/narrow", concurrency=2)
        session, _, ready = await scene.session(), await scene.submit(3, queue="narrow"), await scene.ready()

        async def act() -> Any:
            (answer,) = await scene.store.assign_jobs([Pick(session, ready, (("queue/default/narrow", ""),))])
            return len(answer.won), len(answer.held)

        return act

    async def settle_attempts(self, scene: Scene) -> Act:
        session = await scene.session()
        jobs = [await scene.started(session) for _ in range(2)]

        async def act() -> Any:
            done = [Settlement(job, 1, "completed", result=b"1") for job in jobs]
            return await scene.store.settle_attempts(session, [*done, Settlement(jobs[0], 2, "completed")])

        return act

    async def settle_attempts_that_failed(self, scene: Scene) -> Act:
        session = await scene.session()
        job = await scene.started(session)

        async def act() -> Any:
            due_at = scene.clock.now() + SECOND
            failed = Settlement(job, 1, "pending", failure=FAILURE, due_at=due_at, counts="failure")
            return await scene.store.settle_attempts(session, [failed]), (await scene.record(job)).failures

        return act

    async def mark_running(self, scene: Scene) -> Act:
        job = await scene.started(await scene.session())

        async def act() -> Any:
            await scene.store.mark_running([(job, 1)])
            return await scene.state(job)

        return act

    async def mark_running_with_progress(self, scene: Scene) -> Act:
        job = await scene.started(await scene.session())

        async def act() -> Any:
            await scene.store.mark_running([(job, 1)], [Progress(job, 1, 50.0, "half")])
            return [(said.percent, said.message) for said in await scene.store.read_progress([job]) if said is not None]

        return act

    async def rescue_attempts(self, scene: Scene) -> Act:
        session = await scene.session()
        job = await scene.started(session)
        await scene.store.end_sessions([session])

        async def act() -> Any:
            return await scene.store.rescue_attempts(10), (await scene.record(job)).losses

        return act

    async def cancel_jobs(self, scene: Scene) -> Act:
        waiting, running = await scene.submit_one(delay=5), await scene.started(await scene.session())

        async def act() -> Any:
            return await scene.store.cancel_jobs([waiting, running, bytes(16)])

        return act

    async def change_jobs_that_ended(self, scene: Scene) -> Act:
        job = await scene.submit_one()
        await scene.store.cancel_jobs([job])

        async def act() -> Any:
            return await scene.store.change_jobs([Change(job, replay=True)])

        return act

    async def change_jobs(self, scene: Scene) -> Act:
        job = await scene.submit_one()
        lane = Lane("default", "default", "work", Resources(cpu=2.0))

        async def act() -> Any:
            due_at = scene.clock.now() + SECOND
            change = Change(job, priority=9, attempt=0, arguments=b'{"x":1}', due_at=due_at, lane=lane)
            return await scene.store.change_jobs([change]), (await scene.record(job)).arguments

        return act

    async def ripen_timers(self, scene: Scene) -> Act:
        await scene.submit(3, delay=1)
        scene.clock.advance(2)

        async def act() -> Any:
            return await scene.store.ripen_timers(scene.everywhere, 100)

        return act

    async def prune_jobs(self, scene: Scene) -> Act:
        await scene.store.cancel_jobs(await scene.submit(3))
        scene.clock.advance(60)

        async def act() -> Any:
            return await scene.prune(30)

        return act

    async def insert_node(self, scene: Scene) -> Act:
        async def act() -> Any:
            await scene.store.insert_node(b"node", "node", LEASE_S)
            return [node.name for node in await scene.store.list_nodes()]

        return act

    async def end_nodes(self, scene: Scene) -> Act:
        node = await scene.new_node()
        await scene.session(node)

        async def act() -> Any:
            return await scene.store.end_nodes({node: None})

        return act

    async def drain_nodes(self, scene: Scene) -> Act:
        node = await scene.new_node()

        async def act() -> Any:
            return await scene.store.drain_nodes([node])

        return act

    async def claim_partitions(self, scene: Scene) -> Act:
        node = await scene.new_node()

        async def act() -> Any:
            return await scene.store.claim_partitions(node, 7)

        return act

    async def insert_session(self, scene: Scene) -> Act:
        node = await scene.new_node()

        async def act() -> Any:
            await scene.store.insert_session(b"session", node, "session")
            return [session.name for session in await scene.store.list_sessions()]

        return act

    async def adopt_session(self, scene: Scene) -> Act:
        first, second = await scene.new_node(b"first"), await scene.new_node(b"second")
        await scene.store.insert_session(b"session", first, "session", remote=True)
        await scene.started(b"session")
        await scene.store.end_nodes({first: None})

        async def act() -> Any:
            live = await scene.store.adopt_session(b"session", second)
            return [job.attempt for job in live or ()], await scene.store.list_orphans()

        return act

    async def end_sessions(self, scene: Scene) -> Act:
        session = await scene.session()

        async def act() -> Any:
            await scene.store.end_sessions([session])
            return await scene.store.list_sessions()

        return act

    async def put_queue(self, scene: Scene) -> Act:
        async def act() -> Any:
            await scene.store.put_queue(QueueRecord("default", "narrow", True, Limit(concurrency=1)))
            return await scene.store.list_queues()

        return act

    async def put_kinds(self, scene: Scene) -> Act:
        async def act() -> Any:
            await scene.store.put_kinds([KindRecord("work", b"{}")], {"kind/work": Limit(concurrency=1)})
            return await scene.store.list_kinds(), await scene.store.list_limits()

        return act

    async def add_kinds(self, scene: Scene) -> Act:
        await scene.store.put_kinds([KindRecord("work", b"{}")], {})

        async def act() -> Any:
            await scene.store.add_kinds([KindRecord("work", b"[]"), KindRecord("more", b"{}")])
            return await scene.store.list_kinds()

        return act

    async def put_schedules(self, scene: Scene) -> Act:
        async def act() -> Any:
            return (await scene.put_schedule("s")).version

        return act

    async def delete_schedules(self, scene: Scene) -> Act:
        await scene.put_schedule("s")

        async def act() -> Any:
            return await scene.store.delete_schedules(["default/s"])

        return act

    async def fire_schedules(self, scene: Scene) -> Act:
        await scene.put_schedule("s")

        async def act() -> Any:
            return len(await scene.fire("s", START)), (await scene.schedule("s")).version

        return act

    async def put_tenants(self, scene: Scene) -> Act:
        async def act() -> Any:
            answer = await scene.store.put_tenants([TenantRecord("guest", Quota(running=3), START)])
            return answer, await scene.store.list_tenants(), await scene.store.list_limits()

        return act

    async def erase_tenant(self, scene: Scene) -> Act:
        await scene.store.put_tenants([TenantRecord("guest", Quota(running=3), START)])
        await scene.submit(2, tenant="guest")
        await scene.store.append_audit([("guest", b"{}")])

        async def act() -> Any:
            answer = await scene.store.erase_tenant("guest", 10)
            (entry,) = await scene.store.list_audit("guest", after=0, limit=9)
            return answer, entry.content, await scene.store.list_limits()

        return act

    async def insert_keys(self, scene: Scene) -> Act:
        await scene.store.insert_keys([_key("token", role="join")])

        async def act() -> Any:
            answer = await scene.store.insert_keys([_key("first"), _key("second")], spend="token")
            return answer, await scene.store.list_keys()

        return act

    async def revoke_keys(self, scene: Scene) -> Act:
        await scene.store.insert_keys([_key("first"), _key("second")])

        async def act() -> Any:
            return await scene.store.revoke_keys(["first", "unknown"]), await scene.store.list_keys()

        return act

    async def put_templates(self, scene: Scene) -> Act:
        async def act() -> Any:
            answer = await scene.store.put_templates([_template(1), _template(2)])
            return answer, await scene.store.list_template_versions("default", "report")

        return act

    async def set_template(self, scene: Scene) -> Act:
        await scene.store.put_templates([_template(1), _template(2)])

        async def act() -> Any:
            answer = await scene.store.set_template("default", "report", current=1, shared_with=("guest",))
            return answer, await scene.store.list_templates("guest")

        return act

    async def delete_template(self, scene: Scene) -> Act:
        await scene.store.put_templates([_template(1)])

        async def act() -> Any:
            return await scene.store.delete_template("default", "report"), await scene.store.list_templates("default")

        return act

    async def append_audit(self, scene: Scene) -> Act:
        await scene.store.append_audit([("default", b"before")])

        async def act() -> Any:
            await scene.store.append_audit([("default", b"one"), ("guest", b"two"), ("default", b"three")])
            return await scene.store.list_audit("default", after=0, limit=9)

        return act

    async def agree(self, scene: Scene) -> Act:
        async def act() -> Any:
            first = await scene.store.agree("home", "here")
            return first, await scene.store.agree("home", "there")

        return act

    async def put_secrets(self, scene: Scene) -> Act:
        async def act() -> Any:
            await scene.store.put_secrets([_secret("token"), _secret("other")])
            return await scene.store.list_secrets()

        return act

    async def delete_secrets(self, scene: Scene) -> Act:
        await scene.store.put_secrets([_secret("token"), _secret("other")])

        async def act() -> Any:
            return await scene.store.delete_secrets([("default", "token")]), await scene.store.list_secrets()

        return act

    async def replace_sealed(self, scene: Scene) -> Act:
        await scene.store.put_secrets([_secret("token")])

        async def act() -> Any:
            row = SealedRow("default/token", b"sealed:a")
            return await scene.store.replace_sealed(
                "secret", [(row, b"sealed:b")], "b"
            ), await scene.store.list_secrets()

        return act

    async def seal_tenant(self, scene: Scene) -> Act:
        async def act() -> Any:
            answer = await scene.store.seal_tenant("vault", True)
            return answer, [(tenant.name, tenant.sealed) for tenant in await scene.store.list_tenants()]

        return act

    async def expire_results(self, scene: Scene) -> Act:
        session = await scene.session()
        jobs = [await scene.started(session) for _ in range(3)]
        for job in jobs:
            await scene.settle(session, job, 1, "completed", result=b"1", expires_at=scene.clock.now() + SECOND)
        scene.clock.advance(2)

        async def act() -> Any:
            return await scene.store.expire_results(jobs), await scene.store.list_expired(9)

        return act


def _secret(name: str) -> SecretRecord:
    return SecretRecord(tenant="default", name=name, key="a", sealed=b"sealed:a", changed_at=START, changed_by="test")


def _key(id_: str, role: str = "viewer") -> KeyRecord:
    return KeyRecord(
        id=id_, digest=b"digest", name=id_, role=role, tenant="default", created_at=START, created_by="test"
    )


def _template(version: int) -> TemplateRecord:
    return TemplateRecord(
        tenant="default",
        name="report",
        version=version,
        definition=b"{}",
        created_at=START,
        created_by="test",
        current=version,
    )


VERBS: dict[str, Prepare] = {name: verb for name, verb in Verbs.__dict__.items() if not name.startswith("__")}


def test_no_verb_is_left_out() -> None:
    """But `renew_lease`, which nobody waits for, and which is repeated anyway."""
    verbs = [*crash.writing_verbs("postgres")]
    assert [verb for verb in verbs if not any(name.startswith(verb) for name in VERBS)] == ["renew_lease"]


@pytest.fixture
def backend(postgres: Server) -> Iterator[PostgresBackend]:
    with fresh_schema(postgres.url, postgres.url) as made:
        yield made


@pytest.fixture
def cut_off(postgres: Server) -> Iterator[tuple[PostgresBackend, Proxy]]:
    """The same behind a proxy."""
    with Proxy(postgres.url) as proxy, fresh_schema(postgres.url, proxy.url) as made:
        yield made, proxy


async def _undisturbed(backend: PostgresBackend, name: str) -> tuple[Any, Counts]:
    clock = JumpingClock(START)
    store = await backend.open(clock)
    try:
        scene = Scene(backend, store, clock)
        act = await _prepare(name, scene)
        return await act(), _counts(scene)
    finally:
        await store.close()


async def _prepare(name: str, scene: Scene) -> Act:
    return await getattr(Verbs(), name)(scene)  # type: ignore[no-any-return]


def _counts(scene: Scene) -> Counts:
    return {table: scene.count(table) for table in TABLES}


@pytest.mark.parametrize("when", ["before", "after", "late"])
@pytest.mark.parametrize("name", VERBS)
async def test_a_cut_at_the_commit_changes_nothing_about_the_answer(
    backend: PostgresBackend, cut_off: tuple[PostgresBackend, Proxy], name: str, when: When
) -> None:
    expected = await _undisturbed(backend, name)
    behind, proxy = cut_off
    clock = JumpingClock(START)
    store = await behind.open(clock)
    try:
        scene = Scene(behind, store, clock)
        act = await _prepare(name, scene)
        proxy.cut_at_commit(when)
        answer = await act()
        proxy.wait_for_cut()
        proxy.deliver()  # what was late comes now, and must not take place any more
        assert (answer, _counts(scene)) == expected
        scene.check()
    finally:
        await store.close()


@pytest.mark.parametrize("when", ["before", "after", "late"])
@pytest.mark.parametrize("name", ["insert_jobs", "insert_jobs_with_a_key", "assign_jobs", "settle_attempts"])
async def test_a_crash_of_the_server_at_the_commit_changes_nothing_about_the_answer(
    backend: PostgresBackend, durable_postgres: Server, name: str, when: When
) -> None:
    """After a crash the numbers of transactions that had not committed are given to others, who do commit."""
    expected = await _undisturbed(backend, name)
    with Proxy(durable_postgres.url) as proxy, fresh_schema(durable_postgres.url, proxy.url) as behind:
        clock = JumpingClock(START)
        store = await behind.open(clock)
        try:
            scene = Scene(behind, store, clock)
            act = await _prepare(name, scene)
            proxy.cut_at_commit(when)
            acting = asyncio.create_task(act())
            await asyncio.to_thread(proxy.wait_for_cut)
            proxy.refuse()
            durable_postgres.restart("immediate")  # here, because it ends with the thread that started it
            await _use_up_transactions(durable_postgres, 20)
            proxy.accept()
            answer = await acting
            assert (answer, _counts(scene)) == expected
            scene.check()
        finally:
            await store.close()


async def _use_up_transactions(server: Server, count: int) -> None:
    connection = await asyncpg.connect(server.url)
    for _ in range(count):
        await connection.fetchval("select pg_current_xact_id()")
    await connection.close()
