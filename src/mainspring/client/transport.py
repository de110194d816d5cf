"""HTTP to one server: connections, the key, retries, and problem documents as our errors.

Used by everything in `client`. Guarantees: an answer of success is returned whole; anything else is an error of
`mainspring.errors`. A request is sent again only where that can do no harm: it may be repeated by its nature, or it certainly was
not carried out (no connection, or a server that says so). Retries are bounded by `retry_for_s`; then the last error is raised.
A transport belongs to the event loop of its first request; connections are kept open until `close`.
"""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from msgspec import Struct

from mainspring.client.refusals import refusal, retry_after_s
from mainspring.core.retry import Backoff
from mainspring.errors import InvalidError, LimitedError, MainspringError, ServerError, StoreUnavailableError

if TYPE_CHECKING:
    import aiohttp

JSON = "application/json"

_CONNECT_S = 10.0
_BACKOFF = Backoff(base_s=0.1, cap_s=2.0)
_LARGE = 1_000_000
_LONGEST_LINE = 4_194_304  # of a stream that is read by lines; aiohttp reads lines of twice its buffer
_EXAMPLE = "http://localhost:8420"
_GATEWAY = (502, 504)  # a proxy that did not reach the server, or lost it


class Reply(Struct, frozen=True):
    """A success."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Failed(Exception):  # noqa: N818  (never leaves this module)
    """`carried_out`: perhaps. `wait_s`: as the server asks."""

    def __init__(self, error: MainspringError, *, carried_out: bool, wait_s: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.carried_out = carried_out
        self.wait_s = wait_s


class Transport:
    """One server as `http://host:port` or `https://…` (also with a path before `/v1`), and the key to it."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        tenant: str | None = None,
        ca_file: str | None = None,
        retry_for_s: float = 10.0,
        connections: int = 100,
    ) -> None:
        """`tenant`: the one to act for, with a key of all tenants. `ca_file`: certificates to trust instead of the system's."""
        self.url = check_url(url)
        self.key = key
        self._tenant = tenant
        self._ca_file = ca_file
        self._retry_for_s = retry_for_s
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        repeatable: bool = False,
        retry_for_s: float | None = None,
    ) -> Reply:
        """`path` begins with `/v1`. `timeout_s`: for one try. `repeatable`: doing it twice is the same as once."""
        timeout = import_aiohttp().ClientTimeout(total=timeout_s, sock_connect=_CONNECT_S)
        give_up_at_s = time.monotonic() + (self._retry_for_s if retry_for_s is None else retry_for_s)
        failures = 0
        while True:
            try:
                return await self._try(
                    method, path, _payload(body), self._headers(body, content_type, headers), query, timeout
                )
            except _Failed as failed:
                failures += 1
                wait_s = max(_BACKOFF.delay_s(failures, 0.5 + random.random() / 2), failed.wait_s or 0.0)
                hopeless = time.monotonic() + wait_s > give_up_at_s
                if hopeless or (failed.carried_out and not repeatable):
                    raise failed.error from failed.__cause__
            await asyncio.sleep(wait_s)

    async def upload(self, path: str, data: bytes | Path, *, silence_s: float = 60.0) -> None:
        """PUT something large, from memory or from a file: takes as long as it takes, if an answer comes `silence_s` after its
        last byte. Not sent again here."""
        timeout = import_aiohttp().ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s)
        headers = self._headers(b"", "application/octet-stream", None)
        with data.open("rb") if isinstance(data, Path) else BytesIO(data) as source:
            try:
                await self._try("PUT", path, source, headers, None, timeout)
            except _Failed as failed:
                raise failed.error from failed.__cause__

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        silence_s: float | None = None,
    ) -> AsyncIterator["aiohttp.StreamReader"]:
        """The body of a GET as it comes: no time limit once it has begun, but for `silence_s` without a byte; no retries."""
        aiohttp = import_aiohttp()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s)
        try:
            async with self._open().get(
                self.url + path,
                headers=self._headers(None, JSON, headers),
                params=query,
                timeout=timeout,
                read_bufsize=_LONGEST_LINE // 2,
            ) as response:
                if response.status >= 300:
                    raise refusal(response.status, response.headers, await response.read())
                yield response.content
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _try(
        self,
        method: str,
        path: str,
        data: Any,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None,
        timeout: "aiohttp.ClientTimeout",
    ) -> Reply:
        aiohttp = import_aiohttp()
        try:
            async with self._open().request(
                method,
                self.url + path,
                data=data,
                headers=headers,
                params=query,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                content = await response.read()
        except aiohttp.ClientSSLError as error:
            raise ServerError(
                f"no safe connection to {self.url}: {error}; is its certificate one that we trust?",
                uncertain=False,
            ) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise _Failed(self._unreachable(error, uncertain=False), carried_out=False) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _Failed(self._unreachable(error), carried_out=True) from error
        if response.status < 300:
            return Reply(response.status, response.headers, content)
        self._refuse(response.status, response.headers, content)

    def _refuse(self, status: int, headers: Mapping[str, str], content: bytes) -> NoReturn:
        error = refusal(status, headers, content)
        if isinstance(error, StoreUnavailableError | LimitedError):
            wait_s = error.retry_after_s if isinstance(error, LimitedError) else retry_after_s(headers)
            raise _Failed(error, carried_out=False, wait_s=wait_s)
        if status in _GATEWAY:
            raise _Failed(error, carried_out=True)
        raise error

    def _headers(self, body: bytes | None, content_type: str, more: Mapping[str, str] | None) -> dict[str, str]:
        headers = {"Accept": content_type}
        if body is not None:
            headers["Content-Type"] = content_type
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        if self._tenant is not None:
            headers["Mainspring-Tenant"] = self._tenant
        return {**headers, **(more or {})}

    def _open(self) -> "aiohttp.ClientSession":
        if self._session is None:
            aiohttp = import_aiohttp()
            trusted = ssl.create_default_context(cafile=self._ca_file) if self.url.startswith("https:") else True
            connector = aiohttp.TCPConnector(ssl=trusted, limit=self._connections)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._session

    def _unreachable(self, error: BaseException, *, uncertain: bool = True) -> ServerError:
        text = str(error) or type(error).__name__
        problem = f"no answer from {self.url}: {text}; is the server running, and the URL right?"
        return ServerError(problem, uncertain=uncertain)


def _payload(body: bytes | None) -> bytes | BytesIO | None:
    """A large body goes out in pieces: aiohttp warns of one that would block the event loop."""
    return BytesIO(body) if body is not None and len(body) > _LARGE else body


def import_aiohttp() -> Any:
    try:
        import aiohttp
    except ImportError:
        raise ServerError(
            "an http:// URL needs aiohttp: install Mainspring with the extra client, as in pip install 'mainspring[client]'"
        ) from None
    return aiohttp


def check_url(url: object) -> str:
    """A server's URL without what would be in the way behind it. Its text is not shown: a password may be in it."""
    if not isinstance(url, str) or any(character.isspace() or not character.isprintable() for character in url):
        raise InvalidError("server", f"expected a URL such as {_EXAMPLE}, without spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidError("server", f"{error}; expected a URL such as {_EXAMPLE}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidError("server", f"expected a URL such as {_EXAMPLE}")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidError(
            "server", "a server's URL has no user, password, query or fragment; keys have their own place"
        )
    return url.rstrip("/")
