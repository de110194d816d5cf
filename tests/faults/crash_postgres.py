"""Where a process on PostgreSQL can end: around the transactions of its pool and of its lease, and where a schema is made."""

from typing import Any

from faults.countdown import Countdown, around, around_async
from mainspring.store.postgres import PostgresStore, schema
from mainspring.store.postgres.database import Database
from mainspring.store.postgres.lease import LeaseLine


def writes(verb: str) -> bool:
    return bool({"_write", "_grouping", "_lease"} & set(getattr(PostgresStore, verb).__code__.co_names))


def end_at_verb(verb: str, point: str, crash: Countdown) -> None:
    if verb == "renew_lease":
        _end_at_lease(point, crash)
        return
    real = Database._transaction

    async def transaction(self: Database, operation: Any, arguments: tuple[Any, ...], tries: int) -> Any:
        if operation.__name__ != verb:
            return await real(self, operation, arguments, tries)

        async def written(*given: Any) -> Any:
            answer = await operation(*given)
            if point == "written":
                crash()
            return answer

        if point == "before":
            crash()
        answer = await real(self, written, arguments, tries)
        if point == "committed":
            crash()
        return answer

    Database._transaction = transaction  # type: ignore[method-assign]


def _end_at_lease(point: str, crash: Countdown) -> None:
    """The lease has a connection of its own."""
    real_fetch, real_connect = LeaseLine._fetch, PostgresStore._connect

    async def fetch(self: LeaseLine, *given: Any) -> None:
        if point == "before":
            crash()
        await real_fetch(self, *given)
        if point == "committed":
            crash()

    class Connection:
        """Ends the process when a statement has been answered."""

        def __init__(self, real: Any) -> None:
            self._real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        async def fetch(self, *given: Any, **options: Any) -> Any:
            rows = await self._real.fetch(*given, **options)
            crash()
            return rows

    async def connect(self: PostgresStore) -> Any:
        return Connection(await real_connect(self))

    LeaseLine._fetch = fetch  # type: ignore[assignment,method-assign]
    if point == "written":
        PostgresStore._connect = connect  # type: ignore[method-assign]


def end_at_open(point: str, crash: Countdown) -> None:
    match point:
        case "before migrating":
            around_async(schema, "_apply", crash, before=True)
        case "migrated, not committed":
            around_async(schema, "_apply", crash, before=False)
        case _:
            around(PostgresStore, "__init__", crash, before=True)
