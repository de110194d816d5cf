"""The schema of a PostgreSQL store: made and brought up to date in one transaction, by one process at a time."""

from typing import Any

from mainspring.errors import StoreVersionError
from mainspring.store.postgres.database import connect, in_schema, place_of
from mainspring.store.postgres.errors import mapped_errors
from mainspring.store.queries import Migration, load_migrations

PARTITIONS = 64  # changeable: ids do not depend on it

_MIGRATIONS_TABLE = """
create table if not exists mainspring.migration (
  number integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now())
"""


async def migrate(url: str, schema: str) -> list[str]:
    """Bring the schema up to date; the names of the migrations applied. Refuses what is newer than we are or not ours."""
    place = place_of(url)
    with mapped_errors(place):
        connection = await connect(url, pooled=True)
        try:
            if not _missing(await _applied(connection, schema), place):
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


async def _applied(connection: Any, schema: str) -> dict[int, str]:
    """Number and checksum of each migration in the database."""
    if await connection.fetchval("select to_regclass($1)", f'"{schema}".migration') is None:
        return {}
    return dict(await connection.fetch(f'select number, checksum from "{schema}".migration'))


def _missing(applied: dict[int, str], place: str) -> list[Migration]:
    shipped = load_migrations("mainspring.store.postgres")
    if applied and max(applied) > shipped[-1].number:
        raise StoreVersionError(f"{place} was written by a newer Mainspring (schema {max(applied)}): upgrade this one")
    for migration in shipped:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise StoreVersionError(f"migration {migration.number} of {place} is not the one this version ships")
    return [migration for migration in shipped if migration.number not in applied]


async def _apply(connection: Any, schema: str, place: str) -> list[str]:
    missing = _missing(await _applied(connection, schema), place)
    for migration in missing:
        await connection.execute(in_schema(migration.sql, schema))
        await connection.execute(
            in_schema("insert into mainspring.migration (number, name, checksum) values ($1, $2, $3)", schema),
            migration.number,
            migration.name,
            migration.checksum,
        )
    if not await connection.fetchval(in_schema("select count(*) from mainspring.partition", schema)):
        numbers = in_schema("insert into mainspring.partition (number) select generate_series(0, $1::int4 - 1)", schema)
        await connection.execute(numbers, PARTITIONS)
    return [f"{migration.number:04} {migration.name}" for migration in missing]
