"""A process stands still and goes on: what it did meanwhile is fenced off, and a short stop costs nothing."""

import signal
import time

from faults.checks import check_effects, check_tables
from faults.harness import Site, until

LEASE_S = 1.0


def test_a_frozen_worker_that_wakes_up_is_fenced_and_works_again(site: Site) -> None:
    gate = site.folder / "gate"
    jobs = site.jobs()
    frozen = site.worker(lease_s=LEASE_S, slots=10)
    with jobs.app.sync as app:
        held = [job.id for job in app.submit_many(jobs.gated.job(str(gate)) for _ in range(10))]
        until(lambda: len(site.effects()) == 10, "every job runs")
        other = site.worker(lease_s=LEASE_S, slots=10, everywhere=False)

        site.freeze(frozen)
        rescued = "select count(*) from job where losses = 1"
        until(lambda: site.value(rescued) == 10, "the other one rescues all of them")
        until(lambda: len(site.effects()) == 20, "and runs them")
        # It wakes up while the other one is still at work, and all its functions return: nobody wants that any more.
        (site.folder / f"gate.{frozen.pid}").touch()
        frozen.signal(signal.SIGCONT)
        late = jobs.only_here.sync.submit(1)  # it registers anew: only this process serves the kind
        assert late.result(timeout=30) == frozen.pid
        assert site.value("select count(*) from job where kind = 'gated' and state = 'completed'") == 0

        gate.touch()
        results = [app.get(id_).result(timeout=30) for id_ in held]

    assert results == [other.pid] * 10, "a stale outcome was accepted"
    assert frozen.alive
    tally = check_effects(site, [*held, late.id])
    assert (tally.repeats, tally.unexplained) == (10, 0)
    check_tables(site)
    assert site.value("select count(*) from node where ended_at is null") == 2


def test_a_stop_of_half_a_lease_rescues_nothing(site: Site) -> None:
    lease_s = 4.0
    gate = site.folder / "gate"
    jobs = site.jobs()
    frozen = site.worker(lease_s=lease_s, slots=10)
    with jobs.app.sync as app:
        held = [job.id for job in app.submit_many(jobs.gated.job(str(gate)) for _ in range(10))]
        until(lambda: len(site.effects()) == 10, "every job runs")
        other = site.worker(lease_s=lease_s, slots=10)
        lease = f"select max(lease_until) from node where name like '%-{frozen.pid}'"
        before = site.value(lease)
        until(lambda: site.value(lease) > before, "the lease is renewed")

        site.freeze(frozen)
        time.sleep(lease_s / 2)  # the fault itself, not a way to wait
        frozen.signal(signal.SIGCONT)

        seen = site.value(lease)
        until(lambda: site.value(lease) > seen, "the lease is renewed again")
        gate.touch()
        results = [app.get(id_).result(timeout=30) for id_ in held]
    assert results == [frozen.pid] * 10
    assert other.alive
    assert check_effects(site, held).repeats == 0
    assert site.value("select sum(losses) from job") == 0
    assert site.value("select count(*) from node where ended_at is not null") == 0


def test_a_process_frozen_under_load_does_no_harm(site: Site) -> None:
    """Whatever it was doing: even if it stopped with the file's lock in its hand, all is well when it goes on."""
    jobs = site.jobs()
    frozen, other = site.worker(lease_s=LEASE_S), site.worker(lease_s=LEASE_S)
    with jobs.app.sync as app:
        ids = [job.id for job in app.submit_many(jobs.quick.job(n) for n in range(2000))]
        for _ in range(3):
            frozen.signal(signal.SIGSTOP)
            time.sleep(1.5 * LEASE_S)
            frozen.signal(signal.SIGCONT)
            ids += [job.id for job in app.submit_many(jobs.quick.job(n) for n in range(500))]
        site.drained()
        here = [jobs.quick.sync.submit(n) for n in range(50)]
        assert {job.result(timeout=30) for job in here} <= {frozen.pid, other.pid}
    assert frozen.alive
    assert other.alive
    tally = check_effects(site, ids)
    assert tally.unexplained == 0
    check_tables(site)
