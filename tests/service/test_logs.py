"""Logs and partial results from the function to the one who submitted it: in one process, without asyncio, and over a network."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring import App, Context
from mainspring.errors import SecretsError
from mainspring.verbs import pieces
from service.serving import served, served_apart
from service.test_workers import worker_key, working


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "POLL_S", 0.02)


class Talk:
    """A job that waits in the middle for its listener."""

    def __init__(self, *where: str, **settings: Any) -> None:
        self.app = app = App(*where, **settings)
        self.go_on = asyncio.Event()

        @app.job()
        async def talk(ctx: Context, wait: bool = True) -> str:
            ctx.log("begun")
            await ctx.emit({"done": 1})
            if wait:
                await self.go_on.wait()
            ctx.log("ended", level="warning")
            await ctx.emit({"done": 2})
            return "said"

        self.talk = talk


@asynccontextmanager
async def _places(where: str, folder: Path) -> AsyncIterator[tuple[Talk, App]]:
    """Who executes, and who asks."""
    store = f"sqlite:///{folder}/jobs.db"
    if where == "here":
        talk = Talk(store)
        async with working(talk.app):
            yield talk, talk.app
        return
    async with served(App(store), keys=True) as server:
        talk = Talk(server.url, key=await worker_key(server))
        async with working(talk.app), App(server.url, key=server.key) as asker:
            yield talk, asker


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_who_submitted_follows(where: str, folder: Path) -> None:
    async with _places(where, folder) as (talk, asker), asyncio.timeout(30), asker:
        (job,) = await asker.submit_many([talk.talk.job()])
        log, given = job.logs(follow=True), job.partial()
        assert (await anext(log)).text == "begun\n"
        assert await anext(given) == {"done": 1}
        talk.go_on.set()
        assert [(part.stream, part.text) async for part in log] == [("warning", "ended\n")]
        assert [value async for value in given] == [{"done": 2}]
        assert await job.result() == "said"
        assert "".join([part.text async for part in job.logs(attempt=1)]) == "begun\nended\n"


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_who_reads_what_does_not_open_is_told(where: str, folder: Path) -> None:
    async with _places(where, folder) as (talk, asker), asyncio.timeout(30), asker:
        (job,) = await asker.submit_many([talk.talk.job(wait=False)])
        await job.result()
        (second,) = (folder / "jobs.db.objects").rglob("partial/*/0000000002")
        second.write_bytes(b"\x93mainspring-sealed-object-1\n\x00 and no more")
        given = job.partial()
        assert await anext(given) == {"done": 1}
        with pytest.raises(SecretsError, match="does not open"):
            await anext(given)


def test_without_asyncio(folder: Path) -> None:
    with served_apart(Talk(f"sqlite:///{folder}/jobs.db").app) as server:
        talk = Talk(server.url)
        with talk.app.sync:
            job = talk.talk.sync.submit(wait=False)
            assert list(job.partial()) == [{"done": 1}, {"done": 2}]
            assert "".join(part.text for part in job.logs(follow=True)) == "begun\nended\n"
            for part in job.logs():  # who leaves early leaves nothing behind
                assert part.text == "begun\n"
                break
