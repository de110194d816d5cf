"""Opening the store that a URL names, and making it. A driver is imported only when its URL asks for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from mainspring.errors import InvalidError, MainspringError, StoreError, StoreUnavailableError
from mainspring.runtime.clock import Clock
from mainspring.store.contract import Store
from mainspring.store.url import is_postgres, secrets_of, shown_url

DEFAULT_SCHEMA = "mainspring"


class StoreSettings(Struct, frozen=True):
    """Where jobs live. `schema` and `listen_url` (a direct connection for wake-ups, where `url` leads through a pooler) are
    PostgreSQL's. `objects`: where logs, files and checkpoints go; None: a folder beside the file, or here."""

    url: str
    schema: str = DEFAULT_SCHEMA
    listen_url: str | None = None
    objects: str | None = None

    @property
    def objects_place(self) -> str:
        if self.objects is not None:
            return self.objects
        return "mainspring-objects" if self.is_postgres else f"{self.path}.objects"

    @property
    def is_postgres(self) -> bool:
        return is_postgres(self.url)

    @property
    def place(self) -> str:
        """For people and logs: the file, or the database without its password."""
        if not self.is_postgres:
            return str(self.path)
        return shown_url(self.url) + ("" if self.schema == DEFAULT_SCHEMA else f" (schema {self.schema})")

    @property
    def path(self) -> Path:
        """SQLite's file."""
        from mainspring.store.sqlite.database import path_of

        return path_of(self.url)

    def __repr__(self) -> str:
        return f"<StoreSettings {shown_url(self.url)}>"


async def open_store(settings: StoreSettings, clock: Clock | None = None) -> Store:
    """Open a store; make it where there is none, and bring its schema up to date."""
    if not settings.is_postgres:
        from mainspring.store.sqlite import SqliteStore

        return await SqliteStore.open(settings.path, clock)
    with postgres_errors(settings):
        from mainspring.store.postgres import PostgresStore

        return await PostgresStore.open(
            settings.url, schema=settings.schema, listen_url=settings.listen_url, clock=clock
        )


async def migrate_store(settings: StoreSettings) -> list[str]:
    """Make a store or bring its schema up to date; the names of the steps that were applied."""
    if not settings.is_postgres:
        from mainspring.store.sqlite import database

        path = settings.path
        database.refuse_network_filesystem(path)
        connection = database.connect(path)
        try:
            return database.migrate(connection, path)
        finally:
            connection.close()
    with postgres_errors(settings):
        from mainspring.store.postgres import schema

        return await schema.migrate(settings.url, settings.schema)


async def has_store(settings: StoreSettings) -> bool:
    """Is there a store? Never makes one."""
    if not settings.is_postgres:
        return settings.path.exists()
    with postgres_errors(settings):
        from mainspring.store.postgres import schema

        return await schema.has_schema(settings.url, settings.schema)


@contextmanager
def postgres_errors(settings: StoreSettings) -> Iterator[None]:
    """What the driver says, or its absence, as errors of ours."""
    try:
        from mainspring.store.postgres.errors import UnreachableError
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise StoreError("PostgreSQL needs asyncpg: install it with `pip install 'mainspring[postgres]'`") from None
    try:
        yield
    except UnreachableError as error:
        raise StoreUnavailableError(str(error)) from error
    except MainspringError:
        raise
    except ValueError as error:
        raise _refused(settings, error) from None


def _refused(settings: StoreSettings, error: ValueError) -> InvalidError:
    """What the driver does not understand of a URL."""
    problem = str(error)
    for url in filter(None, (settings.url, settings.listen_url)):
        for secret in filter(None, secrets_of(url)):
            problem = problem.replace(secret, "…")
    return InvalidError("store", problem)
