"""A submitted job in the hand of its submitter: `Job`."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, json

from mainspring.app.downloads import download, read_whole
from mainspring.core.lifecycle import State
from mainspring.core.objects import RESULT
from mainspring.core.partition import format_id
from mainspring.errors import JobCancelledError, JobFailedError
from mainspring.verbs.documents import NULL, EndDocument, JobDocument, LogPart, OutputDocument
from mainspring.verbs.results import expired

if TYPE_CHECKING:
    from mainspring.app.application import App

R = TypeVar("R")


class JobStatus(Struct, frozen=True, kw_only=True):
    """A job as it stood when it was read."""

    id: str
    kind: str
    queue: str
    tenant: str
    state: State
    priority: int
    attempt: int
    failures: int
    created_at: datetime
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    reason: str | None
    cancel_requested: bool
    deadline_missed: bool
    tags: tuple[str, ...]


def status_of(job: JobDocument) -> JobStatus:
    said = {name: getattr(job, name) for name in JobStatus.__struct_fields__}
    return JobStatus(**said | {"state": State(job.state)})


class Job(Generic[R]):
    """A handle. It holds an id only; every question goes to the store, or to the server that has it."""

    __slots__ = ("_app", "existed", "key")

    def __init__(self, app: "App", key: bytes, existed: bool = False) -> None:
        self._app = app
        self.key = key
        self.existed = existed  # the submit found a job with the same key

    @property
    def id(self) -> str:
        return format_id(self.key)

    async def status(self) -> JobStatus:
        return status_of(await self._app.verbs().jobs.read(self.id))

    async def result(self, timeout: float | None = None) -> R:
        """What the job returned. Raises `JobFailedError`, `JobCancelledError`, or `TimeoutError` if it has not ended in time."""
        async with asyncio.timeout(timeout):
            jobs = self._app.verbs().jobs
            ended = await jobs.wait(self.id)
            large = next((each for each in ended.outputs if each.name == RESULT), None)
            data = bytes(ended.result) if large is None else await read_whole(jobs, self.id, large)
        value: R = self._value(ended, data)
        return value

    async def outputs(self) -> Sequence[OutputDocument]:
        """The files of the job; none before it has completed."""
        return await self._app.verbs().jobs.outputs(self.id)

    async def download(
        self, name: str, path: str | os.PathLike[str], tell: Callable[[int, int], None] = lambda done, size: None
    ) -> Path:
        """Bring one of its files here: to a path, or into a folder. It is there when all of it is, and its checksum is right.

        tell: called with how many bytes are here, and how many there are.
        """
        return await download(self._app.verbs().jobs, self.id, name, path, tell)

    async def cancel(self) -> bool:
        """End it, or ask it to stop if it runs; False if it had ended before."""
        return await self._app.verbs().jobs.cancel(self.id) != "ended"

    def logs(self, *, attempt: int | None = None, follow: bool = False) -> AsyncGenerator[LogPart, None]:
        """What its attempts wrote, or one of them: `async for part in job.logs(): print(part.text, end="")`.

        follow: go on as it comes, until the job has ended and everything was read.
        """
        return self._app.verbs().jobs.logs(self.id, attempt=attempt, follow=follow)

    async def partial(self) -> AsyncGenerator[Any, None]:
        """What it gives out while it runs, `ctx.emit(value)`: from the first one on, until the job has ended.

        An attempt that is tried again begins anew, and so do its values.
        """
        async with aclosing(self._app.verbs().jobs.partial(self.id, follow=True)) as given:
            async for result in given:
                yield json.decode(result.value)

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def _value(self, ended: EndDocument, data: bytes) -> Any:
        if ended.expired:
            raise expired(self.id)
        if ended.state == State.COMPLETED:
            return self._app.decode_result(ended.kind, None if data == bytes(NULL) else data)
        failure = ended.error
        told = f": {failure.type}: {failure.message}" if failure else ""
        if ended.state == State.FAILED:
            trace = failure.traceback if failure else None
            raise JobFailedError(f"job {self.id} failed ({ended.reason}){told}", reason=ended.reason, traceback=trace)
        raise JobCancelledError(f"job {self.id} was cancelled ({ended.reason}){told}", reason=ended.reason)
