"""The code of the guide that needs PostgreSQL runs, as it stands there."""

import ast
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from docs.pages import DOCS
from mainspring import App
from postgres.server import Server

_BLOCK = re.compile(r"^<!-- not run: needs PostgreSQL, [^\n]* -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = _BLOCK.findall((DOCS / "guides" / "transactions.md").read_text())
SCHEMA = "test_guide"


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "shop_order"
    number: Mapped[int] = mapped_column(primary_key=True)
    total: Mapped[int]


@pytest.fixture
def owner(postgres: Server) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("create table shop_order (number integer primary key, total integer)")
        yield connection
        connection.execute("set client_min_messages = warning")
        connection.execute(f"drop table shop_order; drop schema if exists {SCHEMA} cascade".encode())


@pytest.fixture
async def names(postgres: Server, owner: "psycopg.Connection[Any]") -> AsyncIterator[dict[str, Any]]:
    """What the guide's code finds around it."""
    app, shop = App(postgres.url, schema=SCHEMA), App(postgres.url, schema=SCHEMA)
    asynchronous = postgres.url.replace("postgresql", "postgresql+asyncpg", 1)
    engine = create_async_engine(asynchronous)
    blocking_engine = sqlalchemy.create_engine(postgres.url.replace("postgresql", "postgresql+psycopg", 1))

    @app.job()
    async def confirm_order(number: int) -> None: ...

    @shop.job()
    def ship_order(number: int) -> None: ...

    async with app, asyncpg.create_pool(postgres.url, min_size=1) as pool:
        yield {
            **{"app": app, "confirm_order": confirm_order, "shop": shop, "ship_order": ship_order},
            **{"pool": pool, "psycopg": psycopg, "url": postgres.url, "Order": Order},
            **{"AsyncSession": AsyncSession, "engine": engine},
            **{"Session": Session, "blocking_engine": blocking_engine},
        }
    await engine.dispose()
    blocking_engine.dispose()


async def test_every_block_saves_an_order_and_its_job(names: dict[str, Any], owner: "psycopg.Connection[Any]") -> None:
    assert len(BLOCKS) == 4
    for number, code in enumerate(BLOCKS, 8):
        compiled = compile(code, "transactions.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        result = eval(compiled, names)
        if result is not None:
            await result
        assert owner.execute("select max(number) from shop_order").fetchone() == (number,)
        made = owner.execute(f"select convert_from(arguments, 'utf8') from {SCHEMA}.spec".encode()).fetchall()
        assert (f'{{"number":{number}}}',) in made
        assert len(made) == number - 7
