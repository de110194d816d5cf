"""Where the API describes itself: /v1/openapi.json, and /v1/docs with its script. No key is needed: the source says as much.

Whoever tries requests on the page types a key into it, so its policy lets it run our own files and ask this server, nothing else.
"""

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import json

from mainspring.api.asgi import Scope
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

Describe = Callable[[Scope], Reply]

_FILES = {
    "page.css": b"text/css; charset=utf-8",
    **dict.fromkeys(("page.mjs", "request.mjs", "answer.mjs"), b"text/javascript; charset=utf-8"),
}


@cache
def _document() -> dict[str, Any]:
    return describe(OPERATIONS)


def openapi_json(_: Scope) -> Reply:
    return Reply(200, json.encode(_document()), JSON)


def docs(scope: Scope) -> Reply:
    base = f"{scope['scheme']}://{_host(scope)}"
    headers = _HEADERS | {"content-security-policy": _POLICY}
    return Reply(200, page(_document(), base).encode(), b"text/html; charset=utf-8", headers)


def _host(scope: Scope) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "localhost")


def _file(name: str, media: bytes) -> Describe:
    """A file that the page loads."""
    reply = Reply(200, files("mainspring.api").joinpath("browser", name).read_bytes(), media, _HEADERS)

    return lambda _: reply


DESCRIPTIONS: dict[str, Describe] = {
    "/v1/openapi.json": openapi_json,
    "/v1/docs": docs,
    **{f"/v1/docs/{name}": _file(name, media) for name, media in _FILES.items()},
}
