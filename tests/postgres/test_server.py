"""The server that tests run against is real, belongs to the test run, and comes back with what was committed."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from postgres.server import NoServerError, Server, find_binaries, remove_orphans


def ask(url: str, sql: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(sql.encode()).fetchone()
        return row and row[0]


def test_tests_are_nobody_special_to_the_server(postgres: Server) -> None:
    assert (
        ask(postgres.url, "select rolsuper or rolcreatedb or rolcreaterole from pg_roles where rolname = user") is False
    )
    assert ask(
        postgres.url, "select pg_has_role(user, datdba, 'usage') from pg_database where datname = current_database()"
    )


def test_the_socket_leads_to_the_same_server(fresh_postgres: Server) -> None:
    assert ask(fresh_postgres.socket_url, "show port") == str(fresh_postgres.port)
    assert ask(fresh_postgres.socket_url, "select inet_server_addr()") is None
    assert ask(fresh_postgres.superuser_url, "select rolsuper from pg_roles where rolname = user") is True


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_what_was_committed_survives_a_restart_and_connections_do_not(fresh_postgres: Server, mode: str) -> None:
    url = fresh_postgres.url
    with psycopg.connect(url, autocommit=True) as before:
        before.execute("create table kept (x int)")
        before.execute("insert into kept values (7)")
        fresh_postgres.stop(mode)
        with pytest.raises(psycopg.OperationalError):
            before.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(url)
    fresh_postgres.resume()
    assert ask(url, "select x from kept") == 7


def test_settings_are_changed(fresh_postgres: Server) -> None:
    assert ask(fresh_postgres.url, "show fsync") == "on"
    fresh_postgres.configure(max_connections="33")
    fresh_postgres.restart()
    assert ask(fresh_postgres.url, "show max_connections") == "33"


def test_a_server_for_the_contract_does_not_wait_for_the_disk(postgres: Server) -> None:
    if not postgres.ours:
        pytest.skip("MAINSPRING_TEST_POSTGRES names the server")
    assert ask(postgres.url, "show fsync") == "off"


def test_it_dies_with_the_test_run_even_if_that_is_killed_and_the_next_one_tidies_up(fresh_postgres: Server) -> None:
    program = (
        "import time\nfrom postgres.server import Server\nserver = Server.start()\n"
        "print(server._mine._child.pid, server.folder, flush=True)\ntime.sleep(600)"
    )
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", program], env=environ, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        assert Path(f"/proc/{pid}").exists()
        run.kill()
    subprocess.run(["tail", f"--pid={pid}", "--sleep-interval=0.02", "-f", "/dev/null"], timeout=30, check=True)
    claim = Path(folder) / "claim"
    remove_orphans(claim.parent.parent)
    assert claim.exists()  # whoever made it might still be about to lock it
    os.utime(claim, (0, 0))
    remove_orphans(claim.parent.parent)
    assert not claim.parent.exists()
    assert fresh_postgres.folder.exists()


def test_a_place_without_binaries_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MAINSPRING_TEST_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(NoServerError, match=str(tmp_path)):
        find_binaries()
