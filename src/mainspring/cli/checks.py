"""The checks of `mainspring doctor` that need no open store: this machine, and the file. They change nothing of either."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
from msgspec import Struct

from mainspring.config import run_settings
from mainspring.core.words import size
from mainspring.errors import InvalidError, StoreError
from mainspring.execute.types.catalogue import PLACES, load, why_not
from mainspring.store.queries import load_migrations
from mainspring.store.sqlite.database import (
    APPLICATION_ID,
    connect,
    mapped_errors,
    read_applied,
    refuse_network_filesystem,
)
from mainspring.store.versions import oldest_code

OK, WARN, FAIL = "ok", "warn", "fail"

_MEGABYTE = 1_000_000
_LARGE_WAL = 256 * _MEGABYTE
_LARGE_STORE = 1000 * _MEGABYTE
_LITTLE_SPACE = 200 * _MEGABYTE
_YEAR_2025_S = 1_735_689_600


class Check(Struct, frozen=True):
    """One finding; `todo` says what to do about it."""

    name: str
    status: str
    found: str
    todo: str = ""


def check_machine() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", OK if sys.version_info >= (3, 11) else FAIL, version)
    yield Check("sqlite", OK, f"{apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})")
    if time.time() < _YEAR_2025_S:
        now = time.strftime("%Y-%m-%d", time.gmtime())
        yield Check("clock", FAIL, f"it is {now} by this machine", "set the clock: due times would be wrong")


def check_types() -> Iterator[Check]:
    """What job types a worker here could run. That one cannot is a problem only where MAINSPRING_TYPES asks for it."""
    try:
        wanted = run_settings().types
    except InvalidError as error:
        yield Check("types", FAIL, str(error), "correct MAINSPRING_TYPES")
        wanted = ()
    for name in PLACES:
        why = why_not(name)
        if why is not None:
            yield Check(f"type {name}", FAIL if name in wanted else OK, "cannot run here", why)
            continue
        about = load(name).about
        yield Check(f"type {name}", OK, "can run here" if about is None else f"can run here: {about()}")


def check_file(path: Path, *, full: bool) -> Iterator[Check]:
    """The store's file, from the outside in; ends at the first thing that makes the rest pointless."""
    if not path.exists():
        yield Check(
            "store", FAIL, f"there is no file {path}", "run `mainspring dev` or `mainspring migrate`, or use --store"
        )
        return
    try:
        refuse_network_filesystem(path)
        connection = connect(path, readonly=True)
    except StoreError as error:
        yield Check("store", FAIL, str(error))
        return
    try:
        with mapped_errors(path):
            yield from _check_contents(connection, path, full=full)
    except StoreError as error:
        yield Check("store", FAIL, str(error))
    finally:
        connection.close()


def _check_contents(connection: apsw.Connection, path: Path, *, full: bool) -> Iterator[Check]:
    if connection.execute("pragma application_id").get != APPLICATION_ID:
        yield Check("store", FAIL, f"{path} is not a Mainspring store", "choose another file with --store")
        return
    yield Check("store", OK, f"{path}, {size(path.stat().st_size)}")
    yield from _check_writable(path)
    schema = _check_schema(connection)
    yield schema
    if schema.status != FAIL:
        yield _check_integrity(connection, path, full=full)
        yield _check_wal(path)


def _check_writable(path: Path) -> Iterator[Check]:
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        yield Check("writable", FAIL, "the file or its folder is read-only", "check the permissions")
        return
    space = os.statvfs(path.parent)
    free = space.f_bavail * space.f_frsize
    found = f"yes, {size(free)} free on its disk"
    yield Check("writable", WARN, found, "free some space") if free < _LITTLE_SPACE else Check("writable", OK, found)


def _check_schema(connection: apsw.Connection) -> Check:
    shipped = {migration.number: migration.checksum for migration in load_migrations("mainspring.store.sqlite")}
    steps = read_applied(connection)
    applied = {migration.number: migration.checksum for migration in steps}
    newest, ours = max(applied, default=0), max(shipped)
    if oldest_code(steps) > ours:
        return Check("schema", FAIL, f"{newest}, newer than this Mainspring's {ours}", "upgrade Mainspring")
    if any(shipped.get(number, checksum) != checksum for number, checksum in applied.items()):
        return Check(
            "schema", FAIL, f"{newest}, but not as this version made it", "restore a backup, or start a new store"
        )
    if missing := sorted(shipped.keys() - applied.keys()):
        return Check("schema", FAIL, f"{newest} of {max(missing)}", "run `mainspring migrate`")
    if newest > ours:
        found = f"version {newest}, newer than this Mainspring's {ours}, which can work with it"
        return Check("schema", WARN, found, "upgrade Mainspring here too")
    return Check("schema", OK, f"version {newest}")


def _check_integrity(connection: apsw.Connection, path: Path, *, full: bool) -> Check:
    if path.stat().st_size > _LARGE_STORE and not full:
        return Check("integrity", OK, "not checked, because the store is large", "run `mainspring doctor --full`")
    problems = [row[0] for row in connection.execute("pragma quick_check(5)")]
    if problems == ["ok"]:
        return Check("integrity", OK, "sound")
    return Check("integrity", FAIL, "; ".join(problems), "stop all processes and restore a backup")


def _check_wal(path: Path) -> Check:
    wal = path.with_name(f"{path.name}-wal")
    length = wal.stat().st_size if wal.exists() else 0
    if length > _LARGE_WAL:
        return Check("wal", WARN, size(length), "a process reads without end, or copies of the store are open: find it")
    return Check("wal", OK, size(length))
