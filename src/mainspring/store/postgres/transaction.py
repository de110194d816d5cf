"""A user's own transaction on a connection that we lend him (see `store.contract.Transaction`).

The connections are apart from the store's own: those have settings and types made for our statements, not for his, and his
transactions must not keep the store from working. There is no second try: only the user could run his block again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from mainspring.errors import StoreError, StoreUnavailableError
from mainspring.store.contract import Hint
from mainspring.store.hints import Hints
from mainspring.store.postgres.database import Database, Mark, is_gone
from mainspring.store.postgres.errors import mapped_errors

MAX_CONNECTIONS = 10

_ENDED = "this transaction has ended: use it inside its `async with` block only"


class PostgresTransaction:
    """One transaction, from its begin to its end."""

    def __init__(self, owner: "Transactions", connection: Any) -> None:
        self.owner = owner
        self.hints = Hints()
        self.ended = False
        self._connection = connection

    @property
    def connection(self) -> Any:
        if self.ended:
            raise StoreError(_ENDED)
        return self._connection

    async def execute(self, sql: str, /, *parameters: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.connection.fetch(sql, *parameters)]


class Transactions:
    """The transactions of one store; as many at once as there are connections to lend."""

    def __init__(self, database: Database, publish: Callable[[list[Hint]], None]) -> None:
        self._database = database
        self._publish = publish
        self._pool: asyncpg.Pool[Any] | None = None
        self._making = asyncio.Lock()
        self._closed = False

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[PostgresTransaction]:
        connection = await self._database.patiently(self._begin)
        tx = PostgresTransaction(self, connection)
        try:
            yield tx
            tx.ended = True
            await self._commit(connection)
            self._publish(tx.hints.hints())
        finally:
            tx.ended = True
            await self._give_back(connection)

    async def close(self) -> None:
        """What is open is rolled back."""
        self._closed = True
        if self._pool is not None:
            self._pool.terminate()

    async def _begin(self, _tries: int) -> Any:
        self._database.owner.check()
        with mapped_errors(self._database.place):
            pool = await self._made()
            connection = await pool.acquire()
            try:
                await connection.execute("begin isolation level read committed")
            except BaseException:
                await pool.release(connection)
                raise
        return connection

    async def _made(self) -> "asyncpg.Pool[Any]":
        async with self._making:
            if self._closed:
                raise StoreError("the store is closed")
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._database.url,
                    min_size=0,
                    max_size=MAX_CONNECTIONS,
                    timeout=10.0,
                    statement_cache_size=0 if self._database.pooled else 100,
                    server_settings={"application_name": "mainspring transaction"},
                )
        return self._pool

    async def _commit(self, connection: Any) -> None:
        """Where the connection breaks meanwhile, the server is asked what became of it."""
        place = self._database.place
        if self._closed:
            raise StoreError("the app was closed before this transaction ended: it was rolled back")
        if is_gone(connection):
            raise StoreUnavailableError(f"the connection to {place} broke inside the transaction: nothing was written")
        if not connection.is_in_transaction():
            raise StoreError("this transaction was ended inside its block: leave its end to the end of the block")
        mark: Mark | None = None
        try:
            if await connection.fetchval("select pg_current_xact_id_if_assigned() is not null"):  # it has written
                mark = await self._database.leave_mark(connection, self._database.clock.now())
            await connection.execute("commit")
        except asyncpg.InFailedSQLTransactionError:
            raise StoreError(
                "a statement of this transaction failed, so nothing of it was written: let it raise"
            ) from None
        except Exception as error:
            if not is_gone(connection):
                raise
            if mark is None or not await self._database.was_committed(mark):
                raise StoreUnavailableError(
                    f"the connection to {place} broke at the end of the transaction: nothing was written"
                ) from error

    async def _give_back(self, connection: Any) -> None:
        if is_gone(connection):
            return
        assert self._pool is not None
        try:
            if connection.is_in_transaction():
                with suppress(Exception):
                    await connection.execute("rollback", timeout=5)
        finally:
            await self._pool.release(connection)
