"""`mainspring workers`, and which place a command asks."""

import os

import pytest

from cli.harness import Cli
from mainspring import App, InvalidError
from mainspring.cli.opening import server_meant
from mainspring.core.partition import format_id
from mainspring.wire import WorkerInfo

SESSION = b"\1" * 16


async def register(app: App) -> None:
    node = os.urandom(16)
    await app.store.insert_node(node, "host-1", 100.0)
    info = WorkerInfo(name="w1", slots=7, kinds=frozenset({"send", "report"}), labels=frozenset({"eu"}))
    await app.store.insert_session(SESSION, node, "w1", info)


def test_no_workers(cli: Cli) -> None:
    assert cli("workers", "list", "--json").document == {"workers": []}
    assert "mainspring worker" in cli("workers", "list").out


def test_workers_are_listed(cli: Cli) -> None:
    cli.within(register)
    (worker,) = cli("workers", "list", "--json").document["workers"]
    assert (worker["id"], worker["name"], worker["node"], worker["slots"]) == (format_id(SESSION), "w1", "host-1", 7)
    assert (worker["alive"], worker["live"], worker["kinds"], worker["labels"]) == (True, 0, ["report", "send"], ["eu"])
    shown = cli("workers", "list").out
    assert "works" in shown
    assert "report, send" in shown


@pytest.mark.parametrize("verb", ["drain", "remove"])
def test_a_worker_is_asked_through_its_server(cli: Cli, verb: str) -> None:
    cli.within(register)
    assert "--server" in cli.fails(1, "workers", verb, format_id(SESSION))
    assert "no worker" in cli.fails(1, "workers", verb, format_id(b"\2" * 16))
    cli.fails(2, "workers", verb, "w1")


def test_a_node_that_stopped_is_removed(cli: Cli) -> None:
    async def prepare(app: App) -> None:
        await app.store.insert_node(b"\1" * 16, "gone-1", -5.0)
        await app.store.insert_node(b"\2" * 16, "here-2", 100.0)

    cli.within(prepare)
    assert cli("nodes", "remove", "gone-1").out == "gone-1 is removed\n"
    assert "is alive" in cli.fails(1, "nodes", "remove", "here-2")
    assert [node["name"] for node in cli("nodes", "list", "--json").document["nodes"]] == ["here-2"]


def test_a_server_or_a_store() -> None:
    server = "http://127.0.0.1:8420"
    assert server_meant(None, None, {}) is None
    assert server_meant(None, server, {}) == server
    assert server_meant(None, None, {"MAINSPRING_SERVER": server}) == server
    assert server_meant("sqlite:///x.db", None, {"MAINSPRING_SERVER": server}) is None
    for store, given in (("sqlite:///x.db", server), (None, "sqlite:///x.db"), (None, "")):
        with pytest.raises(InvalidError) as caught:
            server_meant(store, given, {})
        assert caught.value.field == "server"
