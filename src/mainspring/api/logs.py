"""What jobs write and give out while they run: as text, as lines of JSON, or as events that go on where they broke off."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated

from msgspec import Meta, Struct, json

from mainspring.api.asking import Ask
from mainspring.api.items import LINES
from mainspring.api.operations import Content, Room
from mainspring.api.replies import Reply
from mainspring.api.results import begun
from mainspring.api.streams import EVENT_STREAM, Stream, message
from mainspring.errors import InvalidError
from mainspring.verbs import documents as d

LOGS = Room("Logs")

TEXT = "text/plain"

Number = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Id = Annotated[str, Meta(max_length=40)]
After = Annotated[Id | None, Meta(description="The `id` of what was read last: go on behind it.")]
Follow = Annotated[
    bool | None,
    Meta(description="Go on until the job has ended and everything was sent. Events do unless this is false."),
]

_HEADERS = {"Last-Event-ID": "Of events: the id of the last one that was seen, as `after`."}
_END = message(None, "end", b"{}")
_encode = json.Encoder().encode


class LogsQuery(Struct, forbid_unknown_fields=True):
    attempt: Annotated[Number | None, Meta(description="Only this attempt; else all of them, in order.")] = None
    after: After = None
    follow: Follow = None


class PartialQuery(Struct, forbid_unknown_fields=True):
    after: After = None
    follow: Follow = None


@LOGS.get(
    "/v1/jobs/{id}/logs",
    "job_logs",
    query=LogsQuery,
    headers=_HEADERS,
    answers={
        200: Content(
            d.LogPart,
            (TEXT, LINES, EVENT_STREAM),
            "What the job's attempts wrote: the text itself; or a LogPart a line; or events `log` with an `id` and a LogPart as "
            "`data`, at last `end`.",
        )
    },
)
async def job_logs(ask: Ask) -> Reply:
    """Read a job's log. What its attempts wrote, by default as text. Bytes that are no UTF-8 are replaced."""
    asked = ask.query(LogsQuery)
    media = _media(ask, TEXT, LINES, EVENT_STREAM)
    batches = await ask.verbs.jobs.open_logs(
        ask.path("id"),
        attempt=asked.attempt,
        after=_after(ask, media, asked.after),
        follow=_follow(media, asked.follow),
    )
    return Stream(ask, await begun(_written(batches, media)), f"{TEXT}; charset=utf-8" if media == TEXT else media)


@LOGS.get(
    "/v1/jobs/{id}/partial",
    "job_partial",
    query=PartialQuery,
    headers=_HEADERS,
    answers={
        200: Content(
            d.PartialResult,
            (LINES, EVENT_STREAM),
            "A PartialResult a line; or events `partial` with an `id` and a PartialResult as `data`, at last `end`.",
        )
    },
)
async def job_partial(ask: Ask) -> Reply:
    """Read a job's partial results. What its attempts gave out while they ran, by default a JSON document a line."""
    asked = ask.query(PartialQuery)
    media = _media(ask, LINES, EVENT_STREAM)
    values = await ask.verbs.jobs.open_partial(
        ask.path("id"), after=_after(ask, media, asked.after), follow=_follow(media, asked.follow)
    )
    return Stream(ask, await begun(_given_out(values, media)), media)


async def _written(batches: AsyncGenerator[Sequence[d.LogPart], None], media: str) -> AsyncGenerator[bytes, None]:
    """A batch is one message: a line at a time would be slow."""
    async with aclosing(batches):
        async for parts in batches:
            if media == TEXT:
                yield "".join(part.text for part in parts).encode()
            elif media == LINES:
                yield b"".join(_encode(part) + b"\n" for part in parts)
            else:
                yield b"".join(message(part.id, "log", _encode(part)) for part in parts)
    if media == EVENT_STREAM:
        yield _END


async def _given_out(values: AsyncGenerator[d.PartialResult | None, None], media: str) -> AsyncGenerator[bytes, None]:
    async with aclosing(values):
        async for value in values:
            if value is None:
                yield b""
                continue
            data = _encode(value)
            yield data + b"\n" if media == LINES else message(value.id, "partial", data)
    if media == EVENT_STREAM:
        yield _END


def _media(ask: Ask, *possible: str) -> str:
    """The form that was asked for, by name; else the first."""
    accepted = (ask.header("accept") or "").lower()
    return next((media for media in possible if media in accepted), possible[0])


def _after(ask: Ask, media: str, given: str | None) -> str | None:
    last = ask.header("Last-Event-ID")
    if last is None:
        return given
    if media != EVENT_STREAM:
        raise InvalidError("Last-Event-ID", f"has no effect without `Accept: {EVENT_STREAM}`: use after")
    return last


def _follow(media: str, given: bool | None) -> bool:
    return media == EVENT_STREAM if given is None else given
