"""`mainspring bench` works, on stores of its own; what its figures are worth is not for tests to say."""

from pathlib import Path

import asyncpg
import pytest

from cli.harness import Cli
from mainspring.cli.bench_place import place_of
from mainspring.store.postgres import PostgresStore
from postgres.server import Server


def test_depth_compares_a_deep_store_with_an_empty_one(bare: Cli, workplace: Path) -> None:
    ran = bare("bench", "depth", "--future", "500", "--ready", "400", "--json")
    assert ran.code == 0, ran.err
    figures = {figure["name"]: figure["value"] for figure in ran.document}
    assert {"drain, empty", "drain, deep", "memory of the node", "store"} <= figures.keys()
    assert figures["bulk submit of future jobs"] > 0
    assert not list(workplace.glob("*.db*"))


def test_a_file_is_not_measured_on(bare: Cli) -> None:
    assert bare.fails(2, "bench", "depth", "--store", "sqlite:///mine.db").startswith("store: ")


def test_a_store_before_the_command_is_refused(bare: Cli) -> None:
    assert "--store belongs after `depth`" in bare.fails(2, "bench", "--store", "postgresql://here/x", "depth")


def test_a_server_that_is_not_there(bare: Cli) -> None:
    ran = bare("bench", "depth", "--store", "postgresql://nobody@127.0.0.1:1/x")
    assert ran.code == 3
    assert "error: postgresql://127.0.0.1:1/x cannot be reached" in ran.err


async def test_databases_are_made_for_it_and_removed(postgres: Server, folder: Path) -> None:
    if not postgres.ours:
        pytest.skip("needs a role that may make databases")
    async with place_of(postgres.superuser_url, folder).store("one") as made:
        store = await PostgresStore.open(made.url)  # still connected when it is removed
        assert await made.size_mb() > 1
        assert await _databases(postgres) == 1
    await store.close()
    assert await _databases(postgres) == 0


async def _databases(postgres: Server) -> int:
    connection = await asyncpg.connect(postgres.superuser_url)
    try:
        found: int = await connection.fetchval(
            "select count(*) from pg_database where datname like 'mainspring_bench%'"
        )
        return found
    finally:
        await connection.close()
