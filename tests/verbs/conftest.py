"""Verbs over real stores, under a clock that stands still: `site` is one of them, once per backend."""

from collections.abc import AsyncIterator, Iterator

import pytest

from contract.backends import BACKENDS, Backend, Fresh
from contract.scene import START, JumpingClock
from verbs.site import Site, SiteAtServer


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest) -> Fresh:
    return BACKENDS[request.param](request)


@pytest.fixture
def backend(fresh: Fresh) -> Iterator[Backend]:
    with fresh() as made:
        yield made


@pytest.fixture(params=["here", "http"])
async def site(backend: Backend, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """The verbs over the store, and those over HTTP to a server that has it."""
    clock = JumpingClock(START)
    store = await backend.open(clock)
    made = (Site if request.param == "here" else SiteAtServer)(backend, store, clock)
    await made.start()
    yield made
    await made.stop()
    made.check()
    await store.close()


@pytest.fixture
async def on_sqlite(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """For what does not depend on the store."""
    with BACKENDS["sqlite"](request)() as backend:
        clock = JumpingClock(START)
        store = await backend.open(clock)
        made = Site(backend, store, clock)
        await made.start()
        yield made
        await made.stop()
        await store.close()
