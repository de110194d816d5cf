"""An application with master keys, on a store whose rows can be looked at."""

from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from contract.backends import BACKENDS, Backend, PostgresBackend, SqliteBackend
from mainspring import App, Context
from mainspring.secrets.keys import VARIABLE
from mainspring.testing import ManualNode

OLD = "old:" + b64encode(b"o" * 32).decode()
NEW = "new:" + b64encode(b"n" * 32).decode()
TOKEN = "hunter22-and-more"


class Vaulted:
    """`app` has `use` (how long its secret is), `betray` (which says it everywhere) and `echo`."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.app = app = App(**_where(backend))
        self.ran: list[str] = []

        @app.job(secrets={"TOKEN": "api-token"}, retries=0)
        async def use(context: Context) -> int:
            self.ran.append(context.secret("TOKEN"))
            return len(context.secret("TOKEN"))

        @app.job(secrets={"TOKEN": "api-token"}, retries=0)
        async def betray(context: Context) -> None:
            raise ValueError(f"cannot log in with {context.secret('TOKEN')!r}")

        @app.job(retries=0)
        async def echo(value: Any) -> Any:
            self.ran.append(value)
            return {"echo": value}

        self.use, self.betray, self.echo = use, betray, echo

    @asynccontextmanager
    async def node(self) -> AsyncIterator[ManualNode]:
        async with ManualNode(self.app, own_store=True) as node:
            yield node

    def dump(self) -> str:
        """All rows of all tables."""
        return repr(self.backend.dump(self.app.store))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.backend.rows(self.app.store, sql)


def _where(backend: Backend) -> dict[str, Any]:
    if isinstance(backend, SqliteBackend):
        return {"store": f"sqlite:///{backend.path}"}
    assert isinstance(backend, PostgresBackend)
    return {"store": backend.url, "schema": backend.schema, "objects": "memory:///"}


@pytest.fixture(params=["sqlite", "postgres"])
def vaulted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vaulted]:
    monkeypatch.setenv(VARIABLE, OLD)
    with BACKENDS[request.param](request)() as backend:
        yield Vaulted(backend)
