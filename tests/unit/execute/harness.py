"""A node in memory, and a worker around it."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from mainspring.core.job import Options
from mainspring.core.objects import Found
from mainspring.core.retry import Backoff
from mainspring.errors import NotFoundError, SessionEndedError
from mainspring.execute.context import Context, Tell
from mainspring.execute.link import Cancel
from mainspring.execute.registry import Kind, Registry
from mainspring.execute.services import JobObjects, Services
from mainspring.execute.worker import Worker
from mainspring.objects.place import ObjectPlace
from mainspring.wire import Assignment, Outcome, Report, ReportReply, WorkerInfo

BEAT_S = 0.02


class MemoryLink:
    """Keeps a link's contract and remembers every call."""

    def __init__(self) -> None:
        self.infos: list[WorkerInfo] = []
        self.pulls: list[tuple[bytes, int, int]] = []
        self.reports: list[Report] = []
        self.ended: list[bytes] = []
        self.errors: dict[str, list[Exception]] = defaultdict(list)
        self.called: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.report_gate = asyncio.Event()
        self.report_gate.set()
        self._queue: list[Assignment] = []
        self._work = asyncio.Event()
        self._answers: dict[tuple[bytes, int], list[Assignment]] = {}
        self._outcomes: dict[bytes, asyncio.Future[Outcome]] = {}
        self._cancel: list[bytes] = []
        self.drain = False
        self._over: set[bytes] = set()
        self._ids = itertools.count(1)
        self.objects = ObjectPlace("memory:///")

    def submit(self, kind: str, arguments: bytes | dict[str, Any] = b"{}", failures: int = 0, **options: Any) -> bytes:
        job = next(self._ids).to_bytes(16, "big")
        data = arguments if isinstance(arguments, bytes) else msgspec.json.encode(arguments)
        self.assign(Assignment(job, 1, "default", "default", kind, data, Options(**options), failures))
        return job

    def assign(self, assignment: Assignment) -> None:
        self._outcomes[assignment.job] = asyncio.get_running_loop().create_future()
        self._queue.append(assignment)
        self._work.set()

    async def outcome(self, job: bytes) -> Outcome:
        async with asyncio.timeout(20):
            return await asyncio.shield(self._outcomes[job])

    async def run(self, kind: str, arguments: bytes | dict[str, Any] = b"{}", **options: Any) -> Outcome:
        return await self.outcome(self.submit(kind, arguments, **options))

    async def reported(self, wanted: Callable[[Report], bool]) -> Report:
        """The first report that is as wanted."""
        async with asyncio.timeout(20):
            while True:
                self.called["report"].clear()
                for report in self.reports:
                    if wanted(report):
                        return report
                await self.called["report"].wait()

    async def put_object(self, session: bytes, job: bytes, attempt: int, name: str, data: bytes | Path) -> None:
        if self.has_outcome(job):
            raise SessionEndedError("this attempt is no longer with this session")
        await self.objects.put(job, name, data)

    def get_object(self, session: bytes, job: bytes, attempt: int, name: str) -> AsyncIterator[bytes]:
        return self.objects.get(job, name)

    async def find_objects(self, session: bytes, job: bytes, attempt: int, prefix: str) -> list[Found]:
        return await self.objects.find(job, prefix)

    def has_outcome(self, job: bytes) -> bool:
        return self._outcomes[job].done()

    def cancel(self, job: bytes) -> None:
        self._cancel.append(job)

    def end_session(self, session: bytes) -> None:
        self._over.add(session)
        self._work.set()

    async def register(self, info: WorkerInfo, cancel: Cancel) -> bytes:
        self._note("register")
        self.infos.append(info)
        return f"session-{len(self.infos)}".encode()

    async def pull(self, session: bytes, number: int, free: int) -> list[Assignment]:
        self.pulls.append((session, number, free))
        self._note("pull")
        while session not in self._over and (session, number) not in self._answers and not self._queue:
            self._work.clear()
            await self._work.wait()
        if session in self._over:
            raise SessionEndedError
        if (session, number) not in self._answers:
            self._answers[session, number], self._queue = self._queue[:free], self._queue[free:]
        self._note("answer")
        return self._answers[session, number]

    async def report(self, session: bytes, report: Report) -> ReportReply:
        self.reports.append(report)
        self._note("report")
        await self.report_gate.wait()
        if session in self._over:
            raise SessionEndedError
        for outcome in report.outcomes:
            if not self._outcomes[outcome.job].done():
                self._outcomes[outcome.job].set_result(outcome)
        cancel, self._cancel = self._cancel, []
        return ReportReply(cancel=cancel, drain=self.drain)

    async def end(self, session: bytes) -> None:
        self._note("end")
        self.ended.append(session)

    def _note(self, call: str) -> None:
        self.called[call].set()
        if self.errors[call]:
            raise self.errors[call].pop(0)


class PlaceObjects:
    """The objects of one job with nothing between."""

    def __init__(self, job: bytes, place: ObjectPlace | None = None) -> None:
        self._job = job
        self._place = place or ObjectPlace("memory:///")

    async def put(self, name: str, data: bytes | Path) -> None:
        await self._place.put(self._job, name, data)

    async def read(self, name: str) -> bytes | None:
        try:
            return await self._place.read(self._job, name)
        except NotFoundError:
            return None

    async def find(self, prefix: str) -> list[Found]:
        return await self._place.find(self._job, prefix)


def context_of(assignment: Assignment, tell: Tell = lambda _: None, *, objects: JobObjects | None = None) -> Context:
    """A context outside of any worker; `objects`: those of another one."""
    return Context(assignment, tell, Services(assignment, objects or PlaceObjects(assignment.job)))


def registry_of(*functions: Callable[..., Any], **options: Any) -> Registry:
    """Each function under its own name, all with the same options."""
    registry = Registry()
    for function in functions:
        registry.add(Kind(function.__name__, function, **options))
    return registry


@asynccontextmanager
async def working(registry: Registry, link: MemoryLink, **options: Any) -> AsyncIterator[Worker]:
    """A worker that runs; it is stopped at the end, at once unless a test says otherwise."""
    settings: dict[str, Any] = {
        "slots": 8,
        "grace_s": 0.0,
        "stop_grace_s": 0.05,
        "heartbeat_s": BEAT_S,
        "backoff": Backoff(0.001, 0.01),
    }
    worker = Worker(registry, link, **(settings | options))
    running = asyncio.ensure_future(worker.run())
    try:
        yield worker
    finally:
        async with asyncio.timeout(20):
            await worker.stop()
            await running
