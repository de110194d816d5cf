"""Makes `faults.scene` importable for the processes that the tests start, and adds the options of the soak."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.harness import STORES, Site
from faults.places import File, Place, Schema
from faults.small_disk import mounted_disk
from postgres.proxy import Proxy
from postgres.server import Server

MakeSite = Callable[[Place], Site]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak", "random faults")
    group.addoption(
        "--soak", action="store_true", help="run the random faults for long (600 s), and tell how far they are"
    )
    group.addoption("--soak-seconds", type=float, default=None, help="how long they last; else SOAK_SECONDS")
    group.addoption(
        "--soak-seed", type=int, default=None, help="repeat those of a seed that was printed; else SOAK_SEED"
    )


def make_place(request: pytest.FixtureRequest, folder: Path) -> Place:
    """An empty database of the kind that the fixture's parameter names. A server is started for who needs one, not before."""
    if request.param == "sqlite":
        return File(folder / "faults.db")
    server: Server = request.getfixturevalue("postgres")
    return Schema(server.url)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return make_place(request, tmp_path)


@pytest.fixture(params=STORES, scope="module")
def shared_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same for all tests of a file."""
    return make_place(request, tmp_path_factory.mktemp("shared"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes; skips where there can be none."""
    with mounted_disk(tmp_path) as disk:
        yield disk


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    """The network between the processes of a test and the server; the test itself reads past it."""
    with Proxy(postgres.url) as made:
        yield made


@pytest.fixture
def proxied_site(proxy: Proxy, postgres: Server, make_site: MakeSite) -> Site:
    """On PostgreSQL, behind the proxy."""
    return make_site(Schema(postgres.url, proxy.url))


@pytest.fixture
def durable_site(durable_postgres: Server, make_site: MakeSite) -> Site:
    """On a server that the test may stop and start."""
    return make_site(Schema(durable_postgres.url))


@pytest.fixture
def site(place: Place, make_site: MakeSite) -> Site:
    """On each store in turn."""
    return make_site(place)


@pytest.fixture
def make_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeSite]:
    """A database and an effect log, and the processes that work there; whatever lives at the end is killed."""
    sites: list[Site] = []

    def make(place: Place) -> Site:
        sites.append(Site(tmp_path, place))
        monkeypatch.setenv("FAULTS_LOG", str(sites[-1].log))
        return sites[-1]

    yield make
    for site in sites:
        site.close()
