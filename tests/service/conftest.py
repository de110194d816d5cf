"""Each test that asks for a place runs over SQLite, over PostgreSQL, and over HTTP to a server on SQLite."""

from collections.abc import AsyncIterator

import pytest

from contract.backends import BACKENDS
from service.places import Place, opened

PLACES = {"sqlite": "sqlite", "postgres": "postgres", "http": "sqlite"}


@pytest.fixture(params=PLACES)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    async with opened(BACKENDS[PLACES[request.param]](request), "http" if request.param == "http" else "store") as made:
        yield made


@pytest.fixture
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """The one over HTTP only: for tests that compare it with the store behind it."""
    async with opened(BACKENDS["sqlite"](request), "http") as made:
        yield made
