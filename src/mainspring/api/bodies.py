"""Reading bodies: bounded in size while they come, and in how long they may stay away; JSON is read strictly.

A body that says it is too large is refused before it is read; one that lies about it, or says nothing, as soon as it has become
too large.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from mainspring.api.asgi import Receive
from mainspring.api.limits import BODY_SILENCE_S
from mainspring.api.problems import MediaError, TooLargeError, TooSlowError, refuse_decoding
from mainspring.core.jsontext import read_object
from mainspring.errors import InvalidError

T = TypeVar("T")

JSON = "application/json"


class GoneError(Exception):
    """Whoever asked has left."""


async def read_body(receive: Receive, length: str | None, limit: int) -> bytes:
    """The whole body, at most `limit` bytes; `length`: what the header says about it."""
    chunks = [chunk async for chunk in body_pieces(receive, length, limit)]
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def body_pieces(receive: Receive, length: str | None, limit: int) -> AsyncGenerator[bytes, None]:
    """A body as it comes, for those that are too large to be read whole."""
    if length is not None and length.isdigit() and int(length[:20]) > limit:
        raise too_large(limit)
    size = 0
    more = True
    while more:
        message = await _next(receive)
        if message["type"] == "http.disconnect":
            raise GoneError
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        more = message.get("more_body", False)
        yield chunk


async def _next(receive: Receive) -> Any:
    try:
        async with asyncio.timeout(BODY_SILENCE_S):
            return await receive()
    except TimeoutError:
        raise TooSlowError(f"body: nothing came for {BODY_SILENCE_S:g} s") from None


def too_large(limit: int) -> TooLargeError:
    return TooLargeError(f"body: is larger than {limit:,} bytes, which is the most that this address takes")


def check_media(given: str | None, *allowed: str) -> str:
    """A content type without its parameters, one of those allowed; the first of them where nothing is said."""
    media = allowed[0] if given is None else given.partition(";")[0].strip().lower()
    if media not in allowed:
        raise MediaError(f"Content-Type: expected {' or '.join(allowed)}, got {media!a}")
    return media


def decode(data: bytes, type: type[T]) -> T:
    """A JSON object as what it should be; what is wrong with it names the field."""
    if not data:
        raise InvalidError("body", "is empty; expected a JSON object")
    try:
        return convert(read_object("body", data), type)
    except ValidationError as error:
        refuse_decoding(error)
