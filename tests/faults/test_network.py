"""The network between processes and PostgreSQL: cuts, delays, standstill, and a process that is cut off from the others."""

import asyncio
import random
import signal
import time

import pytest

from faults.checks import check_effects, check_tables
from faults.harness import Site, until
from faults.outage import nobody_was_given_up, running, works_again
from mainspring.core.timer import SECOND
from mainspring.store.opening import StoreSettings
from postgres.proxy import Proxy, When
from postgres.server import Server

LEASE_S = 1.0
_WHEN: tuple[When, ...] = ("before", "after", "late")


def test_cuts_at_random_under_load(proxied_site: Site, proxy: Proxy) -> None:
    """All connections at once, or the one that commits just then."""
    site, chance = proxied_site, random.Random(7)
    workers = [site.worker(lease_s=2.0, slots=30) for _ in range(2)]
    held = running(site)
    load = site.load(pause_s=0.02, most=50)
    for number in range(24):
        if number % 2:
            time.sleep(chance.uniform(0.02, 0.3))
            proxy.cut()
        else:
            proxy.cut_at_commit(chance.choice(_WHEN))
            proxy.wait_for_cut()
            proxy.deliver()
    works_again(site)

    done = load.stop()
    (site.folder / "gate").touch()
    site.drained()
    assert done.refused == done.uncertain == 0
    tally = check_effects(site, [*held, *load.acknowledged])
    assert (tally.repeats, tally.unexplained) == (site.value("select sum(failures) from job"), 0)
    nobody_was_given_up(site, *workers)
    check_tables(site)


def test_a_slow_database_costs_time_and_nothing_else(proxied_site: Site, proxy: Proxy) -> None:
    """Every message takes a fifth of a second longer, each way, for more than a lease. Of the real length: a renewal is some ten
    messages, and with a shorter lease its connection would be given up before it is through."""
    site, lease_s = proxied_site, 10.0
    workers = [site.worker(lease_s=lease_s, slots=30) for _ in range(2)]
    held = running(site)
    load = site.load(pause_s=0.05, most=20)
    proxy.delay(0.2)
    time.sleep(1.2 * lease_s)  # the fault itself, not a way to wait
    load.goes_on()
    assert site.value("select min(lease_until) from node") > time.time() * SECOND, "leases are renewed meanwhile"
    proxy.delay(0.0)
    works_again(site)
    load.stop()
    (site.folder / "gate").touch()
    site.drained()
    tally = check_effects(site, [*held, *load.acknowledged])
    assert (tally.repeats, tally.unexplained) == (site.value("select sum(failures) from job"), 0)
    nobody_was_given_up(site, *workers)


def test_a_database_that_stands_still_for_leases_rescues_nobody(proxied_site: Site, proxy: Proxy) -> None:
    """Connections stay open and nothing comes through, for everybody alike."""
    site = proxied_site
    workers = [site.worker(lease_s=LEASE_S, slots=30) for _ in range(2)]
    held = running(site)
    load = site.load(pause_s=0.05, most=20)
    load.goes_on()
    proxy.hold()
    time.sleep(5 * LEASE_S)
    proxy.release()
    load.goes_on()
    works_again(site)
    load.stop()
    (site.folder / "gate").touch()
    site.drained()
    tally = check_effects(site, [*held, *load.acknowledged])
    assert (tally.repeats, tally.unexplained) == (site.value("select sum(failures) from job"), 0)
    nobody_was_given_up(site, *workers)


def test_a_node_that_is_cut_off_for_leases_is_fenced_and_starts_again(
    proxied_site: Site, proxy: Proxy, postgres: Server
) -> None:
    """The others go on: they take over what it had. It does not know, and its jobs end; that comes too late."""
    site, gate = proxied_site, proxied_site.folder / "gate"
    direct = StoreSettings(postgres.url, site.place.settings.schema)
    lost = site.worker(lease_s=LEASE_S, slots=10)
    held = running(site)
    other = site.worker(lease_s=LEASE_S, slots=10, everywhere=False, store=direct)
    before = site.value("select max(id) from node where name like ?", f"%-{lost.pid}")
    until(lambda: site.value("select count(distinct node) from partition") == 2, "both own partitions")

    proxy.hold()
    cut_off_s = time.monotonic()
    until(lambda: site.value("select count(*) from job where losses = 1") == 10, "the other one rescues all of them")
    until(lambda: len(site.effects()) == 20, "and runs them")
    took_s = time.monotonic() - cut_off_s
    assert took_s < LEASE_S + 2.0, f"taken over after {took_s:.1f} s"
    assert len(site.rows("select node from partition group by node")) == 1
    (site.folder / f"gate.{lost.pid}").touch()
    time.sleep(2 * LEASE_S)
    proxy.release()

    jobs = site.jobs()
    with jobs.app.sync as app:
        late = jobs.only_here.sync.submit(1)  # only the lost one serves this kind: it has registered anew
        assert late.result(timeout=30) == lost.pid
        assert site.value("select count(*) from job where kind = 'gated' and state = 'completed'") == 0
        gate.touch()
        results = [app.get(id_).result(timeout=30) for id_ in held]
    assert results == [other.pid] * 10, "a stale outcome was accepted"
    (reborn,) = site.rows("select id from node where ended_at is null and name like ?", f"%-{lost.pid}")
    assert reborn[0] != before
    tally = check_effects(site, [*held, late.id])
    assert (tally.repeats, tally.unexplained) == (10, 0)
    assert lost.alive
    check_tables(site)


def test_connections_that_go_dead_without_a_word_cost_no_lease(
    proxied_site: Site, proxy: Proxy, postgres: Server
) -> None:
    """Nobody hears that they are dead; another node that is well looks on for three leases."""
    site, lease_s = proxied_site, 2.0
    worker = site.worker(lease_s=lease_s, slots=10)
    held = running(site)
    direct = StoreSettings(postgres.url, site.place.settings.schema)
    other = site.worker(lease_s=lease_s, slots=10, store=direct)
    lease = f"select max(lease_until) from node where name like '%-{worker.pid}'"
    before = site.value(lease)
    until(lambda: site.value(lease) > before, "the lease is renewed")
    proxy.strand()
    time.sleep(3 * lease_s)
    nobody_was_given_up(site, worker, other)
    proxy.cut()  # only now those who wait for an answer learn that none will come
    (site.folder / "gate").touch()
    site.drained()
    works_again(site)
    assert check_effects(site, held).repeats == 0
    nobody_was_given_up(site, worker, other)


async def test_an_answer_that_was_under_way_for_long_does_not_set_the_clock(
    proxied_site: Site, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is on this machine, so the clocks agree."""
    monkeypatch.setattr("mainspring.store.postgres.hub.CHECK_S", 0.1)
    async with proxied_site.jobs().app as app:
        proxy.hold()
        await asyncio.sleep(1.5)
        proxy.release()
        for _ in range(20):
            wrong_s = abs(app.store.clock.now() / 1e6 - time.time())
            assert wrong_s < 0.1, f"the clock is wrong by {wrong_s:.2f} s"
            await asyncio.sleep(0.02)


def test_a_stop_of_a_process_that_is_cut_off(proxied_site: Site, proxy: Proxy) -> None:
    """SIGTERM while the database cannot be reached: it ends all the same, and others find what it could not say."""
    site = proxied_site
    worker = site.worker(lease_s=LEASE_S, patience_s=0.5, slots=10, grace_s=0.2)
    held = running(site, 5)
    proxy.refuse()
    proxy.cut()
    worker.signal(signal.SIGTERM)
    told_s = time.monotonic()
    assert worker.wait() == 0, worker.errors()
    assert time.monotonic() - told_s < 30.0
    proxy.accept()
    (site.folder / "gate").touch()
    site.worker(lease_s=LEASE_S, slots=10)
    site.drained()
    tally = check_effects(site, held)
    assert (tally.repeats, tally.unexplained) == (5, 0)
