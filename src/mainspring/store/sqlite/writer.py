"""The one writer: group commit on a thread of its own.

Whatever arrives while a commit is under way goes into the next one: one fsync for all of it. Each operation runs in a
savepoint, so one that fails changes nothing and harms nobody else. A caller is answered after the commit is durable. Hints are
published after the commit, never before.
"""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from mainspring.core.timer import Micros
from mainspring.errors import StoreError, StoreUnavailableError
from mainspring.runtime.clock import Clock
from mainspring.store.contract import Hint
from mainspring.store.hints import Hints
from mainspring.store.sqlite.database import mapped_errors
from mainspring.store.sqlite.turnstile import Turnstile

T = TypeVar("T")

MAX_GROUP = 1000


class Tx(Hints):
    """What an operation works with: the connection, the time, and the hints to send if it commits."""

    def __init__(self, connection: apsw.Connection, now: Micros, partitions: int) -> None:
        super().__init__()
        self.connection = connection
        self.execute: Callable[..., Any] = connection.execute
        self.now = now
        self.partitions = partitions


Operation = Callable[[Tx], T]
Done = Callable[[Any, BaseException | None], None]


def in_savepoint(tx: Tx, path: Path, operation: Operation[T]) -> T:
    """An operation that fails changes nothing, hints at nothing, and leaves the transaction to those it shares it with."""
    before = (dict(tx.streams), tx.next_due, set(tx.topics))
    tx.execute("savepoint operation")
    try:
        with mapped_errors(path):
            return operation(tx)
    except BaseException:
        tx.streams, tx.next_due, tx.topics = before
        if tx.connection.in_transaction:  # a disk that is full or broken may have ended it
            tx.execute("rollback to operation")
        raise
    finally:
        if tx.connection.in_transaction:
            tx.execute("release operation")


def begin_immediate(connection: apsw.Connection, turnstile: Turnstile, given_up: Callable[[], bool]) -> None:
    """Another process may hold the write lock for long; that is no reason to fail, only to wait."""
    with turnstile.turn():
        while True:
            try:
                connection.execute("begin immediate")
                return
            except apsw.BusyError:
                if given_up():
                    raise


class Writer:
    """Runs operations in the order they come, in groups."""

    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        clock: Clock,
        partitions: int,
        turnstile: Turnstile,
        publish: Callable[[list[Hint]], None],
    ) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock
        self._partitions = partitions
        self._turnstile = turnstile
        self._publish = publish
        self._queue: SimpleQueue[tuple[Operation[Any], Done] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="mainspring-writer", daemon=True)
        self._thread.start()

    async def run(self, operation: Operation[T]) -> T:
        """The operation's answer, once it is durable."""
        future: asyncio.Future[T] = self._loop.create_future()

        def done(value: T, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        self.submit(operation, done)
        return await future

    def submit(self, operation: Operation[T], done: Done) -> None:
        """From any thread; `done` is called in the event loop."""
        if self._closed:
            raise StoreError("the store is closed")
        self._queue.put((operation, done))

    def submit_direct(self, operation: Operation[T], done: Done) -> None:
        """From any thread; `done` is called in the writer thread, so it answers even while the event loop is blocked."""
        self._queue.put((operation, _Direct(done)))

    async def close(self) -> None:
        """Commits what is queued, then ends; the connection stays open."""
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        open_ = True
        while open_:
            group = []
            item = self._queue.get()
            while item is not None:
                group.append(item)
                if self._queue.empty() or len(group) == MAX_GROUP:
                    break
                item = self._queue.get()
            open_ = item is not None
            if group:
                self._answer(group, *self._commit(group))

    def _commit(
        self, group: list[tuple[Operation[Any], Done]]
    ) -> tuple[list[tuple[Any, BaseException | None]], list[Hint]]:
        try:
            with mapped_errors(self._path):
                begin_immediate(self._connection, self._turnstile, lambda: self._closed)
                tx = Tx(self._connection, self._clock.now(), self._partitions)
                answers = [self._apply(tx, operation) for operation, _ in group]
                self._connection.execute("commit")
            return answers, tx.hints()
        except Exception as error:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            return [(None, error)] * len(group), []

    def _apply(self, tx: Tx, operation: Operation[Any]) -> tuple[Any, BaseException | None]:
        try:
            return in_savepoint(tx, self._path, operation), None
        except StoreUnavailableError:
            raise  # the disk is full or broken: nobody in this group can be served
        except Exception as error:
            return None, error

    def _answer(
        self,
        group: list[tuple[Operation[Any], Done]],
        answers: list[tuple[Any, BaseException | None]],
        hints: list[Hint],
    ) -> None:
        in_loop = []
        for (_, done), answer in zip(group, answers, strict=True):
            if isinstance(done, _Direct):
                done(*answer)
            else:
                in_loop.append((done, answer))

        def answer_all() -> None:
            for done, answer in in_loop:
                done(*answer)
            if hints:
                self._publish(hints)

        try:
            self._loop.call_soon_threadsafe(answer_all)
        except RuntimeError:
            if not self._loop.is_closed():
                raise


class _Direct:
    def __init__(self, done: Done) -> None:
        self._done = done

    def __call__(self, value: Any, error: BaseException | None) -> None:
        self._done(value, error)
