"""Each test of this folder runs once per backend, under a clock that stands still, and ends with all invariants checked."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from contract.backends import Backend, SqliteBackend, sqlite_shards
from contract.invariants import check_invariants
from contract.scene import START, JumpingClock, Scene
from mainspring.store.contract import Store

BACKENDS: dict[str, Callable[[Path], Backend]] = {
    "sqlite": SqliteBackend,
    "shards": sqlite_shards,
}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, folder: Path) -> Backend:
    return BACKENDS[request.param](folder)


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock(START)


@pytest.fixture
async def store(backend: Backend, clock: JumpingClock) -> AsyncIterator[Store]:
    opened = await backend.open(clock)
    yield opened
    check_invariants(backend, opened)
    await opened.close()


@pytest.fixture
def scene(backend: Backend, store: Store, clock: JumpingClock) -> Scene:
    return Scene(backend, store, clock)
