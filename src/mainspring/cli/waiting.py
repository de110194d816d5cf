"""Waiting for a job from the command line, and saying how it ended. Used by `submit --wait` and `jobs wait`."""

import asyncio

from mainspring.app import App
from mainspring.cli.documents import Document, end_document
from mainspring.cli.failures import WaitedError
from mainspring.cli.output import pretty_json
from mainspring.core.lifecycle import State
from mainspring.core.partition import format_id
from mainspring.core.words import duration, shortened
from mainspring.errors import JobCancelledError, JobFailedError
from mainspring.store.contract import Ended


async def await_end(app: App, job: bytes, within_s: float | None) -> tuple[Document, Ended]:
    """How the job ended; `WaitedError` if it has not after `within_s`."""
    try:
        async with asyncio.timeout(within_s):
            ended = await app.engine.waiter.wait(job)
    except TimeoutError:
        (record,) = await app.store.read_jobs([job])
        state = record.state if record else "gone"
        told = f"job {format_id(job)} is still {state} after {duration(within_s or 0)}"
        raise WaitedError(f"{told}; `mainspring jobs explain {format_id(job)}` tells why") from None
    return end_document(job, ended), ended


def end_line(ended: Ended) -> str:
    """For people: the result, or nothing where the error line follows."""
    return pretty_json(ended.result) if ended.state == State.COMPLETED else ended.state


def raise_unless_completed(job: bytes, ended: Ended) -> None:
    if ended.state == State.COMPLETED:
        return
    failure = ended.failure
    told = f": {failure.type}: {shortened(failure.message, 200)}" if failure else ""
    if ended.state == State.FAILED:
        raise JobFailedError(f"job {format_id(job)} failed ({ended.reason}){told}")
    raise JobCancelledError(f"job {format_id(job)} was cancelled ({ended.reason})")
