"""Answers without an end of their own: server-sent events, and other bodies that are sent as they come.

A stream ends when there is nothing more to say, when the listener leaves, when the server stops, when the key is no longer good,
and when the store cannot be read. Events say themselves whether that was all; of anything else that was not the connection
breaks off, so that nobody takes it for whole. A comment every `COMMENT_S` keeps the connection of a listener to events.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from mainspring.api.asgi import Receive, Scope, Send
from mainspring.api.asking import Ask
from mainspring.api.callers import bearer
from mainspring.api.replies import Reply
from mainspring.api.waiting import end, gone
from mainspring.errors import MainspringError, UnknownKeyError
from mainspring.runtime.log import get_logger

EVENT_STREAM = "text/event-stream"

COMMENT_S = 15.0
CHECK_S = 5.0  # how often the key is looked at

_log = get_logger("mainspring.api")


class Stream(Reply):
    """Sends what `messages` gives, each at once."""

    __slots__ = ("_ask", "_comment", "_messages")

    def __init__(self, ask: Ask, messages: AsyncGenerator[bytes, None], media: str = EVENT_STREAM) -> None:
        """Nobody shall take it for anything but what `media` says: jobs write what they like."""
        super().__init__(200, b"", media.encode(), {"cache-control": "no-store", "x-content-type-options": "nosniff"})
        self.headers = [pair for pair in self.headers if pair[0] != b"content-length"]
        self._ask = ask
        self._messages = messages
        self._comment = b": here\n\n" if media == EVENT_STREAM else b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        leaving = asyncio.ensure_future(gone(receive))
        stopping = asyncio.ensure_future(self._ask.parts.stopping.wait())
        whole = False
        try:
            whole = await self._speak(send, leaving, stopping)
        except MainspringError as error:
            _log.warning("a stream has ended early", error=str(error))
        finally:
            left = leaving.done()
            await end(leaving, stopping)
            await self._messages.aclose()
        if not left and (whole or self._comment):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _speak(self, send: Send, *ends: "asyncio.Future[Any]") -> bool:
        """Was that all?"""
        silent_s = COMMENT_S  # the first comment at once: a listener knows that he is heard
        while True:
            coming = asyncio.ensure_future(anext(self._messages, None))
            try:
                while not coming.done():
                    if silent_s >= COMMENT_S:
                        await _send(send, self._comment)
                        silent_s = 0.0
                    await asyncio.wait((coming, *ends), timeout=CHECK_S, return_when=asyncio.FIRST_COMPLETED)
                    if any(ending.done() for ending in ends) or not await self._is_good():
                        return False
                    silent_s += CHECK_S
            finally:
                if not coming.done():
                    await end(coming)
            message = coming.result()
            if message is None:
                return True
            await _send(send, message)
            silent_s = 0.0

    async def _is_good(self) -> bool:
        keyring = self._ask.parts.keyring
        if keyring is None:
            return True
        try:
            await keyring.identify(bearer(self._ask))
        except UnknownKeyError:
            return False
        return True


def message(id: str | None, event: str, data: bytes) -> bytes:
    """One event. `data`: JSON, which has no line ends."""
    name = f"id: {id}\n".encode() if id else b""
    return b"%bevent: %b\ndata: %b\n\n" % (name, event.encode(), data)


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
