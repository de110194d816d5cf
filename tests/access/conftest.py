"""Each test that asks for a store runs on SQLite and on PostgreSQL, under a clock that stands still."""

from collections.abc import AsyncIterator

import pytest
from msgspec import json

from access.scene import ROOT, Watched
from contract.backends import BACKENDS, Fresh
from contract.scene import START
from mainspring.core.options import JobOptions
from mainspring.objects.place import ObjectPlace
from mainspring.runtime.clock import ManualClock
from mainspring.store.contract import KindRecord, Store
from mainspring.verbs.engine import Engine
from mainspring.verbs.local import LocalVerbs


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest) -> Fresh:
    return BACKENDS[request.param](request)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def store(fresh: Fresh, clock: ManualClock) -> AsyncIterator[Store]:
    with fresh() as backend:
        opened = await backend.open(clock)
        yield opened
        await opened.close()


@pytest.fixture
def watched(store: Store) -> Watched:
    """The same store, and what it was asked."""
    return Watched(store)


@pytest.fixture
async def engine(store: Store) -> AsyncIterator[Engine]:
    """Over a store in which an application has declared the kind `send`."""
    await store.put_kinds([KindRecord("send", json.encode(JobOptions(queue="mail")))], {})
    made = Engine(store, ObjectPlace("memory:///"))
    yield made
    made.close()


@pytest.fixture
def verbs(engine: Engine) -> LocalVerbs:
    """Those of somebody who has the store, for the default tenant."""
    return engine.verbs("default", ROOT)
