"""What goes back: a `Reply` is status, headers and bytes, sent as they are; `Streamed` where the bytes are many."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from msgspec import json

from mainspring.api.asgi import Receive, Scope, Send
from mainspring.api.limits import LINGER_S

JSON = b"application/json"
PROBLEM = b"application/problem+json"

_encode = json.Encoder().encode


class Reply:
    """A whole answer. An ASGI application, as all answers are."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes, media: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.body = body
        self.headers = [(b"content-type", media)] if status != 204 else []
        if status != 204:
            self.headers.append((b"content-length", b"%d" % len(body)))
        for name, value in (headers or {}).items():
            self.headers.append((name.lower().encode("ascii"), value.encode("latin-1")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def document(answer: Any, status: int = 200) -> Reply:
    """A document, as JSON."""
    return Reply(status, _encode(answer), JSON)


def nothing() -> Reply:
    return Reply(204, b"", JSON)


class Streamed(Reply):
    """An answer that is sent as it comes. Where that breaks off so does the connection, so that nobody takes it for whole."""

    __slots__ = ("_pieces",)

    def __init__(
        self, status: int, pieces: AsyncGenerator[bytes, None], media: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """`headers`: with a content-length, where it is known."""
        super().__init__(status, b"", media, headers)
        self.headers.remove((b"content-length", b"0"))
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._pieces) as pieces:
            await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Lingering:
    """An answer before the body has been read: it goes out at once, what still comes is read and forgotten for a moment, then the
    connection ends. Closing it at once could destroy the answer on its way."""

    __slots__ = ("_reply",)

    def __init__(self, reply: Reply) -> None:
        reply.headers.append((b"connection", b"close"))
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = self._reply
        await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
        await send({"type": "http.response.body", "body": reply.body, "more_body": True})
        try:
            async with asyncio.timeout(LINGER_S):
                while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                    pass
        except TimeoutError:
            pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})
