"""How a worker reaches its server over HTTP: `execute.link.Link`, on a thread of its own.

The thread has its own event loop, so that signs of life go out while a job blocks the worker's loop: whoever computes for a minute
does not lose his session. Calls come from the worker's loop and are bridged. Errors are raised as they are; the worker waits and
calls again, which is why nothing is retried here. Cancels that come with any answer are passed on at once; that the worker shall
leave is said with its next report.

A worker that has a join token and no key exchanges it once; the key is kept in memory only.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

import msgspec

from mainspring.client.asking import decoded
from mainspring.client.settings import ServerSettings
from mainspring.client.transport import Transport
from mainspring.core.objects import Found
from mainspring.core.partition import format_id
from mainspring.errors import MainspringError, ServerError
from mainspring.execute.link import Cancel
from mainspring.runtime.log import get_logger
from mainspring.runtime.loop import new_event_loop
from mainspring.verbs.documents import Declarations, KeyDocument
from mainspring.wire import Assignment, Outcome, Report, ReportReply, WorkerInfo
from mainspring.wire_http import (
    FEATURES,
    PROTOCOL,
    Pull,
    PullAnswer,
    Registered,
    Registration,
    ReportAnswer,
    http_report,
    read_pull_answer,
    read_report_answer,
)

T = TypeVar("T")

_REPLY_S = 15.0  # for an answer, beside what it may wait for jobs
_SILENCE_S = 60.0  # in which something of an object must come
_PIECE = 1_048_576
_LEAVE_S = 2.0  # whoever waits for this process to end has been promised a second or two
_REPORT_BYTES = 8_000_000  # of results in one report; a server takes 32 MiB
_OUTCOME_BYTES = 500  # what an outcome has beside its result

_log = get_logger("mainspring.worker")
_encode = msgspec.json.Encoder().encode


class RemoteLink:
    """One worker's line to a server. `close` it; its calls belong to one event loop, that of its worker."""

    def __init__(self, settings: ServerSettings, *, join_token: str | None = None, tenant: str | None = None) -> None:
        """`tenant`: serve only this one, with a key of all tenants."""
        self._transport = Transport(
            settings.url, settings.key, tenant=tenant, ca_file=settings.ca_file, retry_for_s=0.0
        )
        self._join_token = join_token if settings.key is None else None
        self._cancel: Cancel = lambda _: None
        self._worker: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._beat: asyncio.Task[None] | None = None
        self._long_poll_s = 0.0
        self._reported_s = 0.0  # when a report was last answered
        self._drain = False

    # called in the worker's loop

    async def register(self, info: WorkerInfo, cancel: Cancel) -> bytes:
        self._cancel, self._worker = cancel, asyncio.get_running_loop()
        return await self._bridge(self._register(info))

    async def pull(self, session: bytes, number: int, free: int) -> list[Assignment]:
        return await self._bridge(self._pull(session, number, free))

    async def report(self, session: bytes, report: Report) -> ReportReply:
        return await self._bridge(self._report(session, report))

    async def end(self, session: bytes) -> None:
        await self._bridge(self._end(session))

    async def put_object(self, session: bytes, job: bytes, attempt: int, name: str, data: bytes | Path) -> None:
        await self._bridge(self._transport.upload(_object_path(session, job, attempt, name), data))

    async def get_object(self, session: bytes, job: bytes, attempt: int, name: str) -> AsyncGenerator[bytes, None]:
        pieces = self._get(_object_path(session, job, attempt, name))
        try:
            while piece := await self._bridge(anext(pieces, b"")):
                yield piece
        finally:
            await self._bridge(pieces.aclose())

    async def find_objects(self, session: bytes, job: bytes, attempt: int, prefix: str) -> list[Found]:
        return await self._bridge(self._find(_object_path(session, job, attempt), prefix))

    async def declare(self, said: Declarations) -> list[str]:
        """What the application's code declares, with the worker's own key; the names of schedules that it once declared."""
        return await self._bridge(self._declare(said))

    async def close(self) -> None:
        """End the thread; what is under way is broken off."""
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._close(), loop))
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(thread.join)

    async def _bridge(self, work: Awaitable[T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_awaited(work), self._started()))

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = loop = new_event_loop()
            self._thread = threading.Thread(target=partial(_run, loop), name="mainspring-link", daemon=True)
            self._thread.start()
        return self._loop

    # on the thread

    async def _declare(self, said: Declarations) -> list[str]:
        await self._enrol()
        return decoded(await self._post("/v1/declarations", said), dict[str, list[str]])["orphans"]

    async def _register(self, info: WorkerInfo) -> bytes:
        await self._enrol()
        asked = Registration(
            protocol=PROTOCOL,
            name=info.name,
            slots=info.slots,
            kinds=sorted(info.kinds),
            labels=sorted(info.labels),
            resources=info.resources,
            features=list(FEATURES),
        )
        registered = decoded(await self._post("/v1/workers", asked), Registered)
        if registered.protocol != PROTOCOL:
            raise ServerError(
                f"the server speaks version {registered.protocol} of the protocol, this worker {PROTOCOL}"
            )
        session = UUID(registered.session).bytes
        self._long_poll_s, self._drain = registered.long_poll_s, False
        self._reported_s = time.monotonic()
        self._stop_beat()
        self._beat = asyncio.ensure_future(self._beat_forever(session, registered.heartbeat_s))
        return session

    async def _enrol(self) -> None:
        """Once: the token is spent by it. Where the answer is lost it is gone, and only another one helps."""
        if self._join_token is None:
            return
        headers = {"Authorization": f"Bearer {self._join_token}"}
        reply = await self._transport.request("POST", "/v1/workers/enrol", headers=headers, timeout_s=_REPLY_S)
        self._transport.key = decoded(reply.body, KeyDocument).key
        self._join_token = None
        _log.info("enrolled")

    async def _pull(self, session: bytes, number: int, free: int) -> list[Assignment]:
        body = await self._post(_path(session, "pull"), Pull(number=number, free=free), self._long_poll_s)
        answer = read_pull_answer(decoded(body, PullAnswer))
        self._hear(answer.cancel, answer.drain)
        return answer.assignments

    async def _report(self, session: bytes, report: Report) -> ReportReply:
        rejected: list[bytes] = []
        for part in _parts(report):
            body = await self._post(_path(session, "report"), http_report(part))
            answer = read_report_answer(decoded(body, ReportAnswer))
            self._reported_s = time.monotonic()
            self._hear(answer.cancel, answer.drain)
            rejected += answer.rejected
        return ReportReply(rejected, [], self._drain)

    async def _get(self, path: str) -> AsyncGenerator[bytes, None]:
        async with self._transport.stream(path, silence_s=_SILENCE_S) as content:
            async for piece in content.iter_chunked(_PIECE):
                yield piece

    async def _find(self, path: str, prefix: str) -> list[Found]:
        reply = await self._transport.request(
            "GET", path, query={"prefix": prefix}, timeout_s=_SILENCE_S, repeatable=True
        )
        return decoded(reply.body, list[Found])

    async def _end(self, session: bytes) -> None:
        self._stop_beat()
        await self._transport.request("DELETE", _path(session), timeout_s=_LEAVE_S, repeatable=True)

    async def _beat_forever(self, session: bytes, every_s: float) -> None:
        """Signs of life, where the worker itself has not reported for a while."""
        while True:
            await asyncio.sleep(max(0.0, self._reported_s + every_s - time.monotonic()))
            try:
                await self._report(session, Report([]))
            except MainspringError as error:
                # What is wrong is said to the worker when it calls; here it is enough to go on.
                _log.debug("no answer to a sign of life", error=repr(error))
                await asyncio.sleep(every_s / 3)

    def _hear(self, cancel: list[bytes], drain: bool) -> None:
        self._drain = self._drain or drain
        with contextlib.suppress(RuntimeError):  # the worker's loop is closed
            for job in cancel:
                assert self._worker is not None
                self._worker.call_soon_threadsafe(self._cancel, job)

    async def _post(self, path: str, document: Any, wait_s: float = 0.0) -> bytes:
        reply = await self._transport.request(
            "POST", path, body=_encode(document), timeout_s=wait_s + _REPLY_S, repeatable=True
        )
        return reply.body

    def _stop_beat(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    async def _close(self) -> None:
        self._stop_beat()
        await self._transport.close()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_end_all())
    finally:
        loop.close()


async def _end_all() -> None:
    """What is under way is broken off."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _path(session: bytes, call: str = "") -> str:
    return f"/v1/workers/{format_id(session)}" + (f"/{call}" if call else "")


def _object_path(session: bytes, job: bytes, attempt: int, name: str = "") -> str:
    return _path(session, f"jobs/{format_id(job)}/attempts/{attempt}/objects") + (
        f"/{quote(name, safe='')}" if name else ""
    )


async def _awaited(work: Awaitable[T]) -> T:
    """What is no coroutine, such as the next of a generator, as one."""
    return await work


def _parts(report: Report) -> Iterator[Report]:
    """A report in pieces that a server takes; what runs is said in the last, when all outcomes are there."""
    outcomes: list[Outcome] = []
    size = 0
    for outcome in report.outcomes:
        size += _OUTCOME_BYTES + len(outcome.result or b"")
        if size > _REPORT_BYTES and outcomes:
            yield Report(outcomes)
            outcomes, size = [], _OUTCOME_BYTES + len(outcome.result or b"")
        outcomes.append(outcome)
    yield Report(outcomes, report.running, report.progress)
