"""What came back: small bodies in the result, large ones and those that are no text as an output, none without a bound."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.errors import InvalidError
from mainspring.execute.exact import number_problem

if TYPE_CHECKING:
    from aiohttp import ClientResponse

INLINE_BYTES = 32_768
MAX_RESPONSE_BYTES = 268_435_456

_CHARSETS = ("utf-8", "us-ascii", "iso-8859-1", "windows-1252")
_PIECE = 65_536
_GLIMPSE_BYTES = 2_048
_GLIMPSE = 300


async def read_start(response: "ClientResponse") -> bytes:
    """All of a small body, or a little more than would be small."""
    pieces, size = [], 0
    async for piece in response.content.iter_chunked(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > INLINE_BYTES:
            break
    return b"".join(pieces)


async def save(response: "ClientResponse", start: bytes, path: Path) -> int:
    """The whole body into a file; its size."""
    size = 0
    with path.open("wb") as file:
        piece = start
        while piece:
            size += len(piece)
            if size > MAX_RESPONSE_BYTES:
                raise InvalidError("url", f"its answer is larger than {MAX_RESPONSE_BYTES:,} bytes")
            await asyncio.to_thread(file.write, piece)
            piece = await response.content.read(_PIECE)
    return size


def inline(response: "ClientResponse", body: bytes) -> tuple[bool, Any]:
    """Can the body be part of the result, and as what: JSON where it says so and is, else text."""
    if len(body) > INLINE_BYTES or response.headers.get("Content-Encoding", "identity") != "identity":
        return False, None
    charset = (response.charset or "utf-8").lower()
    try:
        text = body.decode(charset) if charset in _CHARSETS else "\0"
    except UnicodeDecodeError:
        return False, None
    if "\0" in text:
        return False, None
    if response.content_type == "application/json" or response.content_type.endswith("+json"):
        return True, _json(text)
    return True, text or None


def _json(text: str) -> Any:
    """The text itself where it is no JSON, or has numbers that would not survive as a result."""
    try:
        value = msgspec.json.decode(text)
        return text if number_problem(value) else value
    except (msgspec.DecodeError, RecursionError, ValueError):
        return text


def glimpse(body: bytes) -> str:
    """The beginning of a body, for a message."""
    text = body[:_GLIMPSE_BYTES].decode(errors="replace")
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown[:_GLIMPSE] + ("…" if len(shown) > _GLIMPSE or len(body) > _GLIMPSE_BYTES else "")
