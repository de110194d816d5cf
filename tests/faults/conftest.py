"""Makes `faults.scene` importable for the processes that the tests start, and adds the options of the soak."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.harness import Site


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak", "random faults")
    group.addoption("--soak", action="store_true", help="run the random faults for long (600 s)")
    group.addoption("--soak-seconds", type=float, default=None, help="how long the random faults last")
    group.addoption("--soak-seed", type=int, default=None, help="repeat the faults of a seed that was printed")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder with a store and an effect log, and the processes that work on it; whatever lives at the end is killed."""
    place = Site(tmp_path)
    monkeypatch.setenv("FAULTS_LOG", str(place.log))
    yield place
    place.close()
