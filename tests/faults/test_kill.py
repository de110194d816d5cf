"""A worker process is killed under load: the others finish its work, soon, and nothing is lost."""

import time

import pytest

from faults.checks import check_effects, check_tables
from faults.harness import Child, Site, until

LEASE_S = 10.0  # the real one
SHORT_LEASE_S = 1.0


def _submit(site: Site, count: int, nap_s: float) -> list[str]:
    jobs = site.jobs()
    with jobs.app.sync as app:
        return [job.id for job in app.submit_many(jobs.nap.job(nap_s) for _ in range(count))]


def _kill_after_renewal(site: Site, child: Child) -> float:
    """The worst moment: the whole lease is still to run."""
    lease = f"select max(lease_until) from node where ended_at is null and name like '%-{child.pid}'"
    before = site.value(lease)
    until(lambda: site.value(lease) > before, "the lease is renewed")
    child.kill()
    return time.monotonic()


@pytest.mark.parametrize(
    ("place", "lease_s"),
    [("postgres", LEASE_S), ("postgres", SHORT_LEASE_S), ("sqlite", SHORT_LEASE_S)],
    indirect=["place"],
    ids=["postgres-real-lease", "postgres-short-lease", "sqlite-short-lease"],
)
def test_the_other_worker_finishes_everything(site: Site, lease_s: float) -> None:
    config = {} if lease_s == LEASE_S else {"lease_s": lease_s}
    victim, survivor = site.worker(slots=20, **config), site.worker(slots=60, **config)
    owners = "select count(distinct node) from partition where node is not null"
    until(lambda: site.value(owners) == 2, "both own partitions")
    long = _submit(site, 80, lease_s / 2)  # the victim dies with work in its hands
    until(lambda: {e.pid for e in site.effects()} == {victim.pid, survivor.pid}, "both run jobs")
    quick = _submit(site, 1000, 0.0)

    killed_s = _kill_after_renewal(site, victim)
    site.drained()

    tally = check_effects(site, long + quick)
    check_tables(site)
    assert tally.unexplained == 0
    assert site.value("select count(*) from job where state <> 'completed'") == 0
    assert tally.repeats >= 1, "the victim had work in its hands"
    lag_s = max(e.at_s for e in site.effects() if e.attempt > 1) - killed_s
    assert lag_s < max(lease_s, LEASE_S) + 2.0, f"restarted {lag_s:.1f} s after the kill"


def test_a_kill_while_jobs_flow_loses_none(site: Site) -> None:
    """No job waits for anything: the victim dies somewhere between claim, run, report and commit.

    How many run again is a matter of the commit that was under way: a slot is free when its function has ended, and the
    outcomes of those before it may not have been accepted. Each of them is one that the victim had, begun or not, and none
    that the survivor had, which is checked.
    """
    jobs = site.jobs()
    victim, survivor = (site.worker(slots=50, lease_s=SHORT_LEASE_S) for _ in range(2))
    with jobs.app.sync as app:
        ids = [job.id for job in app.submit_many(jobs.quick.job(n) for n in range(3000))]
        until(lambda: any(e.pid == victim.pid for e in site.effects()), "the victim works")
        victim.kill()
        site.drained()
    tally = check_effects(site, ids)
    check_tables(site)
    assert tally.unexplained == 0
    again = {effect.job for effect in site.effects() if effect.attempt > 1}
    assert not again & {effect.job for effect in site.effects() if effect.pid == survivor.pid and effect.attempt == 1}
    assert survivor.alive
