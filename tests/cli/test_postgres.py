"""Every command on a PostgreSQL store, and what doctor finds there."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from cli.harness import Cli, Ran
from mainspring import App
from mainspring.cli import postgreschecks, postgreshealth
from postgres.pooler import Pooler
from postgres.server import Server


class Place:
    """A schema of the test's own on a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.url = server.url
        self.schema = f"cli_{secrets.token_hex(4)}"

    def execute(self, sql: str, url: str | None = None) -> None:
        with psycopg.connect(url or self.url, autocommit=True) as connection:
            connection.execute(sql.format(schema=self.schema).encode())

    @property
    def secret(self) -> str:
        return urlsplit(self.url).password or ""

    def changed(self, **parts: str) -> str:
        """The URL with another user, password, host or database."""
        url = urlsplit(self.url)
        user, password = parts.get("user", url.username), parts.get("password", url.password)
        netloc = f"{user}:{password}@{parts.get('host', f'{url.hostname}:{url.port}')}"
        return urlunsplit(url._replace(netloc=netloc, path=parts.get("path", url.path), query=parts.get("query", "")))


@contextmanager
def place_on(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    place = Place(server)
    monkeypatch.setenv("MAINSPRING_STORE", place.url)
    monkeypatch.setenv("MAINSPRING_SCHEMA", place.schema)
    yield place
    place.execute("set client_min_messages = warning; drop schema if exists {schema} cascade")


@pytest.fixture
def place(workplace: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """The environment names a PostgreSQL store that does not exist yet."""
    with place_on(postgres, monkeypatch) as made:
        yield made


@pytest.fixture
def made(place: Place, bare: Cli) -> Place:
    """And here it does."""
    assert bare("migrate").code == 0
    return place


def doctor(cli: Cli, place: Place, *arguments: str) -> dict[str, dict[str, str]]:
    """The checks by name. No password is ever told, neither to people nor to machines."""
    ran = cli("doctor", "--json", *arguments)
    assert ran.out, ran.err
    found = {check["check"]: check for check in ran.document["checks"]}
    assert ran.code == (1 if any(check["status"] == "fail" for check in found.values()) else 0)
    assert all(check["todo"] for check in found.values() if check["status"] != "ok"), found
    silent(ran, place)
    silent(cli("doctor", *arguments), place)
    return found


def silent(ran: Ran, place: Place) -> None:
    assert place.secret not in ran.out + ran.err


def statuses(found: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: check["status"] for name, check in found.items()}


# --- the commands


def test_commands_refuse_a_database_without_a_store(bare: Cli, place: Place) -> None:
    for command in (("jobs", "list"), ("queues", "list"), ("schedules", "list"), ("nodes", "list"), ("submit", "send")):
        said = bare.fails(3, *command)
        assert "there is no store at postgresql://" in said
        assert "mainspring migrate" in said
        assert place.schema in said
        assert place.secret not in said


def test_migrate_makes_it_once(bare: Cli, place: Place) -> None:
    first = bare("migrate", "--json")
    assert first.document["applied"][0] == "0001 tables"
    assert first.document["store"] == f"{place.changed(password='').replace(':@', '@')} (schema {place.schema})"
    silent(first, place)
    assert "is up to date" in bare("migrate").out


def test_a_job_from_submit_to_its_result(bare: Cli, made: Place) -> None:
    submitted = bare("submit", "send", "--app", "tasks:app", "--args", '{"to": "a"}', "--json").document["id"]
    assert bare("jobs", "list", "--json").document["jobs"][0]["state"] == "pending"
    assert bare("jobs", "explain", submitted, "--json").document["causes"][0]["code"] == "no_worker"
    bare.work_off()
    assert bare("jobs", "wait", submitted, "--json").document["result"] == "a x1"
    assert bare("jobs", "show", submitted).code == 0
    queues = {queue["name"]: queue for queue in bare("queues", "list", "--json").document["queues"]}
    assert queues["mail"]["jobs"]["completed"] == 1
    assert bare("queues", "pause", "mail").code == 0
    assert bare("schedules", "list", "--json").document["schedules"][0]["name"] == "report"
    assert bare("jobs", "retry", submitted).code == 1
    assert bare("nodes", "list", "--json").document == {"nodes": []}


def test_the_store_may_be_named_on_the_command_line(bare: Cli, made: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAINSPRING_STORE")
    assert "no effect on a SQLite store" in bare.fails(2, "jobs", "list")
    assert bare("jobs", "list", "--store", made.url.replace("postgresql://", "postgres://")).code == 0


def test_a_node_leaves_when_it_is_asked_to(bare: Cli, made: Place) -> None:
    async def work(app: App) -> None:
        ready = asyncio.Event()
        running = asyncio.create_task(app.run(signals=False, slots=7, ready=ready.set))
        await ready.wait()
        (node,) = await app.store.list_nodes()
        ran = await asyncio.to_thread(bare, "nodes", "drain", node.name)
        assert ran.code == 0, ran.err
        async with asyncio.timeout(10):
            await running
        assert await app.store.list_nodes() == []

    bare.within(work)


# --- doctor: can we work there


def test_a_healthy_database(bare: Cli, made: Place) -> None:
    found = doctor(bare, made)
    quick = made.server.ours  # the tests' own server does not wait for the disk, and doctor says so
    assert statuses(found) == dict.fromkeys(found, "ok") | {
        "workers": "warn",
        "durability": "warn" if quick else "ok",
    }
    assert {
        *("python", "store", "server", "role", "schema", "wake-ups", "server clock", "durability", "vacuum"),
        *("old snapshots", "connections", "nodes", "partitions", "workers", "waiting", "queues", "clock", "objects"),
    } <= found.keys()
    assert "all machines" in found["objects"]["todo"]
    if quick:
        assert "fsync, full_page_writes" in found["durability"]["found"]


def test_no_store_yet(bare: Cli, place: Place) -> None:
    found = doctor(bare, place)
    assert found["schema"]["status"] == "fail"
    assert "mainspring migrate" in found["schema"]["todo"]
    assert found["role"]["found"].endswith("who may create the schema")


def test_a_database_that_cannot_be_reached(bare: Cli, place: Place) -> None:
    wrong = {
        place.changed(password="wr0ng"): ("password authentication failed", "check the user"),
        place.changed(user="nobody"): ("nobody", "check the user"),
        place.changed(path="/nowhere"): ('database "nowhere" does not exist', "create the database"),
        place.changed(host="127.0.0.1:1"): ("nobody listens", "start the server"),
        place.changed(host="no.such.host.invalid"): ("no.such.host.invalid", "check host and port"),
        place.changed(query="sslmode=sometimes"): ("sslmode", "check the URL"),
    }
    for url, (problem, todo) in wrong.items():
        found = doctor(bare, place, "--store", url)["store"]
        assert found["status"] == "fail"
        assert problem in found["found"]
        assert todo in found["todo"]
        assert "wr0ng" not in str(found)
        if "sslmode" in url:
            assert "sslmode" in bare.fails(2, "jobs", "list", "--store", url)


def test_without_the_driver(bare: Cli, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("mainspring.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    assert "mainspring[postgres]" in doctor(bare, place)["driver"]["todo"]
    assert "mainspring[postgres]" in bare.fails(3, "jobs", "list")


def test_an_old_server(bare: Cli, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgreschecks, "_OLDEST_SERVER", 99)
    found = doctor(bare, place)
    assert "upgrade it to 99" in found["server"]["todo"]
    assert "schema" not in found


def test_a_database_that_is_read_only(bare: Cli, made: Place) -> None:
    found = doctor(bare, made, "--store", made.changed(query="default_transaction_read_only=on"))
    assert found["server"]["status"] == "fail"
    assert "default_transaction_read_only" in found["server"]["found"]


def test_the_versions_of_a_schema(bare: Cli, made: Place) -> None:
    made.execute("insert into {schema}.migration (number, name, checksum, works_with) values (9999, 'later', 'x', 1)")
    newer = doctor(bare, made)
    assert newer["schema"]["status"] == "warn"
    assert "can work with it" in newer["schema"]["found"]
    assert bare("jobs", "list").code == 0
    made.execute("update {schema}.migration set works_with = 9999 where number = 9999")
    assert "upgrade Mainspring" in doctor(bare, made)["schema"]["todo"]
    assert "newer" in bare.fails(3, "jobs", "list")
    made.execute("delete from {schema}.migration where number = 9999")
    made.execute("update {schema}.migration set checksum = 'x' where number = 1")
    assert "restore a backup" in doctor(bare, made)["schema"]["todo"]


def test_a_schema_that_is_behind(bare: Cli, made: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from mainspring.store.postgres import schema
    from mainspring.store.queries import Migration, load_migrations

    def later(package: str) -> list[Migration]:
        return [*load_migrations(package), Migration(9998, "later", "-- works with: 1\nselect 1")]

    monkeypatch.setattr(schema, "load_migrations", later)
    monkeypatch.setattr(postgreschecks, "load_migrations", later)
    found = doctor(bare, made)["schema"]
    assert (found["status"], found["todo"]) == ("fail", "run `mainspring migrate`")
    assert bare("migrate", "--json").document["applied"] == ["9998 later"]
    assert doctor(bare, made)["schema"]["status"] == "ok"


def test_a_role_without_rights(bare: Cli, made: Place) -> None:
    if not made.server.ours:
        pytest.skip("MAINSPRING_TEST_POSTGRES names the server: no roles are made there")
    admin, role = made.server.superuser_url, f"guest_{secrets.token_hex(4)}"
    made.execute(f"create role {role} login password '{made.secret}'", admin)
    url = made.changed(user=role)
    try:
        assert "grant usage on schema" in doctor(bare, made, "--store", url)["role"]["todo"]
        made.execute(f"grant usage on schema {{schema}} to {role}")
        made.execute(f"grant select on all tables in schema {{schema}} to {role}")
        found = doctor(bare, made, "--store", url)["role"]
        assert "lacks delete on access_key, insert on access_key, update on access_key" in found["found"]
        made.execute(f"grant insert, update, delete on all tables in schema {{schema}} to {role}")
        assert doctor(bare, made, "--store", url)["role"]["status"] == "ok"
        assert bare("jobs", "list", "--store", url).code == 0, "who may not create anything can still work"
    finally:
        made.execute(f"drop owned by {role}", admin)
        made.execute(f"drop role {role}", admin)


# --- doctor: wake-ups


def test_behind_a_pooler(bare: Cli, made: Place, pooler: Pooler, monkeypatch: pytest.MonkeyPatch) -> None:
    found = doctor(bare, made, "--store", pooler.url)["wake-ups"]
    assert found["status"] == "warn"
    assert "MAINSPRING_LISTEN_URL" in found["todo"]
    monkeypatch.setenv("MAINSPRING_LISTEN_URL", made.url)
    found = doctor(bare, made, "--store", pooler.url)["wake-ups"]
    assert (found["status"], "behind a pooler" in found["found"]) == ("ok", True)
    monkeypatch.setenv("MAINSPRING_LISTEN_URL", pooler.url)
    found = doctor(bare, made, "--store", pooler.url)["wake-ups"]
    assert found["status"] == "fail"
    assert "not through a pooler" in found["todo"]


def test_listening_elsewhere(bare: Cli, made: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_LISTEN_URL", made.changed(path="/postgres"))
    assert "another database" in doctor(bare, made)["wake-ups"]["found"]
    monkeypatch.setenv("MAINSPRING_LISTEN_URL", made.changed(host="127.0.0.1:1"))
    assert "nobody listens" in doctor(bare, made)["wake-ups"]["found"]


# --- doctor: what makes it unsafe or slow


def test_what_holds_back_vacuum(bare: Cli, made: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgreshealth, "_OLD", timedelta(0))
    with psycopg.connect(made.url, application_name="forgotten") as idle:
        idle.execute("select 1")
        found = doctor(bare, made)["old snapshots"]
        assert found["status"] == "warn"
        assert f"process {idle.info.backend_pid} (mainspring, forgotten) idle in transaction" in found["found"]
        assert "pg_terminate_backend" in found["todo"]


def test_what_this_role_cannot_see_is_said(bare: Cli, made: Place) -> None:
    if not made.server.ours:
        pytest.skip("MAINSPRING_TEST_POSTGRES names the server: nobody else is there")
    with psycopg.connect(made.server.superuser_url) as other:
        other.execute("select 1")
        found = doctor(bare, made)["old snapshots"]
        assert "cannot see 1 session of other users" in found["found"]
        assert "pg_monitor" in found["todo"]


def test_tables_that_are_not_vacuumed(bare: Cli, made: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    made.execute("alter table {schema}.ready set (autovacuum_enabled = false)")
    found = doctor(bare, made)["vacuum"]
    assert (found["status"], found["found"]) == ("warn", "autovacuum is off for ready")
    made.execute("alter table {schema}.ready reset (autovacuum_enabled)")
    assert doctor(bare, made)["vacuum"]["status"] == "ok"
    monkeypatch.setattr(postgreshealth, "_MANY_DEAD", -1)
    monkeypatch.setattr(postgreshealth, "_FULL", 0.0)
    monkeypatch.setattr(postgreshealth, "_FAR_S", -1.0)
    made.execute("update {schema}.partition set node = null; select pg_stat_force_next_flush()")
    worried = doctor(bare, made)
    assert statuses(worried)["connections"] == statuses(worried)["server clock"] == "warn"
    assert "dead rows" in worried["vacuum"]["found"]


def test_a_server_that_is_configured_badly(
    bare: Cli, workplace: Path, fresh_postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_postgres.configure(synchronous_commit="off", autovacuum="off", max_prepared_transactions="3")
    fresh_postgres.restart()
    monkeypatch.setattr(postgreshealth, "_OLD", timedelta(0))
    with place_on(fresh_postgres, monkeypatch) as place:
        assert bare("migrate").code == 0
        place.execute("begin; select txid_current(); prepare transaction 'forgotten'")
        found = doctor(bare, place)
        assert "loses jobs that were acknowledged" in found["durability"]["found"]
        assert "autovacuum is off" in found["vacuum"]["found"]
        assert "prepared transactions nobody ends: forgotten" in found["old snapshots"]["found"]
        place.execute("rollback prepared 'forgotten'")
        place.execute("select pg_create_physical_replication_slot('unused', true)", fresh_postgres.superuser_url)
        found = doctor(bare, place)
        assert "replication slots nobody uses: unused" in found["old snapshots"]["found"]
        assert "pg_drop_replication_slot" in found["old snapshots"]["todo"]
