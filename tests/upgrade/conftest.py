"""Each test runs on SQLite and on PostgreSQL, with real processes beside this one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from contract.backends import Backend, Fresh, unused
from contract.invariants import check_invariants
from mainspring.runtime.clock import SystemClock
from mainspring.store.contract import Store
from upgrade.site import Site, settings_of


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest) -> Fresh:
    return unused(request, request.param)


@pytest.fixture
def backend(fresh: Fresh) -> Iterator[Backend]:
    with fresh() as made:
        yield made


@pytest.fixture
async def store(backend: Backend) -> AsyncIterator[Store]:
    """Opened by this process, with the code of today."""
    opened = await backend.open(SystemClock())
    yield opened
    check_invariants(backend, opened)
    await opened.close()


@pytest.fixture
def site(backend: Backend, folder: Path) -> Site:
    return Site(folder, settings_of(backend))
