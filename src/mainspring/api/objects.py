"""The objects of jobs, as their workers write and read them: streamed both ways, and never whole in memory.

A worker reaches the objects of the attempts that its session has, and no others; one of another tenant has none here.
"""

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from mainspring.api.asking import Ask
from mainspring.api.bodies import body_pieces, check_media
from mainspring.api.operations import Content, Room
from mainspring.api.replies import Reply, Streamed, document, nothing
from mainspring.api.results import begun
from mainspring.api.workers import at_desk
from mainspring.core.objects import MAX_OBJECT, Found
from mainspring.core.partition import parse_id
from mainspring.errors import InvalidError

if TYPE_CHECKING:
    from mainspring.dispatch.desk import Desk

WORKER_OBJECTS = Room("Workers")

BYTES = "application/octet-stream"

_ADDRESS = "/v1/workers/{session}/jobs/{job}/attempts/{attempt}/objects"


class ObjectsQuery(Struct, forbid_unknown_fields=True):
    prefix: Annotated[str, Meta(max_length=300, description="What their names begin with, such as `outputs/`.")]


@WORKER_OBJECTS.put(
    _ADDRESS + "/{name}", "put_object", body=Content(None, (BYTES,)), body_limit=MAX_OBJECT, problems=(410,)
)
async def put_object(ask: Ask) -> Reply:
    """Store an object of a job, or replace it. It is durable when this is answered; 410 where the attempt is not the session's."""
    job, attempt = _attempt(ask)
    check_media(ask.header("content-type"), BYTES)
    pieces = body_pieces(ask.receive, ask.header("content-length"), ask.operation.body_limit)

    async def put(desk: "Desk", session: bytes) -> Reply:
        await desk.put_object(session, job, attempt, ask.path("name"), pieces)
        return nothing()

    async with aclosing(pieces):
        return await at_desk(ask, put, pieces)


@WORKER_OBJECTS.get(
    _ADDRESS + "/{name}",
    "get_object",
    answers={200: Content(None, (BYTES,), "Its bytes.")},
    problems=(410,),
)
async def get_object(ask: Ask) -> Reply:
    """Read an object of a job. Also one of an earlier attempt; 404 where there is none."""
    job, attempt = _attempt(ask)

    async def get(desk: "Desk", session: bytes) -> Reply:
        pieces = desk.get_object(session, job, attempt, ask.path("name"))
        return Streamed(200, await begun(pieces), BYTES.encode())

    return await at_desk(ask, get, b"", large=True)


@WORKER_OBJECTS.get(_ADDRESS, "find_objects", query=ObjectsQuery, answer=list[Found], problems=(410,))
async def find_objects(ask: Ask) -> Reply:
    """List the objects of a job. Those whose names begin with `prefix`, of all attempts, in the order of names."""
    job, attempt = _attempt(ask)
    prefix = ask.query(ObjectsQuery).prefix

    async def find(desk: "Desk", session: bytes) -> Reply:
        return document(await desk.find_objects(session, job, attempt, prefix))

    return await at_desk(ask, find, b"")


def _attempt(ask: Ask) -> tuple[bytes, int]:
    try:
        job = parse_id(ask.path("job"))
    except InvalidError as error:
        raise InvalidError("job", error.problem) from None
    text = ask.path("attempt")
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise InvalidError("attempt", f"expected the number of an attempt, got {text[:20]!a}")
    return job, int(text)
