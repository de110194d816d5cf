"""Server-sent events: what happens to jobs, as it happens, for as long as somebody listens.

A stream begins behind `Last-Event-ID` where that is given, and says `reset` where what lies between is not known any more. How it
ends is in `streams`; a listener then connects again, behind the last event he has seen.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from msgspec import json

from mainspring.api.asking import Ask
from mainspring.api.operations import Content, Room
from mainspring.api.replies import Reply
from mainspring.api.streams import EVENT_STREAM, Stream, message
from mainspring.errors import InvalidError
from mainspring.verbs.documents import JobEvent

EVENTS = Room("Events")

_encode = json.Encoder().encode
_ID = re.compile(r"[0-9]{1,17}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_HEADERS = {"Last-Event-ID": "The id of the last event that was seen: the stream goes on behind it."}
_STREAM = {200: Content(JobEvent, (EVENT_STREAM,), "Events: `id`, `event` and `data`, which is a JobEvent.")}

Numbered = AsyncGenerator[tuple[str, JobEvent | None], None]


@EVENTS.get("/v1/jobs/{id}/events", "job_events", answers=_STREAM)
async def job_events(ask: Ask) -> Reply:
    """Follow a job. Its state now, then what happens to it, until it has ended."""
    events = ask.verbs.jobs.events(ask.path("id"))
    first = await anext(events)  # says now, and not in the stream, that there is no such job
    return Stream(ask, _messages(_job(first, events)))


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
    return Stream(ask, _messages(events))


def _after(ask: Ask) -> str | None:
    given = ask.header("Last-Event-ID")
    if given is not None and not _ID.fullmatch(given):
        raise InvalidError("Last-Event-ID", "is not the id of an event")
    return given


async def _job(first: JobEvent, events: AsyncIterator[JobEvent]) -> Numbered:
    yield "", first
    async for event in events:
        yield "", event


async def _messages(events: Numbered) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for id, event in events:
            yield message(id, "reset", b"{}") if event is None else message(id, event.event, _encode(event))
