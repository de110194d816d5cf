"""A working folder with an application in it, and the command line on its store."""

import sys
from pathlib import Path

import pytest

from cli.harness import MODULE, Cli
from mainspring import App


@pytest.fixture
def workplace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with tasks.py; the default store will be in it."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MAINSPRING_STORE", raising=False)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    for name in [name for name in sys.modules if name.startswith("tasks")]:
        monkeypatch.delitem(sys.modules, name)
    (folder / "tasks.py").write_text(MODULE)
    return folder


@pytest.fixture
def bare(workplace: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """No store yet."""
    return Cli(capsys)


@pytest.fixture
def cli(bare: Cli) -> Cli:
    """A store that knows the kinds, the schedule and nothing else."""

    async def nothing(app: App) -> None: ...

    bare.within(nothing)
    return bare
