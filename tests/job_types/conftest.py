"""A sandbox for the tests that need one: absent on a laptop it skips them, absent in CI it fails them."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conftest import absent
from job_types.programs import HostHere
from mainspring.execute.sandbox.ability import ability


@pytest.fixture
def sandbox() -> None:
    if (why_not := ability().why_not) is not None:
        absent(why_not)


@pytest.fixture
def open_folder(folder: Path) -> Path:
    """One that others may look into."""
    folder.chmod(0o755)
    return folder


@pytest.fixture
def marker() -> str:
    """What a process that stays behind is known by."""
    return f"left-behind-{uuid.uuid4().hex}"


@pytest.fixture
async def host_here(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HostHere]:
    host = HostHere()
    monkeypatch.setattr("mainspring.execute.sandbox.run.host", lambda: host)
    yield host
    await host.close()
