"""HTTP on one connection: uvicorn's, with bounds for what comes before a request is one.

A head (request line and headers) has a size and a time in which it must come; what is no HTTP is answered with a problem document
like everything else. Bodies are bounded where they are read.
"""

import asyncio
from typing import Any

from msgspec import json
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mainspring.api.limits import HEAD_S, MAX_HEAD
from mainspring.api.problems import TITLES, problem


class BoundedProtocol(HttpToolsProtocol):
    """Gives up heads that are too large or do not come."""

    _head_bytes = 0
    _in_head = False
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self._refuse(431, f"the head of the request is larger than {MAX_HEAD:,} bytes")
            elif self._waiting is None:
                self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not a request that HTTP/1.1 allows")

    def _unsupported_upgrade_warning(self) -> None:
        """Whoever offers another protocol is answered in this one, and nobody needs to hear of it."""

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        told = json.encode(problem("invalid", status, detail))
        head = f"HTTP/1.1 {status} {TITLES['invalid']}\r\ncontent-type: application/problem+json\r\n"
        self.transport.write(f"{head}content-length: {len(told)}\r\nconnection: close\r\n\r\n".encode() + told)
        self.transport.close()
