"""Connections to one PostgreSQL database: transactions that survive an outage, and the errors they turn into.

A write runs in one transaction, which begins with its first statement; where that is the only one, it commits by itself. Where the
connection breaks before the commit, nothing was written and it runs again; where it breaks during the commit, the mark that
the transaction left tells what became of it. An outage is waited out, with backoff, for `PATIENCE_S`. Behind a pooler
that hands out server connections by the transaction, everything runs inside explicit transactions and no statement stays
prepared.
"""

import asyncio
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeVar, TypeVarTuple
from urllib.parse import urlsplit

import asyncpg

from mainspring.core.timer import Micros
from mainspring.errors import StoreError, StoreUnavailableError, StoreUncertainError
from mainspring.runtime.clock import Clock
from mainspring.runtime.log import get_logger
from mainspring.store.hints import Hints
from mainspring.store.owner import Owner
from mainspring.store.postgres.errors import LostRaceError, UnreachableError, mapped_errors, was_refused
from mainspring.store.queries import load_queries

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PATIENCE_S = 20.0
MAX_CONNECTIONS = 10
MAX_TRIES = 50
_CONNECT_S = 10.0
_COMMAND_S = 60.0
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.05, 1.0

# Plans that are made once and visit only the rows they are given, however empty or unknown the tables were (see queries.sql).
_PLANNER = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}
_SET_PLANNER = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in _PLANNER.items())

_log = get_logger("mainspring.store")


class Statements(dict[str, str]):
    """The queries of this store, with the name of its schema in place."""

    def __init__(self, schema: str) -> None:
        super().__init__(
            (name, in_schema(sql, schema)) for name, sql in load_queries("mainspring.store.postgres").items()
        )
        self.schema = schema


def in_schema(sql: str, schema: str) -> str:
    return sql.replace("mainspring.", f'"{schema}".')


class Tx(Hints):
    """What an operation works with: the connection, the time, and the hints to send if it commits.

    `tries` counts the runs of this operation before this one: who tried the quick way first goes the careful way then.
    `copies`: the connection can COPY, as ours can.
    """

    copies = True

    def __init__(self, connection: Any, statements: Statements, now: Micros, partitions: int, tries: int = 0) -> None:
        super().__init__()
        self.connection = connection
        self.q = statements
        self.now = now
        self.partitions = partitions
        self.tries = tries

    async def fetch(self, name: str, *arguments: Any) -> list[Any]:
        """The rows that a named query answers with."""
        rows: list[Any] = await self.connection.fetch(self.q[name], *arguments)
        return rows

    async def begin(self) -> None:
        """Before what is not done by `fetch`."""

    async def fetch_last(self, name: str, *arguments: Any) -> list[Any] | None:
        """As `fetch`, and nothing follows: where nothing came before either, the statement is the whole transaction, and leaves its
        mark itself, which its last two parameters are for. None: it has committed, and its answer was lost."""
        return await self.fetch(name, *arguments, None, None)


class _Connection(asyncpg.Connection):
    def get_reset_query(self) -> str:
        return ""  # we leave nothing behind: no listeners, no session settings, no open transaction


class Mark(NamedTuple):
    """What a transaction leaves in `mark`, and where it runs."""

    at: Micros
    id: bytes
    xid: str | None
    pid: int


class _UnknownOutcomeError(Exception):
    """The connection broke during a commit."""

    def __init__(self, mark: Mark) -> None:
        super().__init__(mark.id)
        self.mark = mark


class _OwnTx(Tx):
    """A transaction of the store's own, on a connection of its pool. It begins when there is something to do."""

    mark: Mark | None = None
    has_ended = False

    def __init__(self, database: "Database", connection: Any, tries: int) -> None:
        super().__init__(connection, database.q, database.clock.now(), database.partitions, tries)
        self._database = database

    async def begin(self) -> None:
        if self.mark is None:
            await self.connection.execute("begin isolation level read committed")
            self.mark = await self._database.leave_mark(self.connection, self.now)

    async def fetch(self, name: str, *arguments: Any) -> list[Any]:
        await self.begin()
        return await super().fetch(name, *arguments)

    async def fetch_last(self, name: str, *arguments: Any) -> list[Any] | None:
        if self.mark is not None or self._database.pooled:
            return await super().fetch_last(name, *arguments)
        mark = Mark(self.now, secrets.token_bytes(12), None, self.connection.get_server_pid())
        try:
            rows: list[Any] = await self.connection.fetch(self.q[name], *arguments, mark.at, mark.id)
        except Exception as error:
            if was_refused(error):
                raise
            if not await self._database.was_committed(mark):
                raise LostRaceError from error
            self.has_ended = True
            return None
        self.has_ended = True
        return rows

    async def commit(self) -> None:
        if self.has_ended or self.mark is None:
            return
        try:
            await self.connection.execute("commit")
        except Exception as error:
            raise _UnknownOutcomeError(self.mark) from error


class Database:
    """A pool of connections, and the one way to run a transaction on it."""

    def __init__(self, url: str, schema: str, pool: "asyncpg.Pool[Any]", *, pooled: bool) -> None:
        self.url = url
        self.place = place_of(url)
        self.q = Statements(schema)
        self.pooled = pooled
        self.clock: Clock
        self.partitions: int
        self._pool = pool
        self.owner = Owner()
        self._closed = False
        self._leave_mark = self.q["leave_mark"] + (f", {_SET_PLANNER}" if pooled else "")

    @classmethod
    async def open(cls, url: str, schema: str) -> "Database":
        with mapped_errors(place_of(url)):
            first = await connect(url, pooled=True)
            try:
                pooled = await is_pooled(first)
            finally:
                await first.close()
            pool = await asyncpg.create_pool(
                url,
                min_size=0,
                max_size=MAX_CONNECTIONS,
                max_inactive_connection_lifetime=60.0,
                connection_class=_Connection,
                init=_prepare,
                **_options(pooled=pooled),
            )
        return cls(url, schema, pool, pooled=pooled)

    async def close(self) -> None:
        self._closed = True
        try:
            async with asyncio.timeout(5):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    async def read(self, query: Callable[[Tx, *Ts], Awaitable[T]], *arguments: *Ts) -> T:
        """Run a query that writes nothing."""

        async def once(tries: int) -> T:
            async with self._connection() as connection:
                tx = Tx(connection, self.q, self.clock.now(), self.partitions, tries)
                if not self.pooled:
                    return await query(tx, *arguments)
                await connection.execute("begin read only")
                await connection.fetch(f"select {_SET_PLANNER}")
                answer = await query(tx, *arguments)
                await connection.execute("commit")
                return answer

        return await self.patiently(once)

    async def write(self, operation: Callable[[Tx, *Ts], Awaitable[T]], *arguments: *Ts) -> tuple[T, Tx]:
        """Run an operation in a transaction of its own; its answer once it is durable, and what it hints at."""
        return await self.patiently(lambda tries: self._transaction(operation, arguments, tries))

    async def _transaction(
        self, operation: Callable[..., Awaitable[T]], arguments: tuple[Any, ...], tries: int
    ) -> tuple[T, Tx]:
        try:
            async with self._connection() as connection:
                tx = _OwnTx(self, connection, tries)
                answer = await operation(tx, *arguments)
                await tx.commit()
        except _UnknownOutcomeError as error:
            if not await self.was_committed(error.mark):
                raise LostRaceError from error
        return answer, tx

    async def leave_mark(self, connection: Any, now: Micros) -> Mark:
        """In the transaction that is open on this connection."""
        id_ = secrets.token_bytes(12)
        xid, pid, *_ = await connection.fetchrow(self._leave_mark, now, id_)
        return Mark(now, id_, xid, pid)

    async def was_committed(self, mark: Mark) -> bool:
        """What became of a transaction whose connection broke during its commit."""
        try:
            return await self.patiently(lambda _: self._was_committed(mark))
        except StoreUnavailableError as error:
            raise StoreUncertainError(
                f"{self.place} went away during a commit and has not come back: whether it was written is not known"
            ) from error

    async def _was_committed(self, mark: Mark) -> bool:
        async with self._connection() as connection:
            await connection.execute("begin isolation level read committed")
            if mark.xid is not None:
                await connection.fetch(self.q["end_transaction"], mark.pid, mark.xid)
            await connection.fetch(self.q["deny_mark"], mark.at, mark.id)
            committed = await connection.fetchval(self.q["read_mark"], mark.at, mark.id)
            await connection.execute("commit")
            return bool(committed)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """A connection with no transaction left open on it, however the block ends."""
        self.owner.check()
        if self._closed:
            raise StoreError("the store is closed")
        with mapped_errors(self.place):
            async with self._pool.acquire(timeout=_CONNECT_S) as connection:
                try:
                    yield connection
                finally:
                    await _roll_back(connection)

    async def patiently(self, once: Callable[[int], Awaitable[T]]) -> T:
        """Again after a conflict, at once; again after a failure of the connection, with backoff, until patience ends."""
        until_s: float | None = None
        backoff_s, tries = _FIRST_BACKOFF_S, 0
        while True:
            try:
                answer = await once(tries)
            except LostRaceError as conflict:
                tries += 1
                if tries > MAX_TRIES:
                    raise StoreError(f"{self.place} refuses this again and again: {conflict.__cause__}") from conflict
                await asyncio.sleep(random.uniform(0, 0.002 * min(tries, 50)))
            except UnreachableError as error:
                now_s = time.monotonic()
                if until_s is None:
                    until_s = now_s + PATIENCE_S
                    _log.warning("the database cannot be reached, trying again", database=self.place, error=str(error))
                if now_s > until_s:
                    raise StoreUnavailableError(f"{error}; nothing was written") from error
                await asyncio.sleep(random.uniform(backoff_s / 2, backoff_s))
                backoff_s = min(_LAST_BACKOFF_S, backoff_s * 2)
            else:
                if until_s is not None:
                    _log.info("the database is back", database=self.place)
                return answer


async def connect(url: str, *, pooled: bool = False) -> Any:
    """A connection of its own."""
    connection = await asyncpg.connect(url, **_options(pooled=pooled))
    await _prepare(connection)
    return connection


async def is_pooled(connection: Any) -> bool:
    """A pooler between us and the server gives itself away: the server process it named is not the one that answers."""
    return bool(await connection.fetchval("select pg_backend_pid()") != connection.get_server_pid())


def is_gone(connection: Any) -> bool:
    """Has it broken? Then the pool has taken it back already, and it answers no question any more."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True


def place_of(url: str) -> str:
    """A database's address as people may see it: without the password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"postgresql://{host}{parts.path}"


def _options(*, pooled: bool) -> dict[str, Any]:
    return {
        "timeout": _CONNECT_S,
        "command_timeout": _COMMAND_S,
        "statement_cache_size": 0 if pooled else 256,
        "max_cached_statement_lifetime": 0,
        "server_settings": {"application_name": "mainspring"} | ({} if pooled else _PLANNER),
    }


async def _prepare(connection: Any) -> None:
    """Ids are bytes everywhere in Mainspring."""
    await connection.set_type_codec("uuid", schema="pg_catalog", encoder=bytes, decoder=bytes, format="binary")


async def _roll_back(connection: Any) -> None:
    """What is open is rolled back. Of a connection that broke the pool knows already, and nothing can be asked of it: that must not
    hide the error by which it broke."""
    try:
        if connection.is_in_transaction():
            await connection.execute("rollback", timeout=5)
    except Exception:
        with suppress(asyncpg.InterfaceError):
            connection.terminate()
