"""Applications that execute for a server: a worker over HTTP, in this process."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring import App, Context, InvalidError, JobCancelledError
from mainspring.api import workers as protocol
from mainspring.app.running import Running
from mainspring.client.link import _parts
from mainspring.dispatch.desk import Desk
from mainspring.errors import ForbiddenError, UnknownKeyError
from mainspring.runtime.loop import new_event_loop
from mainspring.verbs.documents import NewKey
from mainspring.wire import Outcome, OutcomeType, Report, ReportReply
from service.serving import Served, served


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[Served]:
    """Without functions: it schedules, and executes nothing."""
    async with served(App(f"sqlite:///{folder}/jobs.db"), keys=True) as made:
        yield made


async def worker_key(server: Served, role: str = "worker") -> str:
    async with App(server.url, key=server.key) as admin:
        made = await admin.verbs().keys.create(NewKey(name="test", role=role, tenant="*"))
    assert made.key is not None
    return made.key


def desk_of(server: Served) -> Desk:
    running = server.app._running
    assert isinstance(running, Running)
    return running.node.desk


@asynccontextmanager
async def working(app: App, *, early: bool = False, **run: Any) -> AsyncIterator["asyncio.Task[None]"]:
    """Execute until the block ends, or until it ends by itself. `early`: not only when its server knows what it declares."""
    ready = asyncio.Event()
    running = asyncio.create_task(app.run(signals=False, ready=ready.set, **run))
    declared = asyncio.ensure_future(ready.wait())
    try:
        if not early:
            await asyncio.wait((running, declared), return_when=asyncio.FIRST_COMPLETED)
        yield running
    finally:
        app.stop()
        await asyncio.wait((running,))
        declared.cancel()
    await running


async def test_an_application_executes_for_a_server(server: Served) -> None:
    app = App(server.url, key=await worker_key(server))
    stopped: list[str] = []

    @app.job(retries=7)
    async def add(a: int, b: int) -> int:
        return a + b

    @app.schedule("0 9 1 1 *", name="yearly", arguments={"a": 1, "b": 2})
    @app.job()
    def slow(context: Context, a: int, b: int) -> str:
        context.progress(50, "half")
        return f"{a}/{b} in {context.tenant}"

    app.on_stop(lambda: stopped.append("hook"))
    client = App(server.url, key=server.key)
    async with working(app), client:
        store = server.app.store
        assert {kind.name for kind in await store.list_kinds()} >= {"add", "slow"}
        assert [schedule.id for schedule in await store.list_schedules()] == ["default/yearly"]
        async with asyncio.timeout(20):
            jobs = await client.submit_many([add.job(number, 1) for number in range(300)])
            assert [await job.result() for job in jobs] == [number + 1 for number in range(300)]
            (job,) = await client.submit_many([slow.job(1, 2)])
            assert await job.result() == "1/2 in default"
        (session,) = await store.list_sessions()
        assert session.remote
    assert stopped == ["hook"]
    assert await server.app.store.list_sessions() == []


async def test_a_worker_enrols_with_a_join_token_once(server: Served) -> None:
    async with App(server.url, key=server.key) as admin:
        token = (await admin.verbs("default").keys.join_token("rack 7")).key
        app = App(server.url)

        @app.job()
        async def here() -> str:
            return "here"

        async with working(app, join_token=token), asyncio.timeout(20):
            (job,) = await admin.submit_many([here.job()])
            assert await job.result() == "here"
        again = App(server.url)
        again.job(name="here")(_nothing)
        with pytest.raises(UnknownKeyError):
            await again.run(signals=False, join_token=token)


async def _nothing() -> None: ...


async def test_a_key_that_is_no_workers_ends_the_run_with_a_clear_error(server: Served) -> None:
    app = App(server.url, key=await worker_key(server, "viewer"))
    app.job(name="nothing")(_nothing)
    with pytest.raises(ForbiddenError, match="viewer"):
        await app.run(signals=False)


async def test_a_key_that_is_revoked_ends_the_run(server: Served) -> None:
    key = await worker_key(server)
    app = App(server.url, key=key)
    app.job(name="nothing")(_nothing)
    running = asyncio.create_task(app.run(signals=False))
    await desk_of(server).wait_pulling()
    async with App(server.url, key=server.key) as admin:
        await admin.verbs().keys.revoke(key.split("_")[1])
    with pytest.raises(UnknownKeyError):
        async with asyncio.timeout(40):
            await running


async def test_a_cancel_reaches_the_job(server: Served) -> None:
    app = App(server.url, key=await worker_key(server))
    begun, told = asyncio.Event(), asyncio.Event()

    @app.job()
    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    async with working(app), App(server.url, key=server.key) as client, asyncio.timeout(20):
        (job,) = await client.submit_many([hang.job()])
        await begun.wait()
        await job.cancel()
        await told.wait()
        with pytest.raises(JobCancelledError):
            await job.result()


async def test_a_worker_that_is_asked_to_leave_leaves(server: Served) -> None:
    app = App(server.url, key=await worker_key(server))
    app.job(name="nothing")(_nothing)
    async with working(app) as running, App(server.url, key=server.key) as admin, asyncio.timeout(20):
        await desk_of(server).wait_pulling()
        (worker,) = await admin.verbs().workers.list()
        await admin.verbs().workers.drain(worker.id)
        await asyncio.wait((running,))


async def test_a_server_that_is_not_there_yet_is_waited_for(folder: Path) -> None:
    async with served(App(f"sqlite:///{folder}/jobs.db")) as before:
        url = before.url
    app = App(url)

    @app.job()
    async def late() -> int:
        return 3

    async with working(app, early=True), asyncio.timeout(30):
        await asyncio.sleep(0)
        async with served(App(f"sqlite:///{folder}/jobs.db"), port=int(url.rpartition(":")[2])) as server:
            await desk_of(server).wait_pulling()
            async with App(url) as client:
                (job,) = await client.submit_many([late.job()])
                assert await job.result() == 3


async def test_a_run_that_waits_for_its_server_can_be_stopped(folder: Path) -> None:
    async with served(App(f"sqlite:///{folder}/jobs.db")) as before:
        url = before.url
    app = App(url)
    app.job(name="nothing")(_nothing)
    async with asyncio.timeout(20), working(app, early=True):
        await asyncio.sleep(0)


@asynccontextmanager
async def apart(app: App) -> AsyncIterator[None]:
    """A worker on a thread of its own, so that what blocks it does not block the server."""
    loops: list[asyncio.AbstractEventLoop] = []

    def work() -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            loops.append(runner.get_loop())
            runner.run(app.run(signals=False))

    thread = threading.Thread(target=work, name="test-worker")
    thread.start()
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(app.stop)
        await asyncio.to_thread(thread.join)


async def test_signs_of_life_go_on_while_a_job_blocks_the_workers_loop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEARTBEAT_S", 0.02)
    gate, begun = threading.Event(), asyncio.Event()
    here = asyncio.get_running_loop()
    async with served(App(f"sqlite:///{folder}/jobs.db")) as server:
        app = App(server.url)

        @app.job()
        async def compute() -> str:
            here.call_soon_threadsafe(begun.set)
            gate.wait(30)
            return "done"

        desk = desk_of(server)
        report, beats, enough = desk.report, 0, asyncio.Event()

        async def count(session: bytes, said: Report) -> ReportReply:
            nonlocal beats
            beats += said.running is None and not said.outcomes
            if beats >= 5:
                enough.set()
            return await report(session, said)

        async with apart(app):
            await desk.wait_pulling()
            async with App(server.url) as client, asyncio.timeout(30):
                (job,) = await client.submit_many([compute.job()])
                await begun.wait()
                monkeypatch.setattr(desk, "report", count)
                await enough.wait()
                gate.set()
                assert await job.result() == "done"


async def test_a_server_needs_no_store_of_the_workers_and_a_store_no_token(folder: Path) -> None:
    app = App(f"sqlite:///{folder}/jobs.db")
    app.job(name="nothing")(_nothing)
    with pytest.raises(InvalidError, match="join_token"):
        await app.run(signals=False, join_token="msk_x")


def test_a_large_report_is_sent_in_pieces_and_says_last_what_runs() -> None:
    outcomes = [Outcome(bytes([n]) * 16, 1, OutcomeType.COMPLETED, b"x" * 1_000_000) for n in range(20)]
    report = Report(outcomes, [(b"r" * 16, 1)], [])
    parts = list(_parts(report))
    assert len(parts) == 3
    assert [outcome for part in parts for outcome in part.outcomes] == outcomes
    assert [part.running for part in parts] == [None, None, report.running]
    assert list(_parts(Report([]))) == [Report([])]
