"""Results and files of jobs, streamed: nothing of them is ever whole in memory.

A file is never shown by a browser as a page of this server: it is an attachment, whatever its media type says.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote

from mainspring.api.asking import Ask
from mainspring.api.operations import Content, Room
from mainspring.api.replies import JSON, Reply, Streamed, document
from mainspring.verbs import documents as d
from mainspring.verbs.results import find_output

RESULTS = Room("Jobs")


@RESULTS.get(
    "/v1/jobs/{id}/result",
    "read_result",
    answers={200: Content(None, ("application/json",), "The result, of any size.")},
    problems=(409,),
)
async def read_result(ask: Ask) -> Reply:
    """Read what a job returned. Also where it is too large to be with the job; 409 where the job has not completed."""
    return Streamed(200, await begun(ask.verbs.jobs.result(ask.path("id"))), JSON)


@RESULTS.get("/v1/jobs/{id}/outputs", "list_outputs", answer=list[d.OutputDocument])
async def list_outputs(ask: Ask) -> Reply:
    """List a job's files. Those of a job that has completed; `result` is what it returned, where that is large."""
    return document(await ask.verbs.jobs.outputs(ask.path("id")))


@RESULTS.get(
    "/v1/jobs/{id}/outputs/{name}",
    "download_output",
    answers={200: Content(None, ("*/*",), "The file. `ETag` is its SHA-256.")},
)
async def download_output(ask: Ask) -> Reply:
    """Download a file of a job."""
    job, name = ask.path("id"), ask.path("name")
    found = find_output(await ask.verbs.jobs.outputs(job), job, name)
    pieces = await begun(ask.verbs.jobs.output(job, name))
    return Streamed(200, pieces, found.media.encode("ascii"), _headers(found))


def _headers(found: d.OutputDocument) -> dict[str, str]:
    return {
        "content-length": str(found.size),
        "etag": f'"{found.sha256}"',
        "content-disposition": f"attachment; filename*=UTF-8''{quote(found.name, safe='')}",
        "content-security-policy": "sandbox",
        "x-content-type-options": "nosniff",
    }


async def begun(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The same pieces, the first of which is there: what is wrong is said now, and not in the stream."""
    return _behind(await anext(pieces, b""), pieces)


async def _behind(first: bytes, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        yield first
        async for piece in pieces:
            yield piece
