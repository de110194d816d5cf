"""Where the API describes itself: /v1/openapi.json and /v1/docs. Both need no key: they say nothing that the source does not."""

from functools import cache
from typing import Any

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from msgspec import json

from mainspring.api.openapi import describe
from mainspring.api.page import page
from mainspring.api.replies import JSON, Reply
from mainspring.api.rooms import OPERATIONS


@cache
def _document() -> dict[str, Any]:
    return describe(OPERATIONS)


async def openapi_json(request: Request[Any, Any, Any]) -> ASGIApp:
    return Reply(200, json.encode(_document()), JSON)


async def docs(request: Request[Any, Any, Any]) -> ASGIApp:
    base = f"{request.scope['scheme']}://{_host(request)}"
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return Reply(
        200, page(_document(), base).encode(), b"text/html; charset=utf-8", {"content-security-policy": policy}
    )


def _host(request: Request[Any, Any, Any]) -> str:
    return next((value.decode("latin-1") for name, value in request.scope["headers"] if name == b"host"), "localhost")


DESCRIPTIONS = [
    HTTPRouteHandler("/v1/openapi.json", http_method="GET", status_code=200)(openapi_json),
    HTTPRouteHandler("/v1/docs", http_method="GET", status_code=200)(docs),
]
