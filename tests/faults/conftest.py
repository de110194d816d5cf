"""Makes `faults.scene` importable for the processes that the tests start, and adds the options of the soak."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.harness import STORES, Site
from faults.places import File, Place, Schema
from postgres.server import Server


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak", "random faults")
    group.addoption("--soak", action="store_true", help="run the random faults for long (600 s)")
    group.addoption("--soak-seconds", type=float, default=None, help="how long the random faults last")
    group.addoption("--soak-seed", type=int, default=None, help="repeat the faults of a seed that was printed")


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
def site(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A database and an effect log, and the processes that work there; whatever lives at the end is killed."""
    made = Site(tmp_path, place)
    monkeypatch.setenv("FAULTS_LOG", str(made.log))
    yield made
    made.close()
