"""The model runs once per database; a pooler in front of one would only make it slower."""

import pytest

from contract.backends import BACKENDS, Fresh


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest) -> Fresh:
    return BACKENDS[request.param](request)
