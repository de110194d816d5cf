"""Questions to a server in documents: what each verb of the client is made of.

Guarantees: what goes out is one document as JSON, what comes back is checked against the type that was asked for; an answer that
does not fit is a `ServerError`, never half of a document. Reading is repeated when an answer gets lost; what changes something is
repeated only where the verb says that this is harmless.
"""

import math
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import MsgspecError, json, to_builtins

from mainspring.client.transport import Transport
from mainspring.errors import InvalidError, ServerError
from mainspring.store.service import ALL_TENANTS

T = TypeVar("T")
Query = str | int | float | datetime | None

OWN = ""  # no tenant's name

_TIMEOUT_S = 30.0
_SILENCE_S = 60.0  # in which something of a large answer must come
_PIECE = 1_048_576

_encode = json.Encoder().encode


class UnreadableError(ServerError):
    """An answer that came, and is none. Asking again would bring the same."""


class Asker:
    """Asks one server for one tenant; None: for all that the key may act for. `OWN`: the key's, or the default one."""

    def __init__(self, transport: Transport, tenant: str | None) -> None:
        self.transport = transport
        self.tenant = tenant

    async def get(self, path: str, type: type[T], **query: Query) -> T:
        return decoded(await self._send("GET", path, query=query, repeatable=True), type)

    async def post(
        self,
        path: str,
        type: type[T],
        document: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
        timeout_s: float = _TIMEOUT_S,
    ) -> T:
        reply = await self._send("POST", path, document, headers=headers, repeatable=repeatable, timeout_s=timeout_s)
        return decoded(reply, type)

    async def put(self, path: str, type: type[T], document: object) -> T:
        return decoded(await self._send("PUT", path, document, repeatable=True), type)

    async def patch(self, path: str, type: type[T], document: object) -> T:
        return decoded(await self._send("PATCH", path, document, repeatable=True), type)

    async def delete(self, path: str, type: type[T]) -> T:
        return decoded(await self._send("DELETE", path), type)

    async def order(self, method: str, path: str, document: object = None, *, repeatable: bool = False) -> None:
        """Where the answer says nothing."""
        await self._send(method, path, document, repeatable=repeatable)

    async def _send(
        self,
        method: str,
        path: str,
        document: object = None,
        *,
        query: Mapping[str, Query] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
        timeout_s: float = _TIMEOUT_S,
    ) -> bytes:
        reply = await self.transport.request(
            method,
            path,
            body=None if document is None else encoded(document),
            headers=self.headers() | dict(headers or {}),
            query=texts(query or {}),
            repeatable=repeatable,
            timeout_s=timeout_s,
        )
        return reply.body

    def headers(self) -> dict[str, str]:
        return tenant_header(self.tenant)


async def download(asker: Asker, path: str) -> AsyncGenerator[bytes, None]:
    """A large answer as it comes. Not asked for again where it breaks off, which is a `ServerError`."""
    async with asker.transport.stream(path, headers=asker.headers(), silence_s=_SILENCE_S) as content:
        async for piece in content.iter_chunked(_PIECE):
            yield piece


def tenant_header(tenant: str | None) -> dict[str, str]:
    return {} if tenant == OWN else {"Mainspring-Tenant": ALL_TENANTS if tenant is None else tenant}


def encoded(document: object) -> bytes:
    """A document as JSON, which has no NaN and no infinity: msgspec would write null instead, and mean something else."""
    plain = to_builtins(document)
    _refuse_not_finite("", plain)
    return _encode(plain)


def _refuse_not_finite(field: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidError(field, f"must be a finite number, not {value}")
    if isinstance(value, dict):
        for name, inner in value.items():
            _refuse_not_finite(f"{field}.{name}" if field else str(name), inner)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            _refuse_not_finite(f"{field}[{place}]", inner)


def decoded(body: bytes, type: type[T]) -> T:
    """An answer as what it should be."""
    wanted: Any = type  # a list of something is not a class to type checkers
    try:
        answer: T = _decoder(wanted).decode(body)
    except (MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableError(
            f"the server's answer cannot be read ({error}): is its version newer than this one?"
        ) from None
    return answer


def path(*parts: str) -> str:
    """A path of plain words and of names, which may hold anything, but not be what a path has another meaning for."""
    for part in parts:
        if part in ("", ".", ".."):
            raise InvalidError("name", f"{part!r} cannot be asked for at a server")
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


@cache
def _decoder(type: Any) -> "json.Decoder[Any]":
    return json.Decoder(type)


def texts(query: Mapping[str, Query]) -> dict[str, str]:
    """What stands behind the question mark; None is left out."""
    return {name: _text(value) for name, value in query.items() if value is not None}


def _text(value: Query) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)
