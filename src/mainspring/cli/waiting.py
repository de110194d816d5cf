"""Waiting for a job from the command line, and saying how it ended. Used by `submit --wait` and `jobs wait`."""

import asyncio

from mainspring.cli.failures import WaitedError
from mainspring.cli.output import pretty_json
from mainspring.core.lifecycle import State
from mainspring.core.objects import RESULT
from mainspring.core.words import duration, shortened, size
from mainspring.errors import JobCancelledError, JobFailedError
from mainspring.verbs.documents import EndDocument, JobDocument
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
    if ended.state != State.COMPLETED:
        return ended.state
    return shown_elsewhere(ended) or pretty_json(bytes(ended.result))


def shown_elsewhere(job: EndDocument | JobDocument) -> str | None:
    """What to say instead of a result that is not with its job; None where it is."""
    if job.expired:
        return "the result was kept for a time that is over"
    large = next((each for each in job.outputs if each.name == RESULT), None)
    return None if large is None else f"{size(large.size)}: mainspring jobs download {job.id} {RESULT}"


def raise_unless_completed(ended: EndDocument) -> None:
    if ended.state == State.COMPLETED:
        return
    error = ended.error
    told = f": {error.type}: {shortened(error.message, 200)}" if error else ""
    if ended.state == State.FAILED:
        raise JobFailedError(f"job {ended.id} failed ({ended.reason}){told}")
    raise JobCancelledError(f"job {ended.id} was cancelled ({ended.reason})")
