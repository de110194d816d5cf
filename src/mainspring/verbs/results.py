"""What a completed job has left: its result, wherever that is, and its files.

A result is in its row, or among the objects as the output "result"; whoever reads it need not know. One whose time is over is
not shown any more, whether or not it has been removed yet.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import json

from mainspring.core.job import JobRecord
from mainspring.core.lifecycle import State
from mainspring.core.objects import RESULT, output
from mainspring.core.partition import format_id
from mainspring.core.timer import Micros
from mainspring.errors import ConflictError, NotFoundError
from mainspring.secrets.objects import SealedObjects
from mainspring.store.contract import EXPIRED, Ended
from mainspring.verbs import documents as d
from mainspring.wire import Stored

_read_outputs = json.Decoder(list[Stored]).decode


def is_expired(ended: Ended, now: Micros) -> bool:
    return ended.result == EXPIRED or (ended.expires_at is not None and ended.expires_at <= now)


def outputs_of(ended: Ended, now: Micros) -> list[d.OutputDocument]:
    if ended.outputs is None or is_expired(ended, now):
        return []
    found = _read_outputs(ended.outputs)
    return [d.OutputDocument(name=o.name, size=o.size, sha256=o.sha256, media=o.media) for o in found]


def find_output(outputs: Sequence[d.OutputDocument], job: str, name: str) -> d.OutputDocument:
    for each in outputs:
        if each.name == name:
            return each
    known = ", ".join(repr(each.name) for each in outputs[:10]) or "none"
    raise NotFoundError(f"job {job} has no output {name!r}; it has: {known}")


async def read_output(objects: SealedObjects, record: JobRecord, name: str) -> AsyncGenerator[bytes, None]:
    """Its bytes. It is there: it has been found in the list."""
    async with aclosing(objects.get(record.tenant, record.id, output(record.attempt, name))) as pieces:
        async for piece in pieces:
            yield piece


async def read_result(
    objects: SealedObjects, record: JobRecord, ended: Ended | None, now: Micros
) -> AsyncGenerator[bytes, None]:
    """What the job returned, as JSON."""
    if ended is None:
        raise ConflictError(f"job {format_id(record.id)} is {record.state}: wait until it has ended")
    if ended.state != State.COMPLETED:
        raise ConflictError(f"job {format_id(record.id)} is {ended.state}: it has no result")
    if is_expired(ended, now):
        raise expired(format_id(record.id))
    if any(each.name == RESULT for each in outputs_of(ended, now)):
        async with aclosing(read_output(objects, record, RESULT)) as pieces:
            async for piece in pieces:
                yield piece
    else:
        yield ended.result or b"null"


def expired(job: str) -> NotFoundError:
    return NotFoundError(f"the result of job {job} was kept for a time that is over: see its option result_ttl")
