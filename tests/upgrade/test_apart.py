"""Nodes one version apart run together, and code that is too old is refused before it does harm."""

import asyncio

import psycopg
import pytest
from msgspec import json

from contract.backends import Backend, PostgresBackend
from mainspring.errors import StoreVersionError
from mainspring.store.contract import Store
from upgrade.site import Load, Site, newest, until

EXPAND = """
alter table mainspring.job add column note text;
create table mainspring.note (job text primary key, said text not null);
"""


async def test_nodes_one_version_apart_run_together_while_the_schema_expands_under_load(
    site: Site, backend: Backend, store: Store
) -> None:
    load = Load(store)
    today, next_ = newest(site.settings), newest(site.settings) + 1
    async with site.node("today"):
        async with load:
            await until(site.busy("today"), "the node of today works")
            code = site.next_version(EXPAND, works_with=today)
            migrated, said, errors = await site.command("migrate", "--json", code=code)
            assert (migrated, errors) == (0, "")
            assert json.decode(said)["applied"] == [f"{next_:04} next"]
            assert backend.rows(store, "select count(*) from note") == [(0,)]
            async with site.node("tomorrow", code), site.node("late"):
                await until(site.busy("today", "tomorrow", "late"), "all three work side by side")
                await until(lambda: set(site.ran()) >= set(range(len(load.acknowledged) // 2)), "they keep up")
        await until(lambda: set(site.ran()) >= set(load.acknowledged), "everything has run")
    assert site.ran() == dict.fromkeys(load.acknowledged, 1)
    assert await store.count_jobs() == {("default", "completed"): len(load.acknowledged)}
    assert await site.command("migrate") == (0, f"{site.settings.place} is up to date\n", "")


async def test_code_that_a_contracted_schema_does_not_work_with_is_refused_and_told_what_to_do(
    site: Site, backend: Backend, store: Store
) -> None:
    today, next_ = newest(site.settings), newest(site.settings) + 1
    code = site.next_version("drop table mainspring.setting;", works_with=next_)
    assert (await site.command("migrate", code=code))[0] == 0
    with pytest.raises(StoreVersionError, match=f"needs code of schema {next_}, this one has {today}; upgrade"):
        await backend.open(store.clock)
    failed, _, errors = await site.command("migrate")
    assert failed not in (0, None)
    assert "newer Mainspring" in errors
    async with site.node("tomorrow", code):
        pass


async def test_a_migration_does_not_make_everybody_wait_for_a_backup(
    site: Site, backend: Backend, store: Store
) -> None:
    """A reader holds a table until it ends. Whoever waits to change that table would hold up all who come after him."""
    if not isinstance(backend, PostgresBackend):
        pytest.skip("readers of SQLite hold up nobody")
    load, code = Load(store), site.next_version(EXPAND, works_with=newest(site.settings))
    waits = f"select count(*) from pg_locks where not granted and relation = '{backend.schema}.job'::regclass"
    with psycopg.connect(backend.url) as reader:
        reader.execute(f"select count(*) from {backend.schema}.job".encode())
        migrating = asyncio.create_task(site.command("migrate", code=code))
        for _ in range(2):
            await until(lambda: backend.rows(store, waits) != [(0,)], "it waits for the table")
            async with asyncio.timeout(20):
                await load.submit(1)
        assert not migrating.done()
    assert (await migrating)[0] == 0
    assert len(load.acknowledged) == 2
