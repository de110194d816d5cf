"""One request and its answer, over a connection that leads only where it may: `exchange`.

Used by the type `http`. Guarantees: every connection is checked with the address that it goes to (`execute.addresses`); nothing of
the environment (proxies, netrc) and nothing of an earlier exchange (cookies, open connections) has a part in it; redirects are
followed for GET and HEAD, at most `MAX_REDIRECTS`, to the same host only and never from https to http.
"""

import errno
import socket
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from mainspring.errors import InvalidError
from mainspring.execute.addresses import VARIABLE, Allowed
from mainspring.execute.http.requests import Request
from mainspring.execute.http.signing import HEADER, signature

if TYPE_CHECKING:
    from aiohttp import ClientResponse, TraceRequestChunkSentParams
    from yarl import URL

MAX_REDIRECTS = 5

_CONNECT_S = 10.0
_SILENCE_S = 300.0  # longer than servers and what is between wait for each other
_REDIRECTS = (301, 302, 303, 307, 308)
_OWN_HEADERS = {"User-Agent": "Mainspring", "Accept-Encoding": "identity", "Accept": "*/*"}


class ExchangeError(Exception):
    """There was no answer; the message says why, without the URL. Another try may get one."""


class Traffic:
    """Bytes of bodies that went over the network, in all hops."""

    def __init__(self) -> None:
        self.sent = self.received = 0

    async def count_sent(self, _session: object, _context: object, sent: "TraceRequestChunkSentParams") -> None:
        self.sent += len(sent.chunk)


class _Door:
    """Makes the sockets of one connection. `refused`: the addresses that it would not make one for, if it has made none."""

    def __init__(self, allowed: Allowed, host: str, port: int) -> None:
        self._allowed = allowed
        self._host, self._port = host, port
        self._opened = False
        self._refused: list[str] = []

    @property
    def refused(self) -> list[str]:
        return [] if self._opened else self._refused

    def __call__(self, found: tuple[Any, ...]) -> socket.socket:
        """`found`: one answer of getaddrinfo, which the socket is connected to next."""
        family, kind, protocol, _, (address, *_) = found
        if not self._allowed.permits(self._host, self._port, address):
            self._refused.append(address)
            raise OSError(errno.EACCES, f"{address} is not public")
        self._opened = True
        return socket.socket(family, kind, protocol)


@asynccontextmanager
async def exchange(
    request: Request, allowed: Allowed, expected: frozenset[int], traffic: Traffic
) -> AsyncIterator["ClientResponse"]:
    """The answer, its body still unread. A redirect whose status is expected is the answer."""
    from yarl import URL

    url = URL(request.url)
    for _ in range(MAX_REDIRECTS + 1):
        async with _answer(request, url, allowed, traffic) as response:
            target = _redirect(request, response, expected)
            if target is None:
                yield response
                return
            url = target
    raise InvalidError("url", f"{request.shown} redirects more than {MAX_REDIRECTS} times")


@asynccontextmanager
async def _answer(request: Request, url: "URL", allowed: Allowed, traffic: Traffic) -> AsyncIterator["ClientResponse"]:
    import aiohttp

    door = _Door(allowed, url.host or "", url.port or 0)
    connector = aiohttp.TCPConnector(
        ssl=trusted(), force_close=True, use_dns_cache=False, resolver=aiohttp.ThreadedResolver(), socket_factory=door
    )
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    counting = aiohttp.TraceConfig()
    counting.on_request_chunk_sent.append(traffic.count_sent)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        trace_configs=[counting],
    ) as session:
        try:
            async with session.request(
                request.method,
                url,
                headers=_headers(request, url),
                data=BytesIO(request.body) if request.body else None,
                allow_redirects=False,
            ) as response:
                try:
                    yield response
                finally:
                    traffic.received += response.content.total_bytes
        except aiohttp.InvalidURL:
            raise InvalidError(
                "url", f"{request.shown}: its host is neither a name nor an address in its usual form"
            ) from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if door.refused:
                raise _not_public(url, door.refused) from None
            raise ExchangeError(_words(error)) from None


def _headers(request: Request, url: "URL") -> dict[str, str]:
    given = {name.lower() for name in request.headers}
    headers = {name: value for name, value in _OWN_HEADERS.items() if name.lower() not in given}
    if request.key is not None:
        now_s = int(time.time())
        headers[HEADER] = signature(request.key, now_s, request.method, url.raw_path_qs, request.body)
    return {**headers, **request.headers}


def _redirect(request: Request, response: "ClientResponse", expected: frozenset[int]) -> "URL | None":
    """Where to go on; None where this is the answer."""
    if response.status in expected or response.status not in _REDIRECTS or request.method not in ("GET", "HEAD"):
        return None
    location = response.headers.get("Location")
    if location is None:
        return None
    try:
        target = response.url.join(type(response.url)(location))
    except ValueError:
        raise InvalidError("url", f"{request.shown} redirects to what is no URL") from None
    if not _is_same_host(response.url, target):
        where = f"{target.scheme}://{target.host or ''}:{target.port or ''}".rstrip(":")
        raise InvalidError("url", f"{request.shown} redirects to {where}: name that in the job, if it is meant")
    return target


def _is_same_host(here: "URL", there: "URL") -> bool:
    if here.host != there.host or there.user is not None or there.password is not None:
        return False
    upgraded = (here.scheme, here.port, there.scheme, there.port) == ("http", 80, "https", 443)
    return upgraded or (here.scheme, here.port) == (there.scheme, there.port)


def _not_public(url: "URL", refused: list[str]) -> InvalidError:
    where = f"{url.host}:{url.port}"
    problem = f"{where} is {' and '.join(refused)}, which is not a public address"
    return InvalidError("url", f"{problem}; the worker's owner may allow it: {VARIABLE}={where}")


def _words(error: BaseException) -> str:
    import aiohttp

    match error:
        case aiohttp.ServerTimeoutError():
            return f"no answer in time: {error}"
        case aiohttp.ClientConnectorCertificateError():
            return f"its certificate is not trusted: {error.certificate_error}"
        case aiohttp.ClientResponseError():  # which would show the URL, and a status that nobody sent
            return f"no answer in HTTP: {' '.join(error.message.split())}"
        case aiohttp.ClientConnectorError():
            return f"no connection: {error.os_error.strerror or error.os_error}"
    return str(error) or type(error).__name__


@cache
def trusted() -> ssl.SSLContext:
    """The system's certificates, or those of SSL_CERT_FILE; read once, which takes a moment."""
    return ssl.create_default_context()


def plain(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Those of the headers, by these names, that are there; what is no text in them is replaced."""
    return {
        name: headers[name].encode(errors="surrogateescape").decode(errors="replace")
        for name in names
        if name in headers
    }
