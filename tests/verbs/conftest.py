"""Verbs over real stores, under a clock that stands still: `site` is one of them, once per backend."""

from collections.abc import AsyncIterator, Iterator

import pytest

from contract.backends import BACKENDS, Backend, Fresh
from contract.scene import START, JumpingClock
from verbs.site import Site


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest) -> Fresh:
    return BACKENDS[request.param](request)


@pytest.fixture
def backend(fresh: Fresh) -> Iterator[Backend]:
    with fresh() as made:
        yield made


@pytest.fixture
async def site(backend: Backend) -> AsyncIterator[Site]:
    clock = JumpingClock(START)
    store = await backend.open(clock)
    made = Site(backend, store, clock)
    await made.declare()
    yield made
    made.engine.close()
    made.check()
    await store.close()


@pytest.fixture
async def on_sqlite(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """For what does not depend on the store."""
    with BACKENDS["sqlite"](request)() as backend:
        clock = JumpingClock(START)
        store = await backend.open(clock)
        made = Site(backend, store, clock)
        await made.declare()
        yield made
        made.engine.close()
        await store.close()
