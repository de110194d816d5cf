"""`App("http://…")`: the same face as on a store."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring import App
from mainspring.errors import (
    ConflictError,
    InvalidError,
    JobCancelledError,
    JobFailedError,
    NotFoundError,
    NotRunningError,
    StoreError,
    UnknownKeyError,
)
from mainspring.runtime.clock import SystemClock
from mainspring.verbs import documents as d
from service.serving import Served, served, served_apart
from service.shop import Shop

NOBODY = "00000000-0001-7002-8000-000000000003"


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[Served]:
    async with served(Shop(f"sqlite:///{folder}/jobs.db").app, keys=True) as running:
        yield running


@pytest.fixture
async def shop(server: Served) -> AsyncIterator[Shop]:
    made = Shop(server.url, key=server.key)
    async with made.app:
        yield made


async def test_submit_status_result(shop: Shop) -> None:
    job = await shop.send.submit("a", count=3)
    assert await job.result(timeout=10) == "a x3"
    status = await job.status()
    assert (status.state, status.queue, status.tags) == ("completed", "mail", ("post",))
    again = shop.app.get(job.id)
    assert await again.result() == "a x3"
    await (await shop.nothing.submit()).result(timeout=10)


async def test_many_jobs_and_many_who_wait(shop: Shop) -> None:
    jobs = await shop.app.submit_many(shop.send.job(str(number)) for number in range(5000))
    assert len({job.id for job in jobs}) == 5000
    results = await asyncio.gather(*(job.result(timeout=60) for job in jobs))
    assert results == [f"{number} x1" for number in range(5000)]


async def test_failure_and_cancel(shop: Shop) -> None:
    job = await shop.broken.submit("because")
    with pytest.raises(JobFailedError, match="ValueError: because") as caught:
        await job.result(timeout=10)
    assert caught.value.reason == "error"
    assert "in broken" in (caught.value.traceback or "")
    late = await shop.send.options(delay=timedelta(hours=1)).submit("b")
    with pytest.raises(TimeoutError):
        await late.result(timeout=0.05)
    assert await late.cancel()
    assert not await late.cancel()
    with pytest.raises(JobCancelledError):
        await late.result(timeout=10)
    for call in (shop.app.get(NOBODY).result(5), shop.app.get(NOBODY).status(), shop.app.get(NOBODY).cancel()):
        with pytest.raises(NotFoundError, match=NOBODY):
            await call


async def test_keys_and_conflicts(shop: Shop) -> None:
    first = await shop.send.options(key="k").submit("a")
    again = await shop.send.options(key="k").submit("a")
    assert (again.id, again.existed) == (first.id, True)
    with pytest.raises(ConflictError, match="'k' belongs to a job"):
        await shop.send.options(key="k").submit("b")


async def test_what_a_server_cannot_do_is_said(shop: Shop) -> None:
    with pytest.raises(StoreError, match="needs the store itself"):
        shop.app.transaction()
    with pytest.raises(StoreError, match="server"):
        _ = shop.app.store
    with pytest.raises(InvalidError, match="within: needs the store itself"):
        await shop.app.submit_many([shop.send.job("a")], within=object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "field", "value"),
    [
        ("http://localhost:1", "schema", "x"),
        ("http://localhost:1", "listen_url", "postgresql://x/y"),
        ("http://localhost:1", "clock", SystemClock()),
        ("http://localhost:1", "ca_file", "/etc/hosts"),
        ("https://localhost:1", "ca_file", "/no/such/file"),
        ("http://localhost:1", "key", "msk_a b"),
        ("http://localhost:1", "key", ""),
        ("sqlite:///x.db", "key", "msk_x"),
        ("sqlite:///x.db", "ca_file", "/etc/hosts"),
    ],
)
def test_what_has_no_meaning_is_refused(url: str, field: str, value: object) -> None:
    with pytest.raises(InvalidError) as caught:
        App(url, **{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field
    assert "msk_" not in caught.value.problem.replace("msk_…", "")


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http:///x",
        "http://u:secret@host",
        "http://host:99999",
        "https://host?secret",
        "http://a b",
        "http://[::1",
    ],
)
def test_a_url_of_no_server(url: str) -> None:
    with pytest.raises(InvalidError, match="server") as caught:
        App(url)
    assert "secret" not in str(caught.value)


def test_the_environment_may_name_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_STORE", "http://somewhere:8420/")
    monkeypatch.setenv("MAINSPRING_KEY", "msk_secret")
    app = App()
    assert app.settings.place == "http://somewhere:8420"
    assert "msk_secret" not in repr(app.settings)
    assert App("sqlite:///x.db").settings.place.endswith("x.db")  # a key in the environment is for those who need one


async def test_a_wrong_key_and_no_server(server: Served) -> None:
    async with Shop(server.url, key="msk_nonsense").app as app:
        with pytest.raises(UnknownKeyError):
            await app.verbs().system.statistics()
    async with Shop(server.url).app as app:
        with pytest.raises(UnknownKeyError):
            await app.submit_many([Shop("sqlite:///x.db").send.job("a")])


async def test_not_open() -> None:
    app = App("http://localhost:1")
    with pytest.raises(NotRunningError, match="not open"):
        app.verbs()


async def test_an_unknown_kind_says_what_to_do(shop: Shop) -> None:
    @shop.app.job()
    async def undeclared() -> None: ...

    with pytest.raises(InvalidError, match=r"'undeclared'.*send"):
        await undeclared.submit()


async def test_tenants_of_jobs(shop: Shop) -> None:
    await shop.app.verbs().tenants.create(d.NewTenant(name="acme"))
    mine, theirs = await shop.app.submit_many(
        [shop.send.options(delay="1h").job("a"), shop.send.options(tenant="acme", delay="1h").job("a")]
    )
    listed = await shop.app.verbs("acme").jobs.list(d.JobQuery())
    assert [job.id for job in listed.jobs] == [theirs.id]
    with pytest.raises(NotFoundError):
        await shop.app.verbs("acme").jobs.read(mine.id)


def test_sync(folder: Path) -> None:
    with served_apart(Shop(f"sqlite:///{folder}/jobs.db").app) as server:
        shop = Shop(server.url)
        with shop.app.sync as app:
            job = shop.send.sync.submit("a")
            assert job.result(timeout=10) == "a x1"
            assert app.get(job.id).status().state == "completed"
            with pytest.raises(StoreError), app.transaction():
                pass
        threads = [thread.name for thread in threading.enumerate()]
        assert "mainspring-sync" not in threads
