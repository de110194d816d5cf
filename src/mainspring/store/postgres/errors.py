"""PostgreSQL's errors as ours, each saying what to do; and which of them a transaction survives."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from mainspring.errors import StoreError, StoreUnavailableError


class LostRaceError(Exception):
    """The transaction lost a conflict and was rolled back: run it again."""


class UnreachableError(Exception):
    """The database cannot be reached for now."""


_CONFLICTS = (
    asyncpg.DivisionByZeroError,  # a statement that counts and finds that it did not do what it should
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.SerializationError,
    asyncpg.UniqueViolationError,
)
_GONE = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.QueryCanceledError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    TimeoutError,
    OSError,
)


def was_refused(error: Exception) -> bool:
    """Has the server answered, so that nothing was written? Else nobody knows."""
    return isinstance(error, asyncpg.PostgresError | ValueError) and not isinstance(error, _GONE)


@contextmanager
def mapped_errors(place: str) -> Iterator[None]:
    """`place` is the database as people may see it."""
    try:
        yield
    except _CONFLICTS as error:
        raise LostRaceError from error
    except asyncpg.ReadOnlySQLTransactionError:
        raise StoreUnavailableError(
            f"{place} is read-only (a standby, or made so): nothing was written; use the primary"
        ) from None
    except asyncpg.DiskFullError:
        raise StoreUnavailableError(f"the disk of {place} is full: nothing was written; free some space") from None
    except asyncpg.OutOfMemoryError as error:
        raise StoreUnavailableError(f"{place} is out of memory: nothing was written") from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise StoreError(f"{place} refuses this user: {error}") from None
    except asyncpg.InvalidCatalogNameError:
        raise StoreError(f"there is no database {place}: create it first") from None
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InvalidSchemaNameError) as error:
        raise StoreError(f"{place} has not the schema of this version ({error}): run `mainspring migrate`") from None
    except asyncpg.InsufficientPrivilegeError as error:
        raise StoreError(f"this user may not do that in {place}: {error}") from None
    except _GONE as error:
        if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
            raise  # an argument that cannot be sent: our mistake, not the connection's
        raise UnreachableError(f"{place} cannot be reached: {type(error).__name__}: {error}") from error
