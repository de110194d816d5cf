"""Where the API describes itself: /v1/openapi.json, and /v1/docs with its script. No key is needed: the source says as much.

Whoever tries requests on the page types a key into it, so its policy lets it run our own files and ask this server, nothing else.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from msgspec import json

from mainspring.api.openapi import describe
from mainspring.api.page import page
from mainspring.api.replies import JSON, Reply
from mainspring.api.rooms import OPERATIONS

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)
#: Asked for each time: a page of one version never runs the script of another.
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

_FILES = {
    "page.css": b"text/css; charset=utf-8",
    **dict.fromkeys(("page.mjs", "request.mjs", "answer.mjs"), b"text/javascript; charset=utf-8"),
}


@cache
def _document() -> dict[str, Any]:
    return describe(OPERATIONS)


async def openapi_json(request: Request[Any, Any, Any]) -> ASGIApp:
    return Reply(200, json.encode(_document()), JSON)


async def docs(request: Request[Any, Any, Any]) -> ASGIApp:
    base = f"{request.scope['scheme']}://{_host(request)}"
    headers = _HEADERS | {"content-security-policy": _POLICY}
    return Reply(200, page(_document(), base).encode(), b"text/html; charset=utf-8", headers)


def _host(request: Request[Any, Any, Any]) -> str:
    return next((value.decode("latin-1") for name, value in request.scope["headers"] if name == b"host"), "localhost")


def _file(name: str, media: bytes) -> HTTPRouteHandler:
    """A file that the page loads."""
    reply = Reply(200, files("mainspring.api").joinpath("browser", name).read_bytes(), media, _HEADERS)

    async def serve(request: Request[Any, Any, Any]) -> ASGIApp:
        return reply

    return HTTPRouteHandler(f"/v1/docs/{name}", http_method="GET", status_code=200)(serve)


DESCRIPTIONS = [
    HTTPRouteHandler("/v1/openapi.json", http_method="GET", status_code=200)(openapi_json),
    HTTPRouteHandler("/v1/docs", http_method="GET", status_code=200)(docs),
    *(_file(name, media) for name, media in _FILES.items()),
]
