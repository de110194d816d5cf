"""What a submit can be part of: the types of connections that `.within(...)` takes.

Told by one method each, because a user may have none of these drivers installed. That is enough for a type checker to see an
engine, a pool, or a connection of the wrong colour; the store looks closer and says what is wrong with the rest.
"""

from typing import Protocol, TypeVar

from mainspring.errors import InvalidError
from mainspring.store.contract import Transaction

T = TypeVar("T")


class AsyncpgConnection(Protocol):
    """asyncpg's Connection, also from a pool."""

    def is_in_transaction(self) -> bool: ...


class AsyncCommitting(Protocol):
    """psycopg's AsyncConnection; SQLAlchemy's AsyncConnection and AsyncSession."""

    async def commit(self) -> None: ...


class Committing(Protocol):
    """psycopg's Connection; SQLAlchemy's Connection and Session."""

    def commit(self) -> None: ...


Connection = Transaction | AsyncpgConnection | AsyncCommitting


def required(connection: T) -> T:
    """None would mean a submit outside of any transaction, which is not what anybody wrote `within` for."""
    if connection is None:
        raise InvalidError("within", "expected a transaction or a connection, got None")
    return connection
