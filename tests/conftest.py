"""What all tests share: a fast folder, a PostgreSQL server and a pooler for those who ask, how long property tests look, compiled
code for the hundreds of processes that tests start."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "unit")]

from postgres.pooler import Pooler
from postgres.server import NoServerError, Server

_MEMORY = Path("/dev/shm")
_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

# `make test` looks briefly; HYPOTHESIS_PROFILE=deep looks for long.
settings.register_profile("quick", deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile("deep", max_examples=2000, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_configure(config: pytest.Config) -> None:
    """What one process has compiled the next one need not, wherever compiled code may not be written beside its source."""
    if "PYTHONPYCACHEPREFIX" not in os.environ:  # else whoever started this process has done so
        compiled = tempfile.mkdtemp(prefix="mainspring-compiled-")
        config.add_cleanup(lambda: shutil.rmtree(compiled, ignore_errors=True))
        os.environ["PYTHONPYCACHEPREFIX"] = compiled
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the test's own, in memory where there is such a place: syncing a disk proves nothing here."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None, prefix="mainspring-") as name:
        yield Path(name)


def absent(reason: str) -> NoReturn:
    """A real part that is not here: on a laptop that skips the tests that need it, in CI it is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server for all tests of this process, or the one that MAINSPRING_TEST_POSTGRES names."""
    if url := os.environ.get("MAINSPRING_TEST_POSTGRES"):
        yield Server.given(url)
        return
    try:
        server = Server.start()
    except NoServerError as error:
        absent(str(error))
    yield server
    server.close()


@contextmanager
def _durable_server() -> Iterator[Server]:
    if "MAINSPRING_TEST_POSTGRES" in os.environ:
        pytest.skip("needs a server that it may stop: unset MAINSPRING_TEST_POSTGRES")
    try:
        server = Server.start(durable=True)
    except NoServerError as error:
        absent(str(error))
    yield server
    server.close()


@pytest.fixture
def fresh_postgres() -> Iterator[Server]:
    """A server of the test's own, as durable as PostgreSQL is by default: to stop, to crash, to change."""
    with _durable_server() as server:
        yield server


@pytest.fixture(scope="session")
def durable_postgres() -> Iterator[Server]:
    """The same for all tests of this process that leave it running and unchanged when they have stopped and started it."""
    with _durable_server() as server:
        yield server


@pytest.fixture(scope="session")
def pooler(postgres: Server) -> Iterator[Pooler]:
    """A pgbouncer in transaction mode in front of that server, for all tests of this process."""
    try:
        made = Pooler.start(postgres.url)
    except NoServerError as error:
        absent(str(error))
    yield made
    made.close()
