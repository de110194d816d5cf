"""SIGTERM under load, and jobs that block the event loop: orderly, in time, without a rescue."""

import signal
import time

import pytest

from faults.checks import check_effects, check_tables
from faults.harness import Site, until

GRACE_S = 1.0


@pytest.mark.parametrize("asked", ["sigterm", "drained"])
def test_a_stop_under_load(site: Site, asked: str) -> None:
    """No new claims, what is short finishes, what is long is handed back, and the next worker goes on with it."""
    jobs = site.jobs()
    stopped = site.worker(slots=30, grace_s=GRACE_S)
    with jobs.app.sync as app:
        drafts = [jobs.nap.options(priority=10).job(600.0) for _ in range(5)]
        drafts += [jobs.nap_thread.options(priority=10).job(600.0) for _ in range(2)]
        drafts += [jobs.nap_process.options(priority=10).job(600.0) for _ in range(2)]
        long = [job.id for job in app.submit_many(drafts)]
        until(lambda: {e.job for e in site.effects()} >= set(long), "every long job runs")
        short = [job.id for job in app.submit_many(jobs.nap.job(0.02) for _ in range(3000))]
        until(lambda: len(site.effects()) > 300, "the load is on")

        if asked == "sigterm":
            stopped.signal(signal.SIGTERM)
        else:
            (node,) = app.call(jobs.app.store.list_nodes())
            assert app.call(jobs.app.store.drain_nodes([node.id])) == 1
        told_s = time.monotonic()
        code = stopped.wait()
        took_s = time.monotonic() - told_s

        assert code == 0, stopped.errors()
        late = [e for e in site.effects() if e.at_s > told_s + 0.5]
        assert not late, f"{len(late)} jobs began after the stop"
        assert site.value("select count(*) from live") == 0, "everything was finished or handed back"
        assert site.value("select sum(losses) + sum(failures) from job") == 0, "a hand-back counts as nothing"
        assert site.value("select count(*) from node where ended_at is null") == 0
        assert took_s < GRACE_S + 1.0, f"took {took_s:.1f} s"

        follower = site.worker(slots=30, grace_s=0.0)
        until(lambda: {e.job for e in site.effects() if e.pid == follower.pid} >= set(long[:7]), "the other goes on")
        done = "select count(*) from job where state = 'completed'"
        until(lambda: site.value(done) == 3000, "and does what is left")
    tally = check_effects(site, short + long)
    assert tally.repeats == len(long), "only what was handed back ran again"
    check_tables(site)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_an_idle_worker_stops_at_once(site: Site, number: signal.Signals) -> None:
    worker = site.worker()
    worker.signal(number)
    told_s = time.monotonic()
    assert worker.wait() == 0, worker.errors()
    assert time.monotonic() - told_s < 2.0
    assert site.value("select count(*) from node where ended_at is null") == 0


def test_a_job_that_blocks_the_loop_keeps_its_lease(site: Site) -> None:
    """Three leases long nothing of the loop runs; a second node looks on all the time."""
    lease_s = 1.0
    jobs = site.jobs()
    blocked = site.worker(lease_s=lease_s, slots=1)
    with jobs.app.sync:
        job = jobs.hog.sync.submit(3 * lease_s)
        until(lambda: site.effects(), "it blocks")
        other = site.worker(lease_s=lease_s)
        assert job.result(timeout=30) == blocked.pid
        after = jobs.quick.sync.submit(1)
        after.result(timeout=30)
    assert other.alive
    assert check_effects(site, [job.id, after.id]).repeats == 0
    assert site.value("select sum(losses) from job") == 0
    assert site.value("select count(*) from node where ended_at is not null") == 0
    assert site.value("select count(*) from session where ended_at is not null") == 0
