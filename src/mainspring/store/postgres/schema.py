"""The schema of a PostgreSQL store: made and brought up to date in one transaction, by one process at a time.

Nodes work while it changes. A step that needs a table for itself waits for it briefly and then steps back, because everybody
else queues behind it: a backup may hold tables for long.
"""

import asyncio
import time
from typing import Any

import asyncpg

from mainspring.errors import StoreUnavailableError
from mainspring.store.postgres.database import connect, in_schema, place_of
from mainspring.store.postgres.errors import mapped_errors
from mainspring.store.queries import Migration, load_migrations
from mainspring.store.versions import Applied, missing_migrations

PARTITIONS = 64  # changeable: ids do not depend on it
PATIENCE_S = 60.0
_STEP_BACK_S = 1.0
_DAY_S = 86_400.0  # a step may have much to do

_MIGRATIONS_TABLE = """
create table if not exists mainspring.migration (
  number integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now(),
  works_with integer not null)
"""


async def migrate(url: str, schema: str) -> list[str]:
    """Bring the schema up to date; the names of the migrations applied. Refuses what we cannot work with and what is not ours."""
    place = place_of(url)
    with mapped_errors(place):
        connection = await connect(url, pooled=True)
        try:
            if not missing(await read_applied(connection, schema), place):
                return []  # also for those who may not create anything
            return await _patiently(connection, schema, place)
        finally:
            await connection.close()


async def _patiently(connection: Any, schema: str, place: str) -> list[str]:
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            async with connection.transaction():
                return await _apply(connection, schema, place)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if time.monotonic() > until_s:
                raise StoreUnavailableError(
                    f"the tables of {place} are held by others (a backup, a long query): nothing was migrated; try again later"
                ) from None
            await asyncio.sleep(_STEP_BACK_S)


async def has_schema(url: str, schema: str) -> bool:
    """Is there a store in this database? Never makes one."""
    with mapped_errors(place_of(url)):
        connection = await connect(url, pooled=True)
        try:
            return bool(await read_applied(connection, schema))
        finally:
            await connection.close()


async def read_applied(connection: Any, schema: str) -> list[Applied]:
    """The steps that the database has, in order; none where there is no store."""
    if await connection.fetchval("select to_regclass($1)", f'"{schema}".migration') is None:
        return []
    rows = await connection.fetch(f'select number, checksum, works_with from "{schema}".migration order by number')
    return [Applied(*row) for row in rows]


def missing(applied: list[Applied], place: str) -> list[Migration]:
    """The steps that the database has not. Refuses a schema that this code cannot work with."""
    return missing_migrations(load_migrations("mainspring.store.postgres"), applied, place)


async def _apply(connection: Any, schema: str, place: str) -> list[str]:
    turn = "select pg_advisory_xact_lock(hashtextextended($1, 0))"
    await connection.execute(turn, f"mainspring {schema}", timeout=_DAY_S)
    await connection.execute(f"set local lock_timeout = '{int(_STEP_BACK_S * 1000)}ms'")
    await connection.execute(f'create schema if not exists "{schema}"')
    await connection.execute(in_schema(_MIGRATIONS_TABLE, schema))
    steps = missing(await read_applied(connection, schema), place)
    for migration in steps:
        await connection.execute(in_schema(migration.sql, schema), timeout=_DAY_S)
        await connection.execute(
            in_schema(
                "insert into mainspring.migration (number, name, checksum, works_with) values ($1, $2, $3, $4)", schema
            ),
            migration.number,
            migration.name,
            migration.checksum,
            migration.works_with,
        )
    if not await connection.fetchval(in_schema("select count(*) from mainspring.partition", schema)):
        numbers = in_schema("insert into mainspring.partition (number) select generate_series(0, $1::int4 - 1)", schema)
        await connection.execute(numbers, PARTITIONS)
    return [f"{migration.number:04} {migration.name}" for migration in steps]
