"""The schema of a PostgreSQL store: made and brought up to date in one transaction, by one process at a time.

Nodes are upgraded one after the other, so a schema may be newer than the code that meets it. Each step records the oldest code
that can work with it.
"""

from typing import Any

from msgspec import Struct

from mainspring.errors import StoreVersionError
from mainspring.store.postgres.database import connect, in_schema, place_of
from mainspring.store.postgres.errors import mapped_errors
from mainspring.store.queries import Migration, load_migrations

PARTITIONS = 64  # changeable: ids do not depend on it

_MIGRATIONS_TABLE = """
create table if not exists mainspring.migration (
  number integer primary key, name text not null, checksum text not null, oldest integer not null,
  applied_at timestamptz not null default now())
"""


async def migrate(url: str, schema: str) -> list[str]:
    """Bring the schema up to date; the names of the migrations applied. Refuses what is newer than we are or not ours."""
    place = place_of(url)
    with mapped_errors(place):
        connection = await connect(url, pooled=True)
        try:
            if not missing(await read_applied(connection, schema), place):
                return []  # also for those who may not create anything
            async with connection.transaction():
                await connection.execute(
                    "select pg_advisory_xact_lock(hashtextextended($1, 0))", f"mainspring {schema}"
                )
                await connection.execute(f'create schema if not exists "{schema}"')
                await connection.execute(in_schema(_MIGRATIONS_TABLE, schema))
                return await _apply(connection, schema, place)
        finally:
            await connection.close()


async def has_schema(url: str, schema: str) -> bool:
    """Is there a store in this database? Never makes one."""
    with mapped_errors(place_of(url)):
        connection = await connect(url, pooled=True)
        try:
            return bool(await read_applied(connection, schema))
        finally:
            await connection.close()


class Applied(Struct, frozen=True):
    """A step of the schema as the database has it."""

    number: int
    checksum: str
    oldest: int


async def read_applied(connection: Any, schema: str) -> list[Applied]:
    """The steps that the database has, in order; none where there is no store."""
    if await connection.fetchval("select to_regclass($1)", f'"{schema}".migration') is None:
        return []
    rows = await connection.fetch(f'select number, checksum, oldest from "{schema}".migration order by number')
    return [Applied(*row) for row in rows]


def missing(applied: list[Applied], place: str) -> list[Migration]:
    """The steps that the database has not. Refuses a schema that this code cannot work with."""
    shipped = load_migrations("mainspring.store.postgres")
    newest = shipped[-1].number
    if any(step.oldest > newest for step in applied):
        raise StoreVersionError(
            f"{place} was written by a newer Mainspring (schema {applied[-1].number}): upgrade this one"
        )
    known = {step.number: step.checksum for step in applied}
    for migration in shipped:
        if known.get(migration.number, migration.checksum) != migration.checksum:
            raise StoreVersionError(f"migration {migration.number} of {place} is not the one this version ships")
    return [migration for migration in shipped if migration.number not in known]


async def _apply(connection: Any, schema: str, place: str) -> list[str]:
    steps = missing(await read_applied(connection, schema), place)
    for migration in steps:
        await connection.execute(in_schema(migration.sql, schema))
        await connection.execute(
            in_schema(
                "insert into mainspring.migration (number, name, checksum, oldest) values ($1, $2, $3, $4)", schema
            ),
            migration.number,
            migration.name,
            migration.checksum,
            migration.oldest,
        )
    if not await connection.fetchval(in_schema("select count(*) from mainspring.partition", schema)):
        numbers = in_schema("insert into mainspring.partition (number) select generate_series(0, $1::int4 - 1)", schema)
        await connection.execute(numbers, PARTITIONS)
    return [f"{migration.number:04} {migration.name}" for migration in steps]
