"""What a job of type `http` sends: `Request`, made from its arguments. Pure.

Guarantees: a value that HTTP cannot carry is refused with the argument named, and no message shows a secret: the URL is shown as it
was submitted, without its query.
"""

import re
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from mainspring.errors import InvalidError
from mainspring.execute.http.signing import HEADER
from mainspring.execute.placeholders import Secret, fill, fill_url, fill_value

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_REPEATABLE = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")
_OF_CONNECTIONS = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect", "upgrade")
_OURS = (*_OF_CONNECTIONS, HEADER.lower())


class Request(Struct, frozen=True):
    """One request, secrets put in. `shown`: the URL for people."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    shown: str
    key: str | None = None  # what to sign it with


def check_url(field: str, url: str) -> None:
    """A URL that a request can be sent to. Its text is not shown: a secret may be in it."""
    if any(character.isspace() or not character.isprintable() for character in url):
        raise InvalidError(field, "holds a space or a line break; write %20 for a space")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidError(field, f"{error}; expected a URL such as https://example.org/hook") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise InvalidError(field, "expected a URL such as https://example.org/hook: http or https, and a host")
    if parts.username is not None or parts.password is not None:
        raise InvalidError(field, "has a user or a password in it: send an Authorization header, with a secret")


def check_headers(field: str, headers: dict[str, str]) -> None:
    seen: set[str] = set()
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise InvalidError(field, f"{name!r} is not a header's name")
        if name.lower() in _OURS:
            raise InvalidError(f"{field}.{name}", "is set by Mainspring; leave it out")
        if name.lower() in seen:
            raise InvalidError(f"{field}.{name}", "is there twice")
        if any(character in value for character in "\r\n\0"):
            raise InvalidError(f"{field}.{name}", "holds a line break or a NUL")
        seen.add(name.lower())


def prepare(
    url: str, method: str, headers: dict[str, str], body: Any, *, secret: Secret, sign: str | None, default_key: str
) -> Request:
    """`default_key` goes with a request that is not repeatable by its nature, so that its receiver knows it again."""
    filled = fill_url(url, secret)
    check_url("url", filled)
    sent = {name: fill(value, secret) for name, value in headers.items()}
    check_headers("headers", sent)
    content, media = _encoded(body, secret)
    if media is not None:
        _add(sent, "Content-Type", media)
    if method not in _REPEATABLE:
        _add(sent, IDEMPOTENCY_KEY, default_key)
    return Request(method, filled, sent, content, shown(url), None if sign is None else secret(sign))


def shown(url: str) -> str:
    """For messages: a query often holds what is nobody's business."""
    before, mark, _ = url.partition("#")[0].partition("?")
    return before + ("?…" if mark else "")


def _encoded(body: Any, secret: Secret) -> tuple[bytes, str | None]:
    match fill_value(body, secret):
        case None:
            return b"", None
        case str(text):
            return text.encode(), "text/plain; charset=utf-8"
        case value:
            return msgspec.json.encode(value), "application/json"


def _add(headers: dict[str, str], name: str, value: str) -> None:
    if name.lower() not in {given.lower() for given in headers}:
        headers[name] = value
