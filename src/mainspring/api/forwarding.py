"""Calls of workers whose session lives at another server: passed on to it, answer and all.

A session lives at one node's desk. Behind a balancer its worker's calls arrive anywhere, so whoever gets one looks where the
session lives (remembered for a moment) and passes the call on with the caller's own key. A call is passed on once; a server that
cannot be reached is 503, and the worker asks again. A session whose node is gone is taken over by the desk here, see `Desk.adopt`.
"""

import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from mainspring.api.bodies import GoneError
from mainspring.api.problems import problem, problem_reply
from mainspring.api.replies import Reply, Streamed
from mainspring.errors import MainspringError, SessionEndedError

if TYPE_CHECKING:
    import aiohttp

    from mainspring.api.asking import Ask

Body = bytes | AsyncGenerator[bytes, None]

FORWARDED = "Mainspring-Forwarded"

_FRESH_S = 2.0
_MOST = 10_000  # places that are remembered
_CONNECT_S = 3.0
_PASSED_ON = ("authorization", "content-type", "mainspring-tenant")
_PASSED_BACK = ("retry-after", "www-authenticate")


class Forwarder:
    """One per API; `close` it."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._places: dict[bytes, tuple[str, float]] = {}  # session: the URL of its server, until when that is believed

    async def find(self, ask: "Ask", session: bytes) -> str | None:
        """The URL of the server where a session lives; None: it is here. SessionEndedError where it lives nowhere."""
        desk, store = ask.parts.desk, ask.parts.engine.store
        if desk is not None and session in desk:
            return None
        url, until_s = self._places.get(session, ("", 0.0))
        if time.monotonic() < until_s:
            return url
        (record,) = await store.read_sessions([session])
        if record is None:
            raise SessionEndedError("this session has ended: register again")
        node = next((node for node in await store.list_nodes() if node.id == record.node), None)
        if node is not None and (desk is None or node.id != desk.node):
            self._remember(session, node.url or "")
            return node.url or ""
        if desk is not None and await desk.adopt(session):
            return None
        if node is not None:  # this node's own, and not at its desk
            raise SessionEndedError("this session has ended: register again")
        return ""

    async def forward(
        self, ask: "Ask", session: bytes, url: str, body: Body, timeout_s: float, *, large: bool = False
    ) -> Reply:
        """Ask the other server the same. A body that comes in pieces is passed on so, and a `large` answer back; then `timeout_s`
        is how long nothing may come."""
        if not url or ask.header(FORWARDED) is not None:
            self._places.pop(session, None)
            return _unreachable("has no URL by which others reach it (MAINSPRING_URL), or" if not url else "")
        import aiohttp

        whole = isinstance(body, bytes) and not large
        timeout = aiohttp.ClientTimeout(
            total=timeout_s if whole else None, sock_read=timeout_s, sock_connect=_CONNECT_S
        )
        try:
            answer = await self._open().request(
                ask.operation.method,
                url.rstrip("/") + _address(ask),
                data=body or None,
                headers=_headers(ask),
                timeout=timeout,
                allow_redirects=False,
            )
            return _streamed_back(answer) if large and answer.status < 300 else await _passed_back(answer)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if isinstance(error.__cause__, GoneError | MainspringError):  # of the body, which is the caller's
                raise error.__cause__ from None
            self._places.pop(session, None)
            return _unreachable()

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _remember(self, session: bytes, url: str) -> None:
        if len(self._places) >= _MOST:
            self._places.clear()
        self._places[session] = (url, time.monotonic() + _FRESH_S)

    def _open(self) -> "aiohttp.ClientSession":
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self._session


def _address(ask: "Ask") -> str:
    query: bytes = ask.scope.get("query_string", b"")
    address: bytes = ask.scope["raw_path"] + (b"?" + query if query else b"")
    return address.decode("ascii")


def _headers(ask: "Ask") -> dict[str, str]:
    headers = {name.decode(): value.decode("latin-1") for name, value in ask.scope["headers"]}
    return {name: value for name, value in headers.items() if name in _PASSED_ON} | {FORWARDED: "1"}


async def _passed_back(answer: "aiohttp.ClientResponse") -> Reply:
    async with answer:
        body = await answer.read()
    headers = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
    return Reply(answer.status, body, answer.headers.get("Content-Type", "application/json").encode(), headers)


def _streamed_back(answer: "aiohttp.ClientResponse") -> Reply:
    return Streamed(answer.status, _pieces(answer), answer.headers.get("Content-Type", "application/json").encode())


async def _pieces(answer: "aiohttp.ClientResponse") -> AsyncGenerator[bytes, None]:
    async with answer:
        async for piece in answer.content.iter_any():
            yield piece


def _unreachable(why: str = "") -> Reply:
    words = f"the server where this worker is registered {why} cannot be reached for now; try again"
    return problem_reply(problem("unavailable", 503, words.replace("  ", " "), after_s=1.0))
