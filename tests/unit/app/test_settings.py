"""Where a store's settings come from, and that none is taken in vain."""

import sys
from pathlib import Path

import pytest

from mainspring import App
from mainspring.config import run_settings, store_settings
from mainspring.errors import InvalidError, StoreError
from mainspring.store.opening import StoreSettings, has_store, migrate_store, open_store

URL, DIRECT = "postgresql://ada:s3cret@pooler/jobs", "postgresql://ada:s3cret@db/jobs"


def test_arguments_come_before_the_environment_and_that_before_the_defaults() -> None:
    assert store_settings(environ={}) == StoreSettings("sqlite:///mainspring.db")
    environ = {"MAINSPRING_STORE": URL, "MAINSPRING_SCHEMA": "theirs", "MAINSPRING_LISTEN_URL": DIRECT}
    assert store_settings(environ=environ) == StoreSettings(URL, "theirs", DIRECT)
    assert store_settings("postgres://db/x", schema="ours", environ={}) == StoreSettings("postgresql://db/x", "ours")
    assert store_settings("postgres://db/x", listen_url=URL, environ=environ).listen_url == URL
    assert store_settings(URL, environ={}) == StoreSettings(URL, "mainspring", None)


def test_an_app_takes_them() -> None:
    app = App(URL, schema="ours", listen_url=DIRECT)
    assert app.store_settings == StoreSettings(URL, "ours", DIRECT)
    assert app.store_settings.place == "postgresql://ada@pooler/jobs (schema ours)"


@pytest.mark.parametrize("name", ["a", "_", "mainspring_2", "x" * 40])
def test_names_of_schemas(name: str) -> None:
    assert store_settings(URL, schema=name, environ={}).schema == name


@pytest.mark.parametrize(
    "name", ["", "A", "1a", "a-b", "a b", 'a"b', "ä", "x" * 41, "public", "pg_toast", "information_schema", 5]
)
def test_what_is_no_schema_of_ours(name: str) -> None:
    with pytest.raises(InvalidError) as caught:
        store_settings(URL, schema=name, environ={})
    assert caught.value.field == "schema"


@pytest.mark.parametrize("field", ["schema", "listen_url"])
def test_what_would_have_no_effect_is_an_error(field: str) -> None:
    with pytest.raises(InvalidError, match="no effect on a SQLite store") as caught:
        store_settings("sqlite:///a.db", **{field: DIRECT}, environ={})
    assert caught.value.field == field
    variable = f"MAINSPRING_{field.upper()}"
    with pytest.raises(InvalidError, match="no effect on a SQLite store") as caught:
        store_settings("sqlite:///a.db", environ={variable: "x"})
    assert caught.value.field == variable


@pytest.mark.parametrize("url", ["sqlite:///a.db", "db:5432", "postgresql://ada:s3cret@db"])
def test_listening_needs_a_server(url: str) -> None:
    with pytest.raises(InvalidError) as caught:
        store_settings(URL, listen_url=url, environ={})
    assert caught.value.field == "listen_url"
    assert "s3cret" not in str(caught.value)


async def test_without_the_driver_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("mainspring.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for verb in (open_store, migrate_store, has_store):
        with pytest.raises(StoreError, match=r"pip install 'mainspring\[postgres\]'"):
            await verb(StoreSettings(URL))


async def test_a_file_is_made_by_migrating_and_not_by_asking(folder: Path) -> None:
    settings = StoreSettings(f"sqlite:///{folder}/a.db")
    assert not await has_store(settings)
    assert not settings.path.exists()
    assert (await migrate_store(settings))[0] == "0001 tables"
    assert await migrate_store(settings) == []
    assert await has_store(settings)


def test_how_much_is_kept_of_a_log_is_said_in_mib() -> None:
    assert run_settings(environ={}).log_limit == 64 * 1_048_576
    assert run_settings(environ={"MAINSPRING_LOG_LIMIT": "2"}).log_limit == 2 * 1_048_576
    assert run_settings(log_limit=3, environ={"MAINSPRING_LOG_LIMIT": "2"}).log_limit == 3 * 1_048_576
    with pytest.raises(InvalidError, match="log_limit: expected a whole number from 1 to 1048576, got '64 MiB'"):
        run_settings(environ={"MAINSPRING_LOG_LIMIT": "64 MiB"})
