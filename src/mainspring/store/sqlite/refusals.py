"""Why a connection that is not ours cannot carry our jobs (`.within(...)` on a SQLite file)."""

from mainspring.errors import InvalidError
from mainspring.store.drivers import driver_of, type_name

_USE_OURS = "use `async with app.transaction() as tx`, for your own tables too"
_TWO_LIBRARIES = (
    "brings a SQLite library of its own. Two of them in one process on one file drop each other's locks, and commits are "
    f"lost: do not open this file with it at all, and {_USE_OURS}"
)
_POSTGRES = "is to another database than the SQLite file that this app keeps its jobs in, and no transaction spans both"
_REASONS = {
    "sqlite3": f"Python's sqlite3 {_TWO_LIBRARIES}",
    "aiosqlite": f"aiosqlite {_TWO_LIBRARIES}",
    "sqlalchemy": f"SQLAlchemy's driver for SQLite {_TWO_LIBRARIES}",
    "apsw": f"a connection of your own would not wait for its turn at the file, nor wake workers: {_USE_OURS}",
    "asyncpg": f"this connection {_POSTGRES}",
    "psycopg": f"this connection {_POSTGRES}",
    "psycopg2": f"this connection {_POSTGRES}",
}


def refusal(connection: object) -> InvalidError:
    """The error that says why, and what to do instead."""
    reason = _REASONS.get(driver_of(connection) or "")
    return InvalidError("within", reason or f"expected what app.transaction() gives, got {type_name(connection)}")
