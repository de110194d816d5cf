"""Each test of this folder runs once per backend, under a clock that stands still, and ends with all invariants checked."""

from collections.abc import AsyncIterator, Iterator

import pytest

from contract.backends import BACKENDS, Backend, Fresh
from contract.invariants import check_invariants
from contract.scene import START, JumpingClock, Scene
from mainspring.store.contract import Store


@pytest.fixture(scope="session", params=BACKENDS)
def fresh(request: pytest.FixtureRequest) -> Fresh:
    """For tests that need many databases, one after the other."""
    return BACKENDS[request.param](request)


@pytest.fixture
def backend(fresh: Fresh) -> Iterator[Backend]:
    with fresh() as made:
        yield made


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock(START)


@pytest.fixture
async def store(backend: Backend, clock: JumpingClock) -> AsyncIterator[Store]:
    opened = await backend.open(clock)
    yield opened
    try:
        check_invariants(backend, opened)
    finally:
        await opened.close()


@pytest.fixture
def scene(backend: Backend, store: Store, clock: JumpingClock) -> Scene:
    return Scene(backend, store, clock)
