"""Server-sent events: what happens to jobs, as it happens, for as long as somebody listens.

A stream begins behind `Last-Event-ID` where that is given, and says `reset` where what lies between is not known any more. A
comment every `COMMENT_S` keeps the connection. It ends when the listener leaves, when the server stops, when the key is no longer
good, and when the store cannot be read; a listener then connects again, behind the last event he has seen.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

from msgspec import json

from mainspring.api.asking import Ask
from mainspring.api.callers import bearer
from mainspring.api.operations import Content, Room
from mainspring.api.replies import Reply
from mainspring.api.waiting import end, gone
from mainspring.errors import InvalidError, MainspringError, UnknownKeyError
from mainspring.runtime.log import get_logger
from mainspring.verbs.documents import JobEvent

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

EVENTS = Room("Events")

COMMENT_S = 15.0
CHECK_S = 5.0  # how often the key is looked at

_log = get_logger("mainspring.api")
_encode = json.Encoder().encode
_ID = re.compile(r"[0-9]{1,17}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_HEADERS = {"Last-Event-ID": "The id of the last event that was seen: the stream goes on behind it."}
_STREAM = {200: Content(JobEvent, ("text/event-stream",), "Events: `id`, `event` and `data`, which is a JobEvent.")}

Numbered = AsyncGenerator[tuple[str, JobEvent | None], None]


@EVENTS.get("/v1/jobs/{id}/events", "job_events", answers=_STREAM)
async def job_events(ask: Ask) -> Reply:
    """Follow a job. Its state now, then what happens to it, until it has ended."""
    events = ask.verbs.jobs.events(ask.path("id"))
    first = await anext(events)  # says now, and not in the stream, that there is no such job
    return Stream(ask, _job(first, events))


@EVENTS.get("/v1/queues/{name}/events", "queue_events", headers=_HEADERS, answers=_STREAM)
async def queue_events(ask: Ask) -> Reply:
    """Follow a queue. Its jobs as they end."""
    return await _followed(ask, ask.path("name"))


@EVENTS.get("/v1/events", "all_events", headers=_HEADERS, answers=_STREAM)
async def all_events(ask: Ask) -> Reply:
    """Follow all jobs, as they end."""
    return await _followed(ask, None)


async def _followed(ask: Ask, queue: str | None) -> Reply:
    """Begins before it is answered: what happens once a listener has the head of the answer, he hears."""
    events = ask.verbs.system.events(queue, _after(ask), announce=True)
    await anext(events)
    return Stream(ask, events)


def _after(ask: Ask) -> str | None:
    given = ask.header("Last-Event-ID")
    if given is not None and not _ID.fullmatch(given):
        raise InvalidError("Last-Event-ID", "is not the id of an event")
    return given


async def _job(first: JobEvent, events: AsyncIterator[JobEvent]) -> Numbered:
    yield "", first
    async for event in events:
        yield "", event


class Stream(Reply):
    """A reply without an end of its own."""

    __slots__ = ("_ask", "_events")

    def __init__(self, ask: Ask, events: Numbered) -> None:
        super().__init__(200, b"", b"text/event-stream", {"cache-control": "no-store"})
        self.headers = [pair for pair in self.headers if pair[0] != b"content-length"]
        self._ask = ask
        self._events = events

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        leaving = asyncio.ensure_future(gone(receive))
        stopping = asyncio.ensure_future(self._ask.parts.stopping.wait())
        try:
            await self._speak(send, leaving, stopping)
        except MainspringError as error:
            _log.warning("a stream of events has ended early", error=str(error))
        finally:
            left = leaving.done()
            await end(leaving, stopping)
            await self._events.aclose()
        if not left:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _speak(self, send: "Send", *ends: "asyncio.Future[Any]") -> None:
        silent_s = COMMENT_S  # the first comment at once: a listener knows that he is heard
        while True:
            coming = asyncio.ensure_future(anext(self._events, None))
            try:
                while not coming.done():
                    if silent_s >= COMMENT_S:
                        await _send(send, b": here\n\n")
                        silent_s = 0.0
                    await asyncio.wait((coming, *ends), timeout=CHECK_S, return_when=asyncio.FIRST_COMPLETED)
                    if any(ending.done() for ending in ends) or not await self._is_good():
                        return
                    silent_s += CHECK_S
            finally:
                if not coming.done():
                    await end(coming)
            event = coming.result()
            if event is None:
                return
            await _send(send, _message(*event))
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


async def _send(send: "Send", data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


def _message(id: str, event: JobEvent | None) -> bytes:
    name = f"id: {id}\n".encode() if id else b""
    if event is None:
        return name + b"event: reset\ndata: {}\n\n"
    return name + f"event: {event.event}\ndata: ".encode() + _encode(event) + b"\n\n"
