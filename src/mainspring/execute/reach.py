"""What an attempt reaches of the outside while it runs: the objects of its job.

Made by the worker for its runner, over whatever link it has. Guarantees: a call is repeated until it is answered, as every call
of a worker is; `SessionEndedError` says that the attempt is no longer this worker's, and so does a worker without a session.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from mainspring.core.objects import Found
from mainspring.core.retry import Backoff
from mainspring.errors import InvalidError, NotFoundError, SecretsError, SessionEndedError
from mainspring.execute.link import Link
from mainspring.execute.patience import persist
from mainspring.wire import Assignment

_FINAL = (InvalidError, NotFoundError, SecretsError)
_T = TypeVar("_T")


class Reach:
    """`session`: the worker's, now."""

    def __init__(self, link: Link, session: Callable[[], bytes | None], backoff: Backoff) -> None:
        self._link = link
        self._session = session
        self._backoff = backoff

    async def put(self, assignment: Assignment, name: str, data: bytes | Path) -> None:
        """Durable when this returns."""
        job, attempt = assignment.job, assignment.attempt
        await persist(
            lambda: self._link.put_object(self._here(), job, attempt, name, data), "put", self._backoff, _FINAL
        )

    async def read(self, assignment: Assignment, name: str) -> bytes | None:
        """A small one as a whole; None where there is none."""
        try:
            return await persist(lambda: self._read(assignment, name), "get", self._backoff, _FINAL)
        except NotFoundError:
            return None

    def get(self, assignment: Assignment, name: str) -> AsyncIterator[bytes]:
        """A large one, a piece at a time; not repeated, because nobody knows where to go on."""
        return self._link.get_object(self._here(), assignment.job, assignment.attempt, name)

    async def find(self, assignment: Assignment, prefix: str) -> list[Found]:
        job, attempt = assignment.job, assignment.attempt
        return await persist(
            lambda: self._link.find_objects(self._here(), job, attempt, prefix), "find", self._backoff, _FINAL
        )

    async def _read(self, assignment: Assignment, name: str) -> bytes:
        return b"".join([piece async for piece in self.get(assignment, name)])

    def _here(self) -> bytes:
        session = self._session()
        if session is None:
            raise SessionEndedError("this worker has no session now")
        return session


class AttemptReach:
    """`Reach` for one attempt, from whatever thread and event loop; `loop`: the worker's, in which its link is used."""

    def __init__(self, reach: Reach, assignment: Assignment, loop: asyncio.AbstractEventLoop) -> None:
        self._reach = reach
        self._assignment = assignment
        self._loop = loop

    async def put(self, name: str, data: bytes | Path) -> None:
        await self._in_loop(self._reach.put(self._assignment, name, data))

    async def read(self, name: str) -> bytes | None:
        return await self._in_loop(self._reach.read(self._assignment, name))

    async def find(self, prefix: str) -> list[Found]:
        return await self._in_loop(self._reach.find(self._assignment, prefix))

    async def _in_loop(self, call: Coroutine[Any, Any, _T]) -> _T:
        if asyncio.get_running_loop() is self._loop:
            return await call
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))
