"""A working folder with an application in it, and the command line on its store."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from cli.harness import MODULE, Cli
from mainspring import App
from service.serving import api_apart


@pytest.fixture
def workplace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with tasks.py; the default store will be in it."""
    monkeypatch.chdir(folder)
    for name in ("STORE", "SERVER", "KEY"):
        monkeypatch.delenv(f"MAINSPRING_{name}", raising=False)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    (folder / "tasks.py").write_text(MODULE)
    before = set(sys.modules)
    yield folder
    for name in [name for name in sys.modules if name.startswith("tasks") and name not in before]:
        del sys.modules[name]
    structlog.reset_defaults()  # `dev` and `worker` choose where log lines go, and that place ends with the test


@pytest.fixture
def bare(workplace: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """No store yet."""
    return Cli(capsys)


@pytest.fixture
def cli(bare: Cli, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """A store that knows the kinds, the schedule and nothing else; or a server that has it."""

    async def nothing(app: App) -> None: ...

    bare.within(nothing)
    if getattr(request, "param", "store") == "store":
        yield bare
        return
    with api_apart(Path("mainspring.db").absolute()) as url:
        monkeypatch.setenv("MAINSPRING_SERVER", url)
        yield bare


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of a module with EVERYWHERE run on a store and at a server: a command says the same there."""
    if "cli" in metafunc.fixturenames and getattr(metafunc.module, "EVERYWHERE", False):
        metafunc.parametrize("cli", ["store", "server"], indirect=True)
