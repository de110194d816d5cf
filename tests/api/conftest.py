"""A server for each test, on SQLite; `each_site` once more on PostgreSQL."""

from collections.abc import AsyncIterator, Iterator
from datetime import date
from pathlib import Path

import pytest

from api.site import Site, make_app, running
from mainspring.config import serve_settings
from mainspring.secrets.keys import VARIABLE, new_key
from mainspring.store.opening import StoreSettings


@pytest.fixture(scope="package", autouse=True)
def master_keys() -> Iterator[None]:
    """Servers can seal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, new_key(date(2030, 1, 1)))
        yield


@pytest.fixture
async def site(folder: Path) -> AsyncIterator[Site]:
    async with running(make_app(f"sqlite:///{folder}/jobs.db")) as made:
        yield made


@pytest.fixture
async def open_site(folder: Path) -> AsyncIterator[Site]:
    """Without keys."""
    async with running(make_app(f"sqlite:///{folder}/jobs.db"), serve_settings(port=0, keys=False, environ={})) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
async def each_site(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Site]:
    app = make_app(f"sqlite:///{folder}/jobs.db")
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        schema = f"api_{folder.name.replace('-', '_')}"[:40].lower()
        app.store_settings = StoreSettings(server.url, schema)
    async with running(app) as made:
        yield made
