"""Databases for the model, of the kind that a test names."""

import pytest

from contract.backends import BACKENDS, Fresh


@pytest.fixture(scope="session")
def fresh(request: pytest.FixtureRequest) -> Fresh:
    return BACKENDS[request.param](request)
