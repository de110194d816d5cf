"""A user's own transaction on our file: his tables and his submits, committed together (see `store.contract.Transaction`).

It has a connection and a thread of its own, beside the writer's. One is open at a time in a process: SQLite has one write lock,
so more would only wait for each other, and whoever waits here costs no thread. What was begun on the thread is finished there,
in order, whatever becomes of the task that asked for it: a rollback that is queued behind a statement happens.

Two mistakes would end badly and are refused instead. Code inside the block that writes in another way (a plain `submit`) would
wait for a lock that it holds itself. And SQL that ends the transaction or changes our tables never is what its author meant.
"""

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import apsw

from mainspring.core.job import NewJobs
from mainspring.core.lane import Lane
from mainspring.errors import InvalidError, StoreError, StoreUnavailableError
from mainspring.runtime.clock import Clock
from mainspring.runtime.log import get_logger
from mainspring.store.contract import Hint, Inserted
from mainspring.store.queries import load_migrations
from mainspring.store.sqlite import jobs
from mainspring.store.sqlite.database import connect, mapped_errors
from mainspring.store.sqlite.turnstile import Turnstile
from mainspring.store.sqlite.writer import Tx, begin_immediate, in_savepoint

T = TypeVar("T")

_log = get_logger("mainspring.store")

_LOOK_MS = 250  # how often a wait for the write lock asks whether it is still wanted
_LONG_S = 1.0
_NUMBERED = re.compile(r"""'[^']*'|"[^"]*"|--.*|\$([1-9]\d*)""")  # what stands in quotes or comments is no parameter

_OURS = {name for migration in load_migrations("mainspring.store.sqlite") for name in migration.tables} | {"migration"}
# Actions by which of their two names is the table's. A temporary table or view would stand in front of ours.
_TABLE_FIRST = (
    *(apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE, apsw.SQLITE_DROP_TABLE),
    *(apsw.SQLITE_CREATE_TEMP_TABLE, apsw.SQLITE_CREATE_TEMP_VIEW),
)
_TABLE_SECOND = (
    *(apsw.SQLITE_ALTER_TABLE, apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_DROP_INDEX),
    *(apsw.SQLITE_CREATE_TRIGGER, apsw.SQLITE_DROP_TRIGGER, apsw.SQLITE_CREATE_TEMP_TRIGGER),
)

_inside: ContextVar[tuple["SqliteTransaction", ...]] = ContextVar("mainspring_transactions", default=())


class SqliteTransaction:
    """One transaction, from its begin to its end."""

    def __init__(self, owner: "Transactions", connection: apsw.Connection, inner: Tx) -> None:
        self.owner = owner
        self.inner = inner
        self.ended: str | None = None  # why nothing more can be done in it
        self._connection = connection

    @property
    def connection(self) -> apsw.Connection:
        self.check_open()
        return self._connection

    async def execute(self, sql: str, /, *parameters: Any) -> list[tuple[Any, ...]]:
        self.check_open()
        running = self.owner.start(self.owner.execute, sql, _bindings(sql, parameters))
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            if not running.cancel():
                self._connection.interrupt()
            raise

    def check_open(self) -> None:
        if self.ended is not None:
            raise StoreError(self.ended)


class Transactions:
    """The transactions of one store, one after the other."""

    def __init__(
        self, path: Path, clock: Clock, partitions: int, folder: Path, publish: Callable[[list[Hint]], None]
    ) -> None:
        self._path = path
        self._clock = clock
        self._partitions = partitions
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._turnstile = Turnstile(folder)  # not the writer's: a file's lock does not keep its own holder out
        self._thread = ThreadPoolExecutor(1, "mainspring-transaction")
        self._made: apsw.Connection | None = None
        self._open: SqliteTransaction | None = None
        self._closed = False
        self._ours = False  # the statement that is being prepared is not the user's

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[SqliteTransaction]:
        self.refuse_inside("another transaction")
        async with self._turn:
            if self._closed:
                raise StoreError("the store is closed")
            tx = await self._begin()
            _inside.set((*_inside.get(), tx))
            began_s = time.monotonic()
            try:
                yield tx
            except BaseException:
                await self._end(tx, self._rollback)
                raise
            else:
                tx.check_open()
                await self._end(tx, self._commit, tx.inner)
            finally:
                _inside.set(tuple(other for other in _inside.get() if other is not tx))
                _warn_if_long(time.monotonic() - began_s)

    async def insert(
        self, tx: SqliteTransaction, batches: Sequence[NewJobs], lanes: Sequence[Lane]
    ) -> list[list[Inserted]]:
        tx.check_open()
        return await self._do(self._insert, tx.inner, batches, lanes)

    def refuse_inside(self, what: str = "a plain submit, or any other write,") -> None:
        """Refuse what would wait for the end of the transaction that it is part of."""
        if any(tx.owner is self and tx.ended is None for tx in _inside.get()):
            raise StoreError(
                f"{what} inside app.transaction() would wait for the end of the block, and the block for it: "
                "submit with .within(tx), and do anything else before or after the block"
            )

    async def close(self) -> None:
        """What is open is rolled back."""
        self._closed = True
        if self._open is not None:
            self._open.ended = "the app was closed before this transaction ended: it was rolled back"
        await self._do(self._close)
        self._thread.shutdown()
        self._turnstile.close()

    def start(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        """On the thread, after everything that was asked for before."""
        return self._thread.submit(work, *arguments)

    async def _do(self, work: Callable[..., T], *arguments: Any) -> T:
        """To its end, even if nobody waits for it any more."""
        return await asyncio.shield(asyncio.wrap_future(self.start(work, *arguments)))

    async def _begin(self) -> SqliteTransaction:
        unwanted = threading.Event()
        try:
            connection = await self._do(self._wait_for_lock, unwanted)
        except asyncio.CancelledError:
            unwanted.set()
            if not self._closed:
                self._thread.submit(self._rollback)
            raise
        self._open = SqliteTransaction(self, connection, Tx(connection, self._clock.now(), self._partitions))
        return self._open

    async def _end(self, tx: SqliteTransaction, end: Callable[..., None], *arguments: Any) -> None:
        if tx.ended is None:
            tx.ended = "this transaction has ended: use it inside its `async with` block only"
            self._open = None
            await self._do(end, *arguments)

    # on the thread

    def execute(self, sql: str, bindings: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
        self._check_going_on()
        with mapped_errors(self._path):
            return self._connection.execute(sql, bindings).fetchall()

    @property
    def _connection(self) -> apsw.Connection:
        if self._made is None:
            made = connect(self._path)
            made.set_busy_timeout(_LOOK_MS)
            made.setlk_timeout(_LOOK_MS, 0)
            made.execute("pragma foreign_keys=on")  # ours has none; what a user declares should hold
            made.authorizer = self._authorise
            self._made = made
        return self._made

    def _wait_for_lock(self, unwanted: threading.Event) -> apsw.Connection:
        with mapped_errors(self._path):
            self._by_us(begin_immediate, self._connection, self._turnstile, lambda: self._closed or unwanted.is_set())
        return self._connection

    def _insert(self, tx: Tx, batches: Sequence[NewJobs], lanes: Sequence[Lane]) -> list[list[Inserted]]:
        self._check_going_on()
        tx.now = self._clock.now()
        return self._by_us(in_savepoint, tx, self._path, lambda tx: jobs.insert_jobs(tx, batches, lanes))

    def _commit(self, tx: Tx) -> None:
        self._check_going_on()
        try:
            with mapped_errors(self._path):
                self._by_us(self._finish, self._connection, "commit")
        finally:
            self._rollback()
        if hints := tx.hints():
            self._loop.call_soon_threadsafe(self._publish, hints)

    def _rollback(self) -> None:
        if self._made is not None and self._made.in_transaction:
            self._by_us(self._finish, self._made, "rollback")

    @staticmethod
    def _finish(connection: apsw.Connection, how: str) -> None:
        connection.execute(how, can_cache=False)  # a prepared one would be found by a user's own, unasked

    def _close(self) -> None:
        self._rollback()
        if self._made is not None:
            self._made.close()

    def _check_going_on(self) -> None:
        """After some errors SQLite rolls back by itself; what came then would be a transaction of its own."""
        if not self._connection.in_transaction:
            raise StoreUnavailableError(
                f"an error has ended this transaction on {self._path}: nothing was written; begin again"
            )

    def _by_us(self, work: Callable[..., T], *arguments: Any) -> T:
        self._ours = True
        try:
            return work(*arguments)
        finally:
            self._ours = False

    def _authorise(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if self._ours:
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_TRANSACTION:
            raise InvalidError("sql", f"{first} is what the end of the block does: leave it out, or raise to roll back")
        table = first if action in _TABLE_FIRST else second if action in _TABLE_SECOND else None
        if table is not None and table.lower() in _OURS:
            raise InvalidError("sql", f"the table {table!r} is Mainspring's own: give yours another name")
        return apsw.SQLITE_OK


def _bindings(sql: str, parameters: tuple[Any, ...]) -> Sequence[Any] | Mapping[str, Any]:
    """`$1` as on PostgreSQL: SQLite takes it for a name, and would number names by where they first appear."""
    numbers = {int(number) for number in _NUMBERED.findall(sql) if number}
    if not numbers:
        return parameters
    if max(numbers) != len(parameters):
        raise InvalidError("parameters", f"the statement has ${max(numbers)}, and {len(parameters)} were given")
    return {str(number): value for number, value in enumerate(parameters, 1)}


def _warn_if_long(lasted_s: float) -> None:
    if lasted_s > _LONG_S:
        _log.warning("a transaction kept everybody else from writing", seconds=round(lasted_s, 1))
