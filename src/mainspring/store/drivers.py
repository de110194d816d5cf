"""Whose connection is this? Told by where its type comes from, so that no driver is imported only to ask."""

_DRIVERS = frozenset({"aiosqlite", "apsw", "asyncpg", "psycopg", "psycopg2", "sqlalchemy", "sqlite3"})


def driver_of(connection: object) -> str | None:
    """The package that a connection, or a class that it extends, comes from; None where it is none we know."""
    for kind in type(connection).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in _DRIVERS:
            return package
    return None


def type_name(thing: object) -> str:
    """For messages: `asyncpg.pool.Pool`, `int`."""
    kind = type(thing)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
