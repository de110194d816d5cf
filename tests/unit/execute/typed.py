"""A job type as a worker runs it: a worker that knows nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from execute.harness import MemoryLink, working
from mainspring.core.job import Options
from mainspring.core.objects import RESULT, output
from mainspring.execute.registry import Registry
from mainspring.execute.types import JobType
from mainspring.execute.types.catalogue import TypeKind
from mainspring.wire import Assignment, Outcome

JOB = bytes(15) + b"\x07"


class Typed:
    """A worker that runs one type; a job is its arguments."""

    def __init__(self, kind: TypeKind) -> None:
        self.link = MemoryLink()
        self._kind = kind

    def submit(self, secrets: dict[str, str] | None = None, timeout_s: float | None = None, **arguments: Any) -> bytes:
        data = self._kind.encode((), arguments)
        options = Options(timeout_s=timeout_s)
        self.link.assign(Assignment(JOB, 1, "default", "default", self._kind.name, data, options, 0, 0, secrets or {}))
        return JOB

    async def run(
        self, secrets: dict[str, str] | None = None, timeout_s: float | None = None, **arguments: Any
    ) -> Outcome:
        return await self.link.outcome(self.submit(secrets, timeout_s, **arguments))

    async def result(self, **arguments: Any) -> Any:
        """Of a job that completes."""
        outcome = await self.run(**arguments)
        assert outcome.failure is None, outcome.failure.message
        large = any(stored.name == RESULT for stored in outcome.outputs)
        data = await self.object(output(1, RESULT)) if large else outcome.result
        return msgspec.json.decode(data or b"null")

    async def failure(self, **arguments: Any) -> str:
        """Why a job failed for good."""
        outcome = await self.run(**arguments)
        assert outcome.failure is not None
        assert not outcome.retry, outcome.failure.message
        return outcome.failure.message

    async def object(self, name: str) -> bytes:
        return b"".join([piece async for piece in self.link.objects.get(JOB, name)])


@asynccontextmanager
async def typed(type_: JobType) -> AsyncIterator[Typed]:
    kind = TypeKind(type_)
    registry = Registry()
    registry.add(kind)
    made = Typed(kind)
    async with working(registry, made.link, stop_grace_s=5.0):
        yield made
