"""Routes: from a method and an address to their target."""

import pytest

from mainspring.api.routing import MethodError, Routes
from mainspring.errors import NotFoundError


@pytest.fixture
def routes() -> Routes[str]:
    made: Routes[str] = Routes()
    for method, address in [
        ("GET", "/v1/jobs"),
        ("POST", "/v1/jobs"),
        ("POST", "/v1/jobs/bulk"),
        ("GET", "/v1/jobs/{id}"),
        ("GET", "/v1/jobs/{id}/outputs/{name}"),
        ("DELETE", "/v1/jobs/{job}"),
    ]:
        made.add(method, address, f"{method} {address}")
    return made


@pytest.mark.parametrize(
    ("method", "path", "target", "names"),
    [
        ("POST", "/v1/jobs", "POST /v1/jobs", {}),
        ("GET", "/v1/jobs/", "GET /v1/jobs", {}),
        ("POST", "/v1/jobs/bulk", "POST /v1/jobs/bulk", {}),
        ("GET", "/v1/jobs/7", "GET /v1/jobs/{id}", {"id": "7"}),
        ("DELETE", "/v1/jobs/7", "DELETE /v1/jobs/{job}", {"job": "7"}),
        ("GET", "/v1/jobs/a%2Fb", "GET /v1/jobs/{id}", {"id": "a%2Fb"}),
        ("GET", "/v1/jobs/bulk/outputs/x", "GET /v1/jobs/{id}/outputs/{name}", {"id": "bulk", "name": "x"}),
    ],
)
def test_found(routes: Routes[str], method: str, path: str, target: str, names: dict[str, str]) -> None:
    assert routes.find(method, path) == (target, names)


@pytest.mark.parametrize(
    "path", ["/", "", "/v1", "/v1/jobs/7/outputs", "/v1/jobs/7/outputs/a/b", "/v2/jobs", "/v1//jobs"]
)
def test_not_there(routes: Routes[str], path: str) -> None:
    with pytest.raises(NotFoundError, match="nothing at this address"):
        routes.find("GET", path)


def test_other_methods(routes: Routes[str]) -> None:
    with pytest.raises(MethodError) as caught:
        routes.find("PUT", "/v1/jobs")
    assert caught.value.allow == "GET, POST"


def test_nothing_is_served_twice(routes: Routes[str]) -> None:
    with pytest.raises(LookupError, match="is served twice"):
        routes.add("GET", "/v1/jobs/{other}", "x")
