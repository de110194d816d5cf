"""What all tests share: a fast folder, and how long property tests look."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "unit")]

_MEMORY = Path("/dev/shm")
_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

# `make test` looks briefly; HYPOTHESIS_PROFILE=deep looks for long.
settings.register_profile("quick", deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile("deep", max_examples=2000, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the test's own, in memory where there is such a place: syncing a disk proves nothing here."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None, prefix="mainspring-") as name:
        yield Path(name)
