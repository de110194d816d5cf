"""One schema for all tests of a module, emptied after each."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from contract.scene import JOB_TABLES, START, JumpingClock
from mainspring.store.postgres import PostgresStore
from mainspring.store.postgres.schema import migrate
from postgres.server import Server
from postgres.within.site import Reader, Site


@pytest.fixture(scope="module")
def reader(postgres: Server) -> Iterator[Reader]:
    """A connection to a schema that is made once for all tests here, and looks at its tables."""
    schema = f"test_{secrets.token_hex(6)}"
    asyncio.run(migrate(postgres.url, schema))
    reader = psycopg.connect(postgres.url, autocommit=True, options=f"-c search_path={schema},public")
    reader.execute("set client_min_messages = warning; set lock_timeout = '10s'")
    yield reader
    reader.execute(f"drop schema {schema} cascade".encode())
    reader.close()


@pytest.fixture
async def site(postgres: Server, reader: Reader) -> AsyncIterator[Site]:
    ((schema,),) = reader.execute("select current_schema").fetchall()
    store = await PostgresStore.open(postgres.url, schema=schema, clock=JumpingClock(START))
    made = Site(postgres.url, store, reader)
    reader.execute(f"create table public.{made.table} (number integer primary key)".encode())
    yield made
    await store.close()
    reader.execute(f"drop table public.{made.table}; truncate {', '.join([*JOB_TABLES, 'lane'])}".encode())
