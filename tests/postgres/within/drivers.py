"""Callers with a connection of their own, one per driver and way of using it; all of them commit, roll back and vanish alike."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from mainspring.app.within import Committing, Connection


class Caller(NamedTuple):
    """`given` is what he gives to `within`; `vanish` is a process that dies."""

    given: Connection
    execute: Callable[[str], Awaitable[Any]]
    commit: Callable[[], Awaitable[Any]]
    rollback: Callable[[], Awaitable[Any]]
    vanish: Callable[[], Awaitable[Any]]


class BlockingCaller(NamedTuple):
    given: Committing
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    vanish: Callable[[], Any]


async def _terminate(connection: Any) -> None:
    connection.terminate()


@asynccontextmanager
async def _asyncpg(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield Caller(
        connection, connection.execute, transaction.commit, transaction.rollback, lambda: _terminate(connection)
    )
    connection.terminate()


@asynccontextmanager
async def _asyncpg_pool(url: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool, pool.acquire() as connection:
        await connection.execute("begin")  # by hand, as some do

        async def end(how: str) -> None:
            await connection.execute(how)

        yield Caller(
            connection,
            connection.execute,
            lambda: end("commit"),
            lambda: end("rollback"),
            lambda: _terminate(connection),
        )


@asynccontextmanager
async def _psycopg(url: str) -> AsyncIterator[Caller]:
    connection = await psycopg.AsyncConnection.connect(url, row_factory=psycopg.rows.dict_row)
    yield Caller(connection, _encoded(connection.execute), connection.commit, connection.rollback, connection.close)
    await connection.close()


@asynccontextmanager
async def _psycopg_block(url: str) -> AsyncIterator[Caller]:
    """Autocommit, and a transaction where one is wanted."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    block = connection.transaction()
    await block.__aenter__()

    async def commit() -> None:
        await block.__aexit__(None, None, None)

    async def rollback() -> None:
        error = psycopg.Rollback()
        await block.__aexit__(type(error), error, None)

    yield Caller(connection, _encoded(connection.execute), commit, rollback, connection.close)
    await connection.close()


def _encoded(execute: Callable[[bytes], Any]) -> Callable[[str], Any]:
    return lambda sql: execute(sql.encode())


def _sqlalchemy(driver: str) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def caller(url: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(url.replace("postgresql", f"postgresql+{driver}", 1))
        async with engine.connect() as connection:
            yield Caller(
                connection,
                connection.exec_driver_sql,
                connection.commit,
                connection.rollback,
                connection.invalidate,
            )
        await engine.dispose()

    return caller


def _sqlalchemy_session(driver: str) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def caller(url: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(url.replace("postgresql", f"postgresql+{driver}", 1))
        async with AsyncSession(engine) as session:

            async def execute(sql: str) -> None:
                await session.execute(sqlalchemy.text(sql))

            yield Caller(session, execute, session.commit, session.rollback, session.invalidate)
        await engine.dispose()

    return caller


@asynccontextmanager
async def _sqlalchemy_scoped(url: str) -> AsyncIterator[Caller]:
    engine = create_async_engine(url.replace("postgresql", "postgresql+asyncpg", 1))
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)

    async def execute(sql: str) -> None:
        await session.execute(sqlalchemy.text(sql))

    yield Caller(session, execute, session.commit, session.rollback, session.invalidate)
    await session.remove()
    await engine.dispose()


CALLERS: dict[str, Callable[[str], AbstractAsyncContextManager[Caller]]] = {
    "asyncpg": _asyncpg,
    "asyncpg from a pool": _asyncpg_pool,
    "psycopg": _psycopg,
    "psycopg in a block": _psycopg_block,
    "SQLAlchemy on asyncpg": _sqlalchemy("asyncpg"),
    "SQLAlchemy on psycopg": _sqlalchemy("psycopg"),
    "a session on asyncpg": _sqlalchemy_session("asyncpg"),
    "a session on psycopg": _sqlalchemy_session("psycopg"),
    "a scoped session": _sqlalchemy_scoped,
}


@contextmanager
def _blocking_psycopg(url: str) -> Iterator[BlockingCaller]:
    connection = psycopg.connect(url, row_factory=psycopg.rows.namedtuple_row)
    yield BlockingCaller(
        connection, _encoded(connection.execute), connection.commit, connection.rollback, connection.close
    )
    connection.close()


@contextmanager
def _blocking_sqlalchemy(url: str) -> Iterator[BlockingCaller]:
    engine = sqlalchemy.create_engine(url.replace("postgresql", "postgresql+psycopg", 1))
    with engine.connect() as connection:
        yield BlockingCaller(
            connection, connection.exec_driver_sql, connection.commit, connection.rollback, connection.invalidate
        )
    engine.dispose()


@contextmanager
def _blocking_session(url: str) -> Iterator[BlockingCaller]:
    engine = sqlalchemy.create_engine(url.replace("postgresql", "postgresql+psycopg", 1))
    with Session(engine) as session:
        yield BlockingCaller(
            session,
            lambda sql: session.execute(sqlalchemy.text(sql)),
            session.commit,
            session.rollback,
            session.invalidate,
        )
    engine.dispose()


@contextmanager
def _blocking_scoped(url: str) -> Iterator[BlockingCaller]:
    engine = sqlalchemy.create_engine(url.replace("postgresql", "postgresql+psycopg", 1))
    session = scoped_session(sessionmaker(engine))
    yield BlockingCaller(
        session,
        lambda sql: session.execute(sqlalchemy.text(sql)),
        session.commit,
        session.rollback,
        lambda: session().invalidate(),
    )
    session.remove()
    engine.dispose()


BLOCKING_CALLERS: dict[str, Callable[[str], AbstractContextManager[BlockingCaller]]] = {
    "psycopg": _blocking_psycopg,
    "SQLAlchemy": _blocking_sqlalchemy,
    "a session": _blocking_session,
    "a scoped session": _blocking_scoped,
}
