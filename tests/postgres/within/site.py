"""A store on PostgreSQL, and somebody who has tables of his own in the same database."""

import asyncio
import secrets
from typing import Any

import psycopg

from contract.scene import START, make_batch
from mainspring.app.blocking import _run_here
from mainspring.store.contract import Hint, Inserted
from mainspring.store.postgres import PostgresStore

Reader = psycopg.Connection[tuple[Any, ...]]


class Site:
    """A store, and a table of the caller's own in the same database."""

    def __init__(self, url: str, store: PostgresStore, reader: Reader) -> None:
        self.url = url
        self.store = store
        self.table = f"orders_{secrets.token_hex(6)}"
        self._reader = reader
        self.submitted = 0  # outside of any transaction
        self.hints: list[Hint] = []
        self.told = asyncio.Event()
        store.subscribe(self._hear)

    def _hear(self, hint: Hint) -> None:
        self.hints.append(hint)
        self.told.set()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._reader.execute(sql.encode()).fetchall()

    def count(self) -> tuple[int, int]:
        """Rows of the caller's, jobs of ours."""
        ((orders, jobs),) = self.rows(f"select (select count(*) from {self.table}), (select count(*) from job)")
        return orders, jobs

    def order(self, number: int) -> str:
        return f"insert into {self.table} values ({number})"

    async def insert(self, given: object, **job: Any) -> Inserted:
        batch, lane = make_batch(START, **job)
        ((answer,),) = await self.store.insert_within(given, [batch], [lane])
        return answer

    def insert_blocking(self, given: object, **job: Any) -> Inserted:
        """From a thread without an event loop; the store's own runs in another one meanwhile."""
        batch, lane = make_batch(START, **job)
        ((answer,),) = _run_here(self.store.insert_within(given, [batch], [lane], blocking=True))
        return answer

    async def submit(self, **job: Any) -> bytes:
        batch, lane = make_batch(START, **job)
        ((answer,),) = await self.store.insert_jobs([batch], [lane])
        self.submitted += 1
        return answer.id

    async def ready(self) -> list[bytes]:
        streams = await self.store.list_streams(range(self.store.partitions))
        found = await self.store.read_ready([((p, band, lane), None) for p, band, lane, _ in streams], 100)
        return [entry.job for stream in found for entry in stream]
