"""What attempts leave piece by piece while they run (logs, partial results), for those who read it: `Pieces`.

A room of a job's objects is read in the order of attempts and numbers. Who follows asks for the next number of the attempt that
runs, and lists again only when that attempt is over; so following costs the same however much there is. All who follow a job
share their questions: a few a second, about the job and about its next piece, whatever their number.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import Any, TypeVar

from msgspec import Struct

from mainspring.core.job import JobRecord
from mainspring.core.lifecycle import ENDED
from mainspring.errors import NotFoundError, StoreUnavailableError
from mainspring.secrets.objects import SealedObjects
from mainspring.store.contract import Store

POLL_S = 0.5

T = TypeVar("T")
Place = tuple[int, int]  # attempt, number

START: Place = (0, 0)


class Room(Struct, frozen=True):
    """`name` of a piece; without a number the prefix of an attempt's."""

    prefix: str
    name: Callable[[int, int | None], str]


class Piece(Struct, frozen=True):
    """`data` None: the attempt is over, and everything of it was read."""

    attempt: int
    number: int
    data: bytes | None


class Pieces:
    """Made in the event loop in which it is used."""

    def __init__(self, store: Store, objects: SealedObjects) -> None:
        self._store = store
        self._objects = objects
        self._glances = _Glances()
        self._closed = asyncio.Event()

    def close(self) -> None:
        """Everybody's stream ends."""
        self._closed.set()

    async def read(
        self, record: JobRecord, room: Room, *, first: Place = START, attempt: int | None = None, follow: bool = False
    ) -> AsyncGenerator[Piece | None, None]:
        """From the piece `first` on, of one attempt or of all of them. `follow`: until the job, or that attempt, has ended. None,
        once: what was there at first was read, and more may come."""
        cursor = _Cursor(record, room, first, attempt)
        seen: JobRecord | None = record
        before = -1  # the attempt that ran when we listed
        while seen is not None and not self._closed.is_set():
            running = seen.attempt
            over = seen.state in ENDED or (attempt is not None and running > attempt)
            if running != before or over:
                async for piece in self._listed(cursor, running, over):
                    yield piece
            else:
                while (data := await self._next(cursor)) is not None:
                    yield cursor.took(data)
            if over or not follow:
                return
            if before < 0:
                yield None
            before = running
            await self._pause()
            seen = await self._look(seen)

    async def _listed(self, cursor: "_Cursor", running: int, over: bool) -> AsyncGenerator[Piece, None]:
        """What is there now. The pieces of an attempt that runs may come in another order, so none is passed over there."""
        found = await self._objects.find(cursor.job, cursor.prefix)
        for place in sorted(_place(each.name) for each in found):
            if place < cursor.next:
                continue
            if place[0] > cursor.next[0]:
                for piece in cursor.leave():
                    yield piece
                cursor.enter(place[0])
            if place[0] >= running and not over and place != cursor.next:
                break
            data = await self._get(cursor, cursor.room.name(*place))
            if data is not None:
                cursor.next = place
                yield cursor.took(data)
        if over or running > cursor.next[0]:
            for piece in cursor.leave():
                yield piece
        if cursor.only is None and not over and running > cursor.next[0]:
            cursor.enter(running)

    async def _next(self, cursor: "_Cursor") -> bytes | None:
        name = cursor.room.name(*cursor.next)
        try:
            return await self._glances.ask((cursor.job, name), lambda: self._get(cursor, name))
        except StoreUnavailableError:
            return None  # asked again in a moment

    async def _get(self, cursor: "_Cursor", name: str) -> bytes | None:
        try:
            return await self._objects.read(cursor.tenant, cursor.job, name)
        except NotFoundError:
            return None

    async def _look(self, last: JobRecord) -> JobRecord | None:
        async def look() -> JobRecord | None:
            (record,) = await self._store.read_jobs([last.id])
            return record

        try:
            return await self._glances.ask(last.id, look)
        except StoreUnavailableError:
            return last

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(POLL_S):
                await self._closed.wait()
        except TimeoutError:
            pass


class _Cursor:
    """Where somebody stands: `next` is what he has not read."""

    def __init__(self, record: JobRecord, room: Room, first: Place, only: int | None) -> None:
        self.job, self.tenant = record.id, record.tenant
        self.room = room
        self.only = only
        self.prefix = room.prefix if only is None else room.name(only, None)
        self.next = max(first, (only or 0, 1))
        self._read = False  # anything of this attempt

    def enter(self, attempt: int) -> None:
        self.next = (attempt, 1)
        self._read = False

    def took(self, data: bytes) -> Piece:
        attempt, number = self.next
        self.next = (attempt, number + 1)
        self._read = True
        return Piece(attempt, number, data)

    def leave(self) -> list[Piece]:
        """Once, and only of an attempt that left something."""
        left = [Piece(self.next[0], self.next[1] - 1, None)] if self._read else []
        self._read = False
        return left


class _Glances:
    """Questions that many ask at about the same time: each is asked once, and its answer stands for a moment."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, asyncio.Task[Any]] = {}

    async def ask(self, key: Hashable, question: Callable[[], Awaitable[T]]) -> T:
        task: asyncio.Task[T] | None = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.ensure_future(_asked(question))
            task.add_done_callback(lambda done: self._forget_later(key, done))
        return await asyncio.shield(task)

    def _forget_later(self, key: Hashable, done: "asyncio.Task[Any]") -> None:
        if not done.cancelled():
            done.exception()  # whoever asked may be gone
        done.get_loop().call_later(POLL_S, self._asked.pop, key, None)


async def _asked(question: Callable[[], Awaitable[T]]) -> T:
    return await question()


def _place(name: str) -> Place:
    _, attempt, number = name.split("/")
    return int(attempt), int(number)
