"""The pooler is a real one, in the mode in which sessions are shared."""

from typing import TypeAlias

import asyncpg
import pytest

from postgres.pooler import Pooler
from postgres.server import Server

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


async def pid(connection: Connection) -> int:
    found: int = await connection.fetchval("select pg_backend_pid()")
    return found


async def test_transactions_of_one_client_run_in_several_sessions(pooler: Pooler) -> None:
    one = await asyncpg.connect(pooler.url, statement_cache_size=0)
    other = await asyncpg.connect(pooler.url, statement_cache_size=0)
    async with one.transaction():
        first = await pid(one)
        async with other.transaction():
            assert await pid(other) != first
        assert await pid(one) == first
    assert len({await pid(one) for _ in range(20)}) > 1
    assert one.get_server_pid() not in {await pid(one) for _ in range(20)}
    await one.close()
    await other.close()


async def test_what_was_written_through_it_is_there_without_it(pooler: Pooler, postgres: Server) -> None:
    through = await asyncpg.connect(pooler.url, statement_cache_size=0)
    await through.execute("create table pooled (x int)")
    direct = await asyncpg.connect(postgres.url)
    assert await direct.fetchval("select count(*) from pooled") == 0
    await direct.execute("drop table pooled")
    await direct.close()
    await through.close()


async def test_a_wrong_password_does_not_get_in(pooler: Pooler) -> None:
    with pytest.raises(asyncpg.PostgresError, match="password"):
        await asyncpg.connect(pooler.url, password="wrong")
