"""Where a listing of jobs goes on: opaque texts that fit one question only.

A cursor names the last job that was shown and, where the listing is by end, when that one ended: so it keeps its place although
that job is gone or runs again. Part of it is a checksum over place and question. It guards against mistakes, not against
malice: a made-up cursor shows nothing that the question itself would not.
"""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error

from msgspec import json

from mainspring.core.timer import Micros
from mainspring.errors import InvalidError
from mainspring.verbs.documents import JobQuery

_PLACE, _CHECK = 24, 6  # bytes


def make_cursor(which: JobQuery, job: bytes, ended_at: Micros | None) -> str:
    place = job + (ended_at or 0).to_bytes(8, "big")
    return urlsafe_b64encode(place + _checksum(which, place)).decode()


def read_cursor(which: JobQuery, text: str) -> tuple[bytes, Micros | None]:
    """The job and, if that matters, its end; `InvalidError` on `after` where it is not a cursor of this listing."""
    try:
        data = urlsafe_b64decode(text.encode("ascii"))
    except (Error, ValueError):
        data = b""
    place = data[:_PLACE]
    if len(data) != _PLACE + _CHECK or make_cursor(which, place[:16], int.from_bytes(place[16:], "big")) != text:
        raise InvalidError("after", "is no cursor of this listing: take `next` from a page of the same question")
    return place[:16], int.from_bytes(place[16:], "big") or None


def _checksum(which: JobQuery, place: bytes) -> bytes:
    return hashlib.blake2b(place + json.encode(which), digest_size=_CHECK).digest()
