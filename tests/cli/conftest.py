"""A working folder with an application in it, and the command line on its store."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from cli.harness import MODULE, Cli
from mainspring import App


@pytest.fixture
def workplace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with tasks.py; the default store will be in it."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MAINSPRING_STORE", raising=False)
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
def cli(bare: Cli) -> Cli:
    """A store that knows the kinds, the schedule and nothing else."""

    async def nothing(app: App) -> None: ...

    bare.within(nothing)
    return bare
