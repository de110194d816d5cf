"""PostgreSQL goes away and comes back, is read-only or full.

Nothing acknowledged is lost, what runs goes on, and everything recovers by itself.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from faults.checks import check_effects, check_tables
from faults.conftest import MakeSite
from faults.harness import Site, until
from faults.outage import RESUMES_S, nobody_was_given_up, running, works_again
from faults.places import Schema
from faults.shell import Shell
from faults.small_disk import fill
from postgres.proxy import Proxy, When
from postgres.server import Server

LEASE_S = 1.0


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_under_load(durable_site: Site, durable_postgres: Server, mode: str) -> None:
    """It is away for longer than a lease."""
    site = durable_site
    workers = [site.worker(lease_s=LEASE_S, slots=30) for _ in range(2)]
    held = running(site)
    load = site.load(pause_s=0.05)
    load.goes_on()

    durable_postgres.stop(mode)
    time.sleep(1.5 * LEASE_S)  # the fault itself, not a way to wait
    durable_postgres.resume()
    load.goes_on(RESUMES_S)
    works_again(site)

    done = load.stop()
    (site.folder / "gate").touch()
    site.drained()
    assert done.refused == done.uncertain == 0, "an outage so short is waited out"
    tally = check_effects(site, [*held, *load.acknowledged])
    assert (tally.repeats, tally.unexplained) == (site.value("select sum(failures) from job"), 0)
    nobody_was_given_up(site, *workers)
    check_tables(site)


def test_an_outage_beyond_all_patience(durable_site: Site, durable_postgres: Server) -> None:
    """Submits are refused and say what is known; what runs runs on, and how it ended is accepted when the database is back."""
    site = durable_site
    worker = site.worker(lease_s=LEASE_S, patience_s=0.5, slots=30)
    held = running(site)
    shell = Shell(site, patience_s=0.5)
    assert shell.submit(20) is None
    until(lambda: len(site.effects()) == 30, "they run")

    durable_postgres.stop("fast")
    refused = shell.submit()
    assert refused is not None
    assert refused.startswith("StoreUnavailableError: postgresql://127.0.0.1")
    assert "nothing was written" in refused
    (site.folder / "gate").touch()  # they end while nobody can be told
    time.sleep(3 * LEASE_S)
    durable_postgres.resume()

    shell.recovered()
    works_again(site)
    site.drained()
    tally = check_effects(site, [*held, *shell.accepted])
    assert (tally.repeats, tally.unexplained) == (0, 0)
    nobody_was_given_up(site, worker)
    check_tables(site)


@pytest.mark.parametrize(("when", "written"), [("before", 0), ("after", 1)])
def test_an_outage_that_begins_with_a_commit(proxied_site: Site, proxy: Proxy, when: When, written: int) -> None:
    """Whether it took place nobody can tell, and so it is said; with a key it can be tried again."""
    site = proxied_site
    shell = Shell(site, patience_s=0.5)
    assert shell.submit() is None
    proxy.cut_at_commit(when, go_away=True)
    refused = shell.submit("once")
    assert refused is not None
    assert refused.startswith("StoreUncertainError")
    assert "not known" in refused
    assert site.value("select count(*) from claim") == written
    proxy.accept()
    assert shell.submit("once") is None
    assert site.value("select count(*) from job") == 2
    assert site.value("select count(*) from claim") == 1
    site.worker()
    site.drained()
    assert check_effects(site, shell.accepted).repeats == 0


def test_a_database_that_becomes_read_only(durable_site: Site, durable_postgres: Server) -> None:
    """As when a standby takes over and the old primary is demoted, or the provider's disk is almost full."""
    site = durable_site
    worker, shell = site.worker(lease_s=LEASE_S, slots=30), Shell(site)
    held = running(site)
    assert shell.submit(20) is None
    durable_postgres.configure(default_transaction_read_only="on")
    try:
        refused = shell.refusal()
        assert refused.startswith("StoreUnavailableError")
        assert "is read-only" in refused
        assert shell.state(shell.accepted[0]) in ("pending", "assigned", "running", "completed")
        time.sleep(2 * LEASE_S)  # for longer than the worker's lease
        assert shell.submit() is not None
    finally:
        durable_postgres.configure(default_transaction_read_only="off")
    shell.recovered()
    (site.folder / "gate").touch()
    works_again(site)
    site.drained()
    assert check_effects(site, [*held, *shell.accepted]).repeats == 0
    nobody_was_given_up(site, worker)
    check_tables(site)


@pytest.fixture
def disk_site(durable_postgres: Server, small_disk: Path, make_site: MakeSite) -> Iterator[Site]:
    """The tables lie on a small disk of their own. (Where the server's log of changes is on the full disk, the server itself
    goes down, which is an outage as any other.)"""
    space = small_disk / "space"
    space.mkdir(mode=0o700)
    with psycopg.connect(durable_postgres.superuser_url, autocommit=True) as admin:
        admin.execute(f"create tablespace small location '{space}'".encode())
        admin.execute("grant create on tablespace small to mainspring")
    site = make_site(Schema(durable_postgres.url, f"{durable_postgres.url}?default_tablespace=small"))
    yield site
    site.close()
    with psycopg.connect(durable_postgres.superuser_url, autocommit=True) as admin:
        admin.execute("drop tablespace small")


def test_a_full_disk(disk_site: Site, small_disk: Path) -> None:
    site = disk_site
    worker, shell = site.worker(lease_s=LEASE_S), Shell(site)
    assert shell.submit(20) is None
    ballast = fill(small_disk)

    refused = shell.refusal()
    assert refused.startswith("StoreUnavailableError")
    assert "is full: nothing was written" in refused
    assert shell.state(shell.accepted[0]) in ("pending", "assigned", "running", "completed")
    time.sleep(2 * LEASE_S)
    assert worker.alive

    ballast.unlink()
    shell.recovered()
    works_again(site)
    site.drained()
    assert check_effects(site, shell.accepted).unexplained == 0
    assert worker.alive, worker.errors()
    check_tables(site)
