"""A backup taken while everything runs has all that was acknowledged before it, and what is restored from it goes on by itself."""

import asyncio
import secrets
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from conftest import absent
from contract.backends import Backend, PostgresBackend, SqliteBackend
from contract.invariants import check_invariants
from mainspring.runtime.clock import SystemClock
from mainspring.store.contract import Store
from mainspring.store.opening import StoreSettings
from postgres.server import Server, find_binaries
from upgrade.site import PATIENCE_S, Load, Site, until

LEASE_S = 2.0
SQLITE = {
    "VACUUM INTO": "source.execute('vacuum into ?', (sys.argv[2],))",
    ".backup": "source.backup(sqlite3.connect(sys.argv[2]))",
}


async def run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def back_up(site: Site, store: Store, copy: Callable[[], Awaitable[None]]) -> dict[int, bytes]:
    """What had been acknowledged when a backup began, in the middle of a load."""
    load = Load(store)
    await load.submit(50, delay=5)
    async with site.node("before", lease_s=LEASE_S), load:
        await until(site.busy("before"), "the node works")
        acknowledged = dict(load.acknowledged)
        await copy()
    return acknowledged


async def go_on(site: Site, store: Store, jobs: dict[int, bytes]) -> None:
    """Until all of these have ended well, with nobody's help: the node of the backup is given up when its lease has run out."""
    told = asyncio.Event()
    store.subscribe(lambda hint: told.set())
    assert None not in await store.read_jobs(list(jobs.values()))
    async with site.node("after", lease_s=LEASE_S), asyncio.timeout(PATIENCE_S):
        while None in (ended := await store.read_ended(list(jobs.values()))):
            await told.wait()
            told.clear()
    assert {record.state for record in ended if record is not None} == {"completed"}
    assert set(jobs) <= set(site.ran()), "what had not run before runs now"


@pytest.mark.parametrize("how", SQLITE)
@pytest.mark.parametrize("fresh", ["sqlite"], indirect=True)
async def test_a_copy_of_a_file_that_is_in_use_goes_on_where_it_was_taken(
    site: Site, store: Store, folder: Path, how: str
) -> None:
    target = SqliteBackend(folder)
    program = f"import sqlite3, sys; source = sqlite3.connect(sys.argv[1]); {SQLITE[how]}"
    source = str(site.settings.path)

    async def copy() -> None:  # from another process: in this one the file belongs to the store alone
        await run(sys.executable, "-c", program, source, str(target.path))

    acknowledged = await back_up(site, store, copy)
    restored = await target.open(SystemClock())
    copied = Site(folder, StoreSettings(f"sqlite:///{target.path}"))
    await go_on(copied, restored, acknowledged)
    check_invariants(target, restored)
    await restored.close()


@pytest.mark.parametrize("fresh", ["postgres"], indirect=True)
async def test_a_dump_of_a_schema_that_is_in_use_goes_on_where_it_was_taken(
    site: Site, store: Store, backend: Backend, folder: Path, postgres: Server
) -> None:
    assert isinstance(backend, PostgresBackend)
    if not postgres.ours:
        pytest.skip("needs a server where it may make a database: unset MAINSPRING_TEST_POSTGRES")
    if not (dump := find_binaries() / "pg_dump").is_file():
        absent(f"{dump} is not there")
    file, url = str(folder / "backup"), postgres.database(f"restored_{secrets.token_hex(4)}")

    async def copy() -> None:
        await run(str(dump), "--format=custom", f"--schema={backend.schema}", f"--file={file}", backend.url)

    acknowledged = await back_up(site, store, copy)
    await run(str(dump.with_name("pg_restore")), "--exit-on-error", f"--dbname={url}", file)
    target = PostgresBackend(url, url, backend.schema)
    restored = await target.open(SystemClock())
    await go_on(Site(folder, StoreSettings(url, target.schema)), restored, acknowledged)
    check_invariants(target, restored)
    await restored.close()
    target.drop()
