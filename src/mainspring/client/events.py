"""Server-sent events as documents, over however many connections it takes.

A connection that breaks, or says nothing for three times as long as a server stays silent, is made again behind the last event
that came; so an event may come twice, and none is missed that the server still knows. Who cannot be reached for a minute is
given up: `ServerError`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.client.asking import Asker, Query, T, decoded, texts
from mainspring.core.retry import Backoff
from mainspring.errors import LimitedError, ServerError, StoreUnavailableError
from mainspring.verbs.documents import JobEvent

if TYPE_CHECKING:
    import aiohttp

_SILENCE_S = 45.0  # a server sends a comment every 15 s
_GIVE_UP_S = 60.0
_BACKOFF = Backoff(base_s=0.2, cap_s=5.0)

_PASSING = (ServerError, StoreUnavailableError, LimitedError, TimeoutError)


class Message(Struct, frozen=True):
    """One event as it was sent."""

    id: str
    event: str
    data: str


async def listen(asker: Asker, path: str, after: str | None) -> AsyncGenerator[tuple[str, JobEvent | None], None]:
    """What a stream says, behind the event `after`, without an end. None: `reset`."""
    async with aclosing(_messages(asker, path, after)) as messages:
        async for message in messages:
            yield message.id, _meant(message)


async def listen_to_job(asker: Asker, path: str) -> AsyncGenerator[JobEvent, None]:
    """What a job's stream says, until it has ended."""
    async with aclosing(_messages(asker, path, None)) as messages:
        async for message in messages:
            event = _meant(message)
            if event is None:
                continue
            yield event
            if event.event == "ended":
                return


async def listen_to_pieces(
    asker: Asker, path: str, type: type[T], *, after: str | None, **query: Query
) -> AsyncGenerator[T, None]:
    """What a stream says that comes to an end, behind the event `after`."""
    async with aclosing(_messages(asker, path, after, texts(query))) as messages:
        async for message in messages:
            if message.event == "end":
                return
            yield decoded(message.data.encode(), type)


async def _messages(
    asker: Asker, path: str, after: str | None, query: Mapping[str, str] | None = None
) -> AsyncGenerator[Message, None]:
    last, failures, heard_s = after, 0, time.monotonic()
    while True:
        headers = asker.headers() | {"Accept": "text/event-stream"} | ({} if last is None else {"Last-Event-ID": last})
        try:
            async with asker.transport.stream(path, headers=headers, query=query) as reader:
                async for message in read_messages(reader):
                    last, failures, heard_s = message.id or last, 0, time.monotonic()
                    yield message
        except _PASSING:
            if time.monotonic() - heard_s > _GIVE_UP_S:
                raise
        failures += 1
        await asyncio.sleep(_BACKOFF.bound_s(failures))


async def read_messages(reader: "aiohttp.StreamReader") -> AsyncGenerator[Message, None]:
    """The messages of one connection, until its end."""
    fields: dict[str, str] = {}
    while True:
        async with asyncio.timeout(_SILENCE_S):
            line = await reader.readline()
        if not line:
            return
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        if name:
            value = value.removeprefix(" ")
            fields[name] = f"{fields['data']}\n{value}" if name == "data" and "data" in fields else value
        elif not value and fields:
            if "data" in fields or "event" in fields:
                yield Message(fields.get("id", ""), fields.get("event", ""), fields.get("data", ""))
            fields = {}


def _meant(message: Message) -> JobEvent | None:
    return None if message.event == "reset" else decoded(message.data.encode(), JobEvent)
