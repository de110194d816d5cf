"""The files of an attempt: stored as its function says, and its result where that is too large for a row.

Used by `Context` and by whoever concludes an attempt, in the worker or in a process of its pool. Guarantees: what is listed is
stored, as a whole, with the checksum of exactly what was given; a completed outcome with a large result has it as the output
"result", and nothing in `result`.
"""

import asyncio
import hashlib
import mimetypes
import os
from pathlib import Path

from msgspec.structs import replace

from mainspring.core.lifecycle import Reason
from mainspring.core.objects import INLINE_RESULT_BYTES, MAX_OBJECT, MAX_OUTPUTS, RESULT, check_media, output
from mainspring.errors import InvalidError, SecretsError, SessionEndedError
from mainspring.execute.services import Services
from mainspring.wire import Failure, Outcome, OutcomeType, Stored

_ANY = "application/octet-stream"
_LARGE = 1_048_576
_PACKED = {"gzip": "application/gzip"}


def is_large(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.result is not None and len(outcome.result) > INLINE_RESULT_BYTES


async def keep_result(services: Services, outcome: Outcome) -> Outcome:
    """With its result stored, where that is large."""
    data = outcome.result
    if data is None or not is_large(outcome):
        return outcome
    try:
        await services.put(output(outcome.attempt, RESULT), data)
    except SessionEndedError:  # somebody else runs the job: nobody will accept this
        return Outcome(outcome.job, outcome.attempt, OutcomeType.RETURNED, usage=outcome.usage)
    except InvalidError as error:
        why = Failure(Reason.RESULT, "InvalidError", str(error))
        return Outcome(outcome.job, outcome.attempt, OutcomeType.FAILED, failure=why, retry=False, usage=outcome.usage)
    except SecretsError as error:  # perhaps the next attempt is with a node that has keys
        why = Failure(Reason.SECRETS, "SecretsError", f"the result cannot be sealed: {error}")
        return Outcome(outcome.job, outcome.attempt, OutcomeType.FAILED, failure=why, usage=outcome.usage)
    stored = Stored(RESULT, len(data), await _digest(data), "application/json")
    return replace(outcome, result=None, outputs=(stored, *outcome.outputs))


async def store_output(
    services: Services, source: str | os.PathLike[str] | bytes, name: str | None, media: str | None
) -> Stored:
    """Durable when this returns. One of the same name is replaced."""
    data = _source(source)
    named = _name(data, name)
    place = output(services.assignment.attempt, named)
    kept = [each for each in services.outputs if each.name != named]
    if len(kept) >= MAX_OUTPUTS:
        raise InvalidError("name", f"{named!r} would be output {len(kept) + 1:,}; {MAX_OUTPUTS:,} are allowed")
    kind = _media(named, media)
    services.outputs[:] = kept  # until the new one is there: nobody knows which of them is, where this breaks off
    if isinstance(data, bytes):
        await services.put(place, data)
        stored = Stored(named, len(data), await _digest(data), kind)
    else:
        stored = await _store_file(services, place, data, named, kind)
    services.outputs[:] = [*(each for each in services.outputs if each.name != named), stored]
    return stored


async def _store_file(services: Services, place: str, path: Path, name: str, media: str) -> Stored:
    before = await asyncio.to_thread(_state, path)
    if before[0] > MAX_OBJECT:
        raise InvalidError("source", f"{path} has {before[0]:,} bytes; {MAX_OBJECT:,} are allowed: store it in parts")
    checksum = await asyncio.to_thread(_checksum, path)
    await services.put(place, path)
    if await asyncio.to_thread(_state, path) != before:
        raise InvalidError("source", f"{path} was changed while it was stored: close it first")
    return Stored(name, before[0], checksum, media)


async def _digest(data: bytes) -> str:
    """Of something large on a thread, so that the event loop does not wait for it."""
    found = hashlib.sha256(data) if len(data) < _LARGE else await asyncio.to_thread(hashlib.sha256, data)
    return found.hexdigest()


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _source(source: str | os.PathLike[str] | bytes) -> bytes | Path:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    try:
        path = Path(source)
    except TypeError:
        raise InvalidError("source", f"expected a path or bytes, got {type(source).__name__}") from None
    if not path.is_file():
        raise InvalidError("source", f"{path} is not a file; bytes are stored as they are, text is taken as a path")
    return path


def _name(source: bytes | Path, name: str | None) -> str:
    if name is None:
        if isinstance(source, bytes):
            raise InvalidError("name", "is missing: bytes have none of their own")
        name = source.name
    if name == RESULT:
        raise InvalidError("name", f"{RESULT!r} is what the function returns; choose another")
    return name


def _media(name: str, media: str | None) -> str:
    if media is not None:
        return check_media(media)
    guessed, packed = mimetypes.guess_type(name, strict=False)
    try:
        return check_media(guessed) if packed is None else _PACKED.get(packed, _ANY)
    except InvalidError:  # there is none, or the machine's own list has one that is none
        return _ANY
