"""A submitted job in the hand of its submitter: `Job`, and the one waiter behind all `result()` calls."""

import asyncio
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from mainspring.core.job import JobRecord
from mainspring.core.lifecycle import State
from mainspring.core.partition import format_id
from mainspring.core.timer import from_micros
from mainspring.errors import JobCancelledError, JobFailedError, NotFoundError, StoreError
from mainspring.runtime.log import get_logger
from mainspring.store.contract import Ended, Hint, Jobs

if TYPE_CHECKING:
    from mainspring.app.application import App

R = TypeVar("R")

_log = get_logger("mainspring.app")

_SLOW_LOOK_S = 1.0
_MAX_SHARE = 0.2  # of the event loop's time that waiting for results may take


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


def status_of(record: JobRecord) -> JobStatus:
    return JobStatus(
        id=format_id(record.id),
        kind=record.kind,
        queue=record.queue,
        tenant=record.tenant,
        state=State(record.state),
        priority=record.priority,
        attempt=record.attempt,
        failures=record.failures,
        created_at=from_micros(record.created_at),
        due_at=from_micros(record.due_at),
        started_at=None if record.started_at is None else from_micros(record.started_at),
        finished_at=None if record.finished_at is None else from_micros(record.finished_at),
        reason=record.reason,
        cancel_requested=record.cancelling,
        deadline_missed=record.missed_deadline,
        tags=record.options.tags,
    )


class Job(Generic[R]):
    """A handle. It holds an id only; every question goes to the store."""

    __slots__ = ("_app", "_kind", "existed", "key")

    def __init__(self, app: "App", key: bytes, kind: str | None, existed: bool = False) -> None:
        self._app = app
        self._kind = kind
        self.key = key
        self.existed = existed  # the submit found a job with the same key

    @property
    def id(self) -> str:
        return format_id(self.key)

    async def status(self) -> JobStatus:
        return status_of(await self._record())

    async def result(self, timeout: float | None = None) -> R:
        """What the job returned. Raises `JobFailedError`, `JobCancelledError`, or `TimeoutError` if it has not ended in time."""
        async with asyncio.timeout(timeout):
            ended = await self._app.waiter.wait(self.key)
        kind = self._kind or (await self._record()).kind
        value: R = self._value(ended, kind)
        return value

    async def cancel(self) -> bool:
        """End it, or ask it to stop if it runs; False if it had ended before."""
        (answer,) = await self._app.store.cancel_jobs([self.key])
        if answer is None:
            raise NotFoundError(f"there is no job {self.id}")
        return answer != "ended"

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    async def _record(self) -> JobRecord:
        (record,) = await self._app.store.read_jobs([self.key])
        if record is None:
            raise NotFoundError(f"there is no job {self.id}")
        return record

    def _value(self, ended: Ended, kind: str) -> Any:
        if ended.state == State.COMPLETED:
            return self._app.decode_result(kind, ended.result)
        failure = ended.failure
        told = f": {failure.type}: {failure.message}" if failure else ""
        if ended.state == State.FAILED:
            trace = failure.traceback if failure else None
            raise JobFailedError(f"job {self.id} failed ({ended.reason}){told}", reason=ended.reason, traceback=trace)
        raise JobCancelledError(f"job {self.id} was cancelled ({ended.reason}){told}", reason=ended.reason)


class Waiter:
    """Answers everybody who waits for a job to end, with one query for all of them."""

    def __init__(self, store: Jobs) -> None:
        self._store = store
        self._waiting: dict[bytes, list[asyncio.Future[Ended]]] = {}
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._pause_s = 0.0
        self._again = False

    async def wait(self, job: bytes) -> Ended:
        future: asyncio.Future[Ended] = self._loop.create_future()
        self._waiting.setdefault(job, []).append(future)  # before the first look, so that no hint falls between the two
        try:
            (ended,) = await self._store.read_ended([job])
            if ended is not None:
                return ended
            if (await self._store.read_jobs([job]))[0] is None:
                raise NotFoundError(f"there is no job {format_id(job)}")
            self._look_in(_SLOW_LOOK_S)
            return await future
        finally:
            waiters = self._waiting.get(job, [])
            if future in waiters:
                waiters.remove(future)
            if not waiters:
                self._waiting.pop(job, None)

    def hear(self, hint: Hint) -> None:
        if hint.topic == "settled" and self._waiting:
            self._look_in(self._pause_s)

    def close(self) -> None:
        if self._look is not None:
            self._look.cancel()
        for futures in self._waiting.values():
            for future in futures:
                future.cancel()

    def _look_in(self, seconds: float) -> None:
        if self._look is not None:
            if self._look.when() <= self._loop.time() + seconds:
                return
            self._look.cancel()
        self._look = self._loop.call_later(seconds, self._start_look)

    def _start_look(self) -> None:
        self._look = None
        if self._looking is None:
            self._looking = self._loop.create_task(self._answer())
        else:
            self._again = True  # what ended since that look began may not be in its answer

    async def _answer(self) -> None:
        started_s = time.monotonic()
        try:
            ids = list(self._waiting)
            for job, ended in zip(ids, await self._store.read_ended(ids), strict=True):
                if ended is not None:
                    for future in self._waiting.pop(job, []):
                        if not future.done():
                            future.set_result(ended)
        except StoreError as error:
            _log.warning("cannot see which jobs have ended; looking again", error=str(error))
        finally:
            self._looking = None
            self._pause_s = (time.monotonic() - started_s) / _MAX_SHARE
            if self._waiting:
                self._look_in(self._pause_s if self._again else _SLOW_LOOK_S)
            self._again = False
