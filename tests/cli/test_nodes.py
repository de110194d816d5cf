"""`mainspring nodes`."""

import asyncio
import os

import pytest

from cli.harness import Cli
from mainspring import App

EVERYWHERE = True


async def insert(app: App, name: str, lease_s: float = 100.0, start: bytes = b"") -> None:
    await app.store.insert_node(start + os.urandom(16 - len(start)), name, lease_s)


def test_no_nodes(cli: Cli) -> None:
    assert cli("nodes", "list", "--json").document == {"nodes": []}
    assert "mainspring worker" in cli("nodes", "list").out


def test_a_worker_is_listed_with_what_it_can_do(cli: Cli) -> None:
    async def look(app: App) -> None:
        running = asyncio.create_task(app.run(signals=False, slots=7))
        from tasks import send  # type: ignore[import-not-found]

        await (await send.submit("a")).result(timeout=10)  # then a worker has registered
        (node,) = (await asyncio.to_thread(cli, "nodes", "list", "--json")).document["nodes"]
        assert {name: node[name] for name in ("alive", "draining", "workers", "live")} == {
            "alive": True,
            "draining": False,
            "workers": 1,
            "live": 0,
        }
        assert node["name"].endswith(f"-{os.getpid()}")
        shown = (await asyncio.to_thread(cli, "nodes", "list")).out
        assert "works" in shown
        app.stop()
        await running

    cli.within(look)


def test_nodes_that_stopped_and_that_leave(cli: Cli) -> None:
    async def prepare(app: App) -> None:
        await insert(app, "gone-1", lease_s=-5)
        await insert(app, "here-2")

    cli.within(prepare)
    assert cli("nodes", "drain", "here-2").out == "here-2 was asked to leave\n"
    gone, here = cli("nodes", "list", "--json").document["nodes"]
    assert (gone["alive"], here["alive"], here["draining"]) == (False, True, True)
    shown = cli("nodes", "list").out
    assert "stopped 5" in shown
    assert "leaving" in shown
    assert "stopped without leaving" in cli.fails(1, "nodes", "drain", "gone-1")


def test_by_the_start_of_an_id(cli: Cli) -> None:
    cli.within(lambda app: insert(app, "one", start=b"\xab\xcd\xef"))
    assert cli("nodes", "drain", "ABCDEF", "one", "--json").document["nodes"][0]["name"] == "one"


WRONG = {
    "unknown": ("three", "there is no node 'three'; there are one, two, two"),
    "too short an id": ("abc", "there is no node 'abc'"),
    "two of that name": ("two", "'two' is not one node but 2: say which by its id"),
    "two of that id": ("abcd", "'abcd' is not one node but 2"),
}


@pytest.mark.parametrize(("name", "problem"), WRONG.values(), ids=WRONG.keys())
def test_nobody_is_asked_where_one_name_is_wrong(cli: Cli, name: str, problem: str) -> None:
    async def prepare(app: App) -> None:
        await insert(app, "one")
        for _ in range(2):
            await insert(app, "two", start=b"\xab\xcd")

    cli.within(prepare)
    assert problem in cli.fails(1, "nodes", "drain", "one", name)
    assert not any(node["draining"] for node in cli("nodes", "list", "--json").document["nodes"])


def test_there_is_nobody(cli: Cli) -> None:
    assert "there is none at all" in cli.fails(1, "nodes", "drain", "one")


def test_a_worker_process_that_is_asked_leaves_as_on_sigterm(cli: Cli) -> None:
    async def work(app: App) -> None:
        ready = asyncio.Event()
        running = asyncio.create_task(app.run(signals=False, slots=7, ready=ready.set))
        await ready.wait()
        (node,) = await app.store.list_nodes()
        ran = await asyncio.to_thread(cli, "nodes", "drain", node.name)
        assert ran.code == 0, ran.err
        async with asyncio.timeout(10):
            await running
        assert await app.store.list_nodes() == []

    cli.within(work)
