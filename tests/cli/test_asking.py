"""Which server a command asks, and what it says where there is none, or where it is not let in."""

from pathlib import Path

import pytest

from cli.harness import Cli
from mainspring.app import App
from mainspring.cli import opening
from service.serving import served_apart


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_PATIENCE_S", 0.2)


def test_a_server_that_is_not_there(bare: Cli) -> None:
    assert "is the server running" in bare.fails(3, "jobs", "list", "--server", "http://127.0.0.1:1")
    assert not Path("mainspring.db").exists()


def test_what_is_no_server(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("localhost:8420", "http://", "http://u:secret@localhost", "sqlite:///x.db"):
        said = bare.fails(2, "jobs", "list", "--server", url)
        assert said.startswith("server: ")
        assert "secret" not in said
    both = bare.fails(2, "jobs", "list", "--server", "http://localhost:1", "--store", "sqlite:///x.db")
    assert both.startswith("server: ")
    monkeypatch.setenv("MAINSPRING_SERVER", "http://127.0.0.1:1")
    assert "there is no store" in bare.fails(3, "jobs", "list", "--store", "sqlite:///x.db")  # --store wins over it
    assert "is the server running" in bare.fails(3, "queues", "list")


def test_the_key_comes_from_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with served_apart(App(f"sqlite:///{Path('mainspring.db').absolute()}"), keys=True) as server:
        monkeypatch.setenv("MAINSPRING_SERVER", server.url)
        assert "Authorization" in cli.fails(1, "jobs", "list")
        monkeypatch.setenv("MAINSPRING_KEY", str(server.key))
        assert cli("jobs", "list").out == "no jobs\n"
        viewer = cli("keys", "create", "v", "--role", "viewer", "--json").document["key"]
        job = cli("submit", "send", "--args", '{"to": "a"}', "--delay", "1h").out.strip()
        monkeypatch.setenv("MAINSPRING_KEY", viewer)
        assert job in cli("jobs", "list").out
        assert "viewer" in cli.fails(1, "jobs", "cancel", job)
        assert "viewer" in cli.fails(1, "submit", "send", "--args", '{"to": "a"}')
