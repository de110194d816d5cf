"""Connections to one SQLite file, and the errors they turn into.

Owns the pragmas, migrations and the rule that our file is never opened by two SQLite libraries or across a fork. Times, SQL
and threads are elsewhere: `writer` has the one writing connection, the store has the reading ones.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import apsw

from mainspring.errors import StoreError, StoreUnavailableError
from mainspring.store.queries import Migration, load_migrations, load_queries
from mainspring.store.versions import Applied, missing_migrations

APPLICATION_ID = 0x4D53_5047  # marks the file as ours
BUSY_TIMEOUT_MS = 10_000
PARTITIONS = 4  # one file has one writer, so more would only cost; changeable, ids do not depend on it

Q = load_queries("mainspring.store.sqlite")

_NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"}
_MIGRATIONS_TABLE = """
create table if not exists migration (
  number integer primary key, name text not null, checksum text not null, applied_at text not null default current_timestamp,
  works_with integer)
"""


def path_of(url: str) -> Path:
    """The file of a `sqlite:///` URL: three slashes and a relative path, or four and an absolute one."""
    prefix = "sqlite:///"
    if not url.startswith(prefix) or len(url) == len(prefix):
        raise StoreError(f"{url!r} is not a store: expected sqlite:///FILE (relative) or sqlite:////PATH/FILE")
    path = Path(unquote(url.removeprefix(prefix)))
    if path.name == ":memory:":
        raise StoreError("a store in memory would lose every job with its process: name a file")
    return path.absolute()


def connect(path: Path, *, readonly: bool = False) -> apsw.Connection:
    """A connection with our settings. WAL with full sync: a commit that returned survives a power cut."""
    flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with mapped_errors(path):
        connection = apsw.Connection(str(path), flags=flags, statementcachesize=256)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.setlk_timeout(
            BUSY_TIMEOUT_MS, 0
        )  # wait in the kernel, which wakes us when the lock is free, not by polling
        for pragma in ("cache_size=-64000", "temp_store=memory"):
            connection.execute(f"pragma {pragma}")
        if not readonly:
            _refuse_foreign(connection, path)  # before the first pragma that would change the file
            for pragma in (
                "page_size=8192",
                "journal_mode=wal",
                "synchronous=full",
                "wal_autocheckpoint=8000",
                "journal_size_limit=67108864",
            ):
                connection.execute(f"pragma {pragma}")
    return connection


@contextmanager
def mapped_errors(path: Path) -> Iterator[None]:
    """SQLite's errors as ours, each saying what to do."""
    try:
        yield
    except apsw.FullError:
        raise StoreUnavailableError(f"the disk of {path} is full: nothing was written; free some space") from None
    except apsw.ReadOnlyError:
        raise StoreUnavailableError(f"{path} is read-only: nothing was written; check its permissions") from None
    except apsw.IOError as error:
        raise StoreUnavailableError(f"the disk of {path} failed: {error}: nothing was acknowledged") from error
    except apsw.BusyError:
        raise StoreUnavailableError(f"{path} is held by another process for too long: nothing was written") from None
    except apsw.CantOpenError:
        raise StoreError(f"cannot open {path}: check that the folder exists and may be written") from None
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreError(f"{path} is not a usable SQLite file: {error}") from None


def refuse_network_filesystem(path: Path) -> None:
    """SQLite's locks do not hold on network file systems; losing jobs there would be silent."""
    if not sys.platform.startswith("linux"):
        return
    found = ("", "")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split(" ")
        if len(mount) > len(found[0]) and path.is_relative_to(mount.replace("\\040", " ")):
            found = (mount, kind)
    if found[1] in _NETWORK_FILESYSTEMS:
        raise StoreError(f"{path} is on a network file system ({found[1]}), where SQLite loses data: use a local disk")


def migrate(connection: apsw.Connection, path: Path) -> list[str]:
    """Bring the schema up to date; the names of the migrations applied. Refuses what we cannot work with and what is not ours."""
    with mapped_errors(path), connection:
        connection.execute(f"pragma application_id={APPLICATION_ID}")
        connection.execute(_MIGRATIONS_TABLE)
        applied = _apply_missing(connection, path)
    return applied


def _refuse_foreign(connection: apsw.Connection, path: Path) -> None:
    tables = connection.execute("select count(*) from sqlite_master").get
    if tables and connection.execute("pragma application_id").get != APPLICATION_ID:
        connection.close()
        raise StoreError(f"{path} is another program's database: choose another file")


def read_applied(connection: apsw.Connection) -> list[Applied]:
    """The migrations in a file."""
    works_with = "works_with" if _says_who_works(connection) else "null"
    rows = connection.execute(f"select number, checksum, {works_with} from migration order by number")
    return [Applied(*row) for row in rows]


def _apply_missing(connection: apsw.Connection, path: Path) -> list[str]:
    applied = read_applied(connection)
    missing = missing_migrations(load_migrations("mainspring.store.sqlite"), applied, str(path))
    if missing and not _says_who_works(connection):
        connection.execute("alter table migration add column works_with integer")
    for migration in missing:
        _refuse_taken(connection, path, migration)
        connection.execute(migration.sql)
        connection.execute(
            "insert into migration (number, name, checksum, works_with) values (?, ?, ?, ?)",
            (migration.number, migration.name, migration.checksum, migration.works_with),
        )
    _set_partitions(connection)
    return [f"{migration.number:04} {migration.name}" for migration in missing]


def _refuse_taken(connection: apsw.Connection, path: Path, migration: Migration) -> None:
    """A file may have tables of its users too, which are older than ours."""
    there = {row[0].lower() for row in connection.execute("select name from sqlite_master")}
    taken = [name for name in migration.tables if name in there]
    if taken:
        raise StoreError(
            f"{path} has {', '.join(map(repr, taken))} of yours, and Mainspring needs the name from schema "
            f"{migration.number} on: give yours another name; nothing was changed"
        )


def _says_who_works(connection: apsw.Connection) -> bool:
    """The first files did not."""
    sql = "select count(*) from pragma_table_info('migration') where name = 'works_with'"
    return bool(connection.execute(sql).get)


def _set_partitions(connection: apsw.Connection) -> None:
    if connection.execute("select count(*) from partition").get == 0:
        connection.executemany(Q["insert_partition"], [(number,) for number in range(PARTITIONS)])


class Reader(Protocol):
    """A connection as reading functions use it."""

    def execute(self, statements: str, bindings: Any = ..., /) -> Any: ...
