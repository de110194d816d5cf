"""Two servers on one store: a worker's calls are done where its session lives, wherever they arrive."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from api.site import Site, make_app, running
from api.test_workers import Shell, at_work, done, submit
from mainspring.config import serve_settings


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
async def sites(folder: Path) -> AsyncIterator[list[Site]]:
    """Two that know where the other one is, and one that nobody can reach."""
    async with AsyncExitStack() as stack:
        made: list[Site] = []
        for url in (True, True, False):
            port = _free_port()
            settings = serve_settings(port=port, url=f"http://127.0.0.1:{port}" if url else None, environ={})
            made.append(await stack.enter_async_context(running(make_app(f"sqlite:///{folder}/jobs.db"), settings)))
        for site in made:
            site.keys = made[0].keys
        yield made


def via(shell: Shell, site: Site) -> Shell:
    """The same worker, whose next calls arrive at another server."""
    other = Shell(site, shell.key)
    other.session, other.number = shell.session, shell.number
    return other


async def test_calls_are_done_where_the_session_lives(sites: list[Site]) -> None:
    home, away, _ = sites
    shell = via(await at_work(home), away)
    pulling = asyncio.create_task(shell.job())
    id_ = await submit(home)
    assignment = await pulling
    assert assignment["job"] == id_
    assert (await shell.report(done(assignment, result=7)))["rejected"] == []
    assert (await home.ended(id_))["result"] == 7
    wrong = await shell.call("pull", {"number": -1, "free": 1})
    assert (wrong.status, wrong.document["field"]) == (422, "number")
    stranger = await shell.call("report", {}, key="other-worker")
    assert stranger.status == 410
    assert (await away.ask("POST", f"/v1/workers/{shell.session}/drain", key="operator")).status == 204
    assert (await shell.report())["drain"] is True
    assert (await away.ask("DELETE", f"/v1/workers/{shell.session}", key="worker")).status == 204
    assert (await shell.call("report", {})).status == 410


async def test_a_session_whose_server_cannot_be_reached_is_not_over(sites: list[Site]) -> None:
    home, _, hidden = sites
    shell = via(await at_work(hidden), home)
    answer = await shell.call("pull", {"number": 1, "free": 1})
    assert (answer.status, answer.document["type"]) == (503, "/v1/problems/unavailable")
    assert "MAINSPRING_URL" in answer.document["detail"]
    assert answer.headers["Retry-After"] == "1"


async def test_a_call_is_passed_on_once(sites: list[Site]) -> None:
    home, away, _ = sites
    shell = await at_work(home)
    answer = await away.ask(
        "POST", f"/v1/workers/{shell.session}/report", {}, key="worker", headers={"Mainspring-Forwarded": "1"}
    )
    assert answer.status == 503


async def test_a_server_that_stops_leaves_its_workers_to_the_other(sites: list[Site]) -> None:
    home, away, _ = sites
    shell = await at_work(home)
    await submit(home)
    assignment = await shell.job()
    home.app.stop()
    while home.app._running is not None:  # noqa: ASYNC110  (there is no other sign of its end)
        await asyncio.sleep(0.01)
    back = via(shell, away)
    assert (await back.report(done(assignment, result=8)))["rejected"] == []
    (session,) = [s for s in await away.app.store.list_sessions() if s.remote]
    assert session.name == "shell"
    id_ = await submit(away)
    assert (await back.job())["job"] == id_
