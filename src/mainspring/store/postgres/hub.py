"""Hints between the processes on one database: LISTEN and NOTIFY.

Hints are sent after the commit, by a transaction of their own that carries all that came together meanwhile: a NOTIFY inside every
commit would make all commits wait for each other. A lost hint costs latency only: every part also looks by itself, slowly.
Whoever could not listen for a while looks at everything. Where a pooler stands between and no direct connection is named,
nobody can listen: then everything is looked at every `POLL_S`.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import DecodeError, Struct, ValidationError, json

from mainspring.runtime.log import get_logger
from mainspring.store.contract import Hint
from mainspring.store.hints import EVERYTHING, Hints, Listeners, shortened

POLL_S = 1.0
CHECK_S = 30.0  # so often a quiet connection is asked for the time: a sign of life, and the clock is set by it
_GATHER_S = 0.004  # between two messages while there is much to say
_LAST_WORD_S = 2.0  # so long a store that is closed tries to say what is left to say
_RETRY_S = 1.0

_log = get_logger("mainspring.store")


class Message(Struct, frozen=True, array_like=True):
    """What goes through a channel; `sender` so that nobody hears himself."""

    sender: str
    hints: list[Hint]


_decode = json.Decoder(Message).decode


class Hub(Listeners):
    """Listeners in this process, a channel to the others."""

    def __init__(
        self,
        channel: str,
        send: Callable[[str, str], Awaitable[None]],
        connect: Callable[[], Awaitable[Any]] | None,
        check: Callable[[Any], Awaitable[None]],
    ) -> None:
        super().__init__()
        self.channel = channel
        self._send = send
        self._connect = connect
        self._check = check
        self._me = secrets.token_hex(4)
        self._unsent = Hints()
        self._has_unsent = asyncio.Event()
        self._closing = False
        self._sender: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Answers when hints can be heard."""
        listening = asyncio.Event()
        self._sender = asyncio.create_task(self._send_on(), name="mainspring-hints-out")
        self._listener = asyncio.create_task(
            self._listen(listening) if self._connect else self._poll(listening), name="mainspring-hints-in"
        )
        await listening.wait()

    async def close(self) -> None:
        """Says what is left to say, also what is being said: many a program submits a job and ends."""
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener
        if self._sender is not None:
            self._closing = True
            self._has_unsent.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_S):
                    await self._sender

    def publish(self, hints: list[Hint]) -> None:
        """In the event loop, after a commit."""
        self.tell(hints)
        if hints:
            self._unsent.add(hints)
            self._has_unsent.set()

    def message(self, hints: list[Hint], *, by_others: bool = False) -> str:
        """`by_others`: somebody else's commit will send it, so this process must hear it too."""
        sender = "" if by_others else self._me
        return json.encode(Message(sender, [shortened(hint) for hint in hints])).decode()

    async def _send_on(self) -> None:
        while not self._closing:
            await self._has_unsent.wait()
            await self._send_once()
            await asyncio.sleep(_GATHER_S)
        await self._send_once()

    async def _send_once(self) -> None:
        unsent, self._unsent = self._unsent.hints(), Hints()
        self._has_unsent.clear()
        if not unsent:
            return
        try:
            await self._send(self.channel, self.message(unsent))
        except Exception as error:
            _log.warning("cannot wake other processes; they look by themselves", error=str(error))

    async def _listen(self, listening: asyncio.Event) -> None:
        assert self._connect is not None
        while True:
            connection = None
            try:
                connection = await self._connect()
                await connection.add_listener(self.channel, self._receive)
                if listening.is_set():
                    self.tell(EVERYTHING)  # what was said meanwhile is lost
                listening.set()
                await self._watch(connection)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                _log.warning("not listening for wake-ups; trying again", error=str(error), again_in_s=_RETRY_S)
                listening.set()  # the slow looks do until the database is back
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(_RETRY_S)

    async def _watch(self, connection: Any) -> None:
        """Until the connection has ended, which is an error."""
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        while not ended.is_set():
            await self._check(connection)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await ended.wait()
        raise ConnectionError("the connection was closed")

    async def _poll(self, listening: asyncio.Event) -> None:
        listening.set()
        while True:
            await asyncio.sleep(POLL_S)
            self.tell(EVERYTHING)

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        try:
            message = _decode(payload.encode())
        except (DecodeError, ValidationError) as error:
            _log.warning("ignored a hint that cannot be read", error=str(error))
            return
        if message.sender != self._me:
            self.tell(message.hints)
