"""Waiting for a job from the command line, and saying how it ended. Used by `submit --wait` and `jobs wait`."""

import asyncio

from mainspring.cli.failures import WaitedError
from mainspring.cli.output import pretty_json
from mainspring.core.lifecycle import State
from mainspring.core.words import duration, shortened
from mainspring.errors import JobCancelledError, JobFailedError
from mainspring.verbs.documents import EndDocument
from mainspring.verbs.faces import Jobs


async def await_end(jobs: Jobs, job: str, within_s: float | None) -> EndDocument:
    """How the job ended; `WaitedError` if it has not after `within_s`."""
    try:
        async with asyncio.timeout(within_s):
            return await jobs.wait(job)
    except TimeoutError:
        state = (await jobs.read(job)).state
        told = f"job {job} is still {state} after {duration(within_s or 0)}"
        raise WaitedError(f"{told}; `mainspring jobs explain {job}` tells why") from None


def end_line(ended: EndDocument) -> str:
    """For people: the result, or nothing where the error line follows."""
    return pretty_json(bytes(ended.result)) if ended.state == State.COMPLETED else ended.state


def raise_unless_completed(ended: EndDocument) -> None:
    if ended.state == State.COMPLETED:
        return
    error = ended.error
    told = f": {error.type}: {shortened(error.message, 200)}" if error else ""
    if ended.state == State.FAILED:
        raise JobFailedError(f"job {ended.id} failed ({ended.reason}){told}")
    raise JobCancelledError(f"job {ended.id} was cancelled ({ended.reason})")
