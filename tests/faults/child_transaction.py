"""A process that saves an order and its job in one transaction, and ends at a point of it.

Arguments: store, schema, table, point.
"""

import asyncio
import os
import sys
from typing import Any

from mainspring import App
from mainspring.store.postgres.transaction import Transactions as PostgresTransactions
from mainspring.store.sqlite.transaction import Transactions as SqliteTransactions

CRASHED = 86


def crash_at_commit(kind: type[Any], point: str) -> None:
    real = kind._commit

    def crash_if(at: str) -> None:
        if point == at:
            os._exit(CRASHED)

    def commit(self: Any, *arguments: Any) -> Any:
        crash_if("before the commit")
        answer = real(self, *arguments)
        if asyncio.iscoroutine(answer):
            return finish(answer)
        crash_if("after the commit")
        return answer

    async def finish(answer: Any) -> None:
        await answer
        crash_if("after the commit")

    kind._commit = commit


async def main(store: str, schema: str | None, table: str, point: str) -> None:
    app = App(store, schema=schema)

    @app.job()
    async def confirm(number: int) -> None: ...

    async with app:
        async with app.transaction() as tx:
            await tx.execute(f"insert into {table} values (1)")
            await confirm.within(tx).submit(1)
        for kind in (SqliteTransactions, PostgresTransactions):
            crash_at_commit(kind, point)
        async with app.transaction() as tx:
            await tx.execute(f"insert into {table} values (2)")
            await confirm.within(tx).submit(2)
            if point == "in the block":
                os._exit(CRASHED)


if __name__ == "__main__":
    store, schema, table, point = sys.argv[1:]
    asyncio.run(main(store, schema or None, table, point))
