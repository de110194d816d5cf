"""A job that kills its process: it fails with the right reason, its worker and its neighbours go on."""

import os
import signal

import pytest

from faults.checks import check_effects, check_tables
from faults.harness import ON_SQLITE, Site, until
from mainspring import JobFailedError


@ON_SQLITE
def test_poison_in_a_process(site: Site) -> None:
    jobs = site.jobs()
    worker = site.worker(slots=10)
    with jobs.app.sync as app:
        poison = {
            jobs.segfault.sync.submit(): ("killed", "SIGSEGV"),
            jobs.exit_hard.sync.submit(): ("killed", "code 7"),
            jobs.hang.sync.submit(): ("timeout", "0.3 s"),
        }
        others = app.submit_many(
            [jobs.quick.job(n) for n in range(100)] + [jobs.nap_process.job(0.0) for _ in range(4)]
        )
        for job, (reason, message) in poison.items():
            with pytest.raises(JobFailedError, match=message) as failed:
                job.result(timeout=60)
            assert failed.value.reason == reason
        for other in others:
            other.result(timeout=60)
        assert jobs.quick.sync.submit(1).result(timeout=60) == worker.pid
    assert worker.alive
    assert site.value("select count(*) from node where ended_at is not null") == 0
    assert check_effects(site, [job.id for job in (*poison, *others)]).unexplained == 0
    check_tables(site)


@ON_SQLITE
def test_a_process_that_is_killed_from_outside_is_one_failure(site: Site) -> None:
    """As the kernel does when memory runs out: the job is tried again in another process."""
    jobs = site.jobs()
    worker = site.worker(slots=10)
    with jobs.app.sync:
        job = jobs.nap_process.options(backoff="10ms").sync.submit(600.0)
        first = until(lambda: site.effects(), "it runs")[0]
        os.kill(first.pid, signal.SIGKILL)
        second = until(lambda: site.effects()[1:], "it runs again")[0]
        assert (second.job, second.attempt) == (job.id, 2)
        assert second.pid not in (first.pid, worker.pid)
        assert job.status().failures == 1
    assert worker.alive


@ON_SQLITE
def test_a_poison_job_with_retries_is_given_up(site: Site) -> None:
    jobs = site.jobs()
    worker = site.worker(slots=10)
    with jobs.app.sync:
        job = jobs.segfault.options(retries=2, backoff="10ms").sync.submit()
        with pytest.raises(JobFailedError, match="SIGSEGV"):
            job.result(timeout=60)
    assert len(site.effects()) == 3
    assert worker.alive


def test_a_job_that_takes_its_worker_along_ends_after_three_losses(site: Site) -> None:
    """In no process of its own, `os._exit` ends the worker: the job is quarantined, the other jobs are done."""
    jobs = site.jobs()
    killer = jobs.app.job(name="killer")(_kill_worker)
    with jobs.app.sync as app:
        bad = killer.sync.submit()
        good = [job.id for job in app.submit_many(jobs.nap.job(0.0) for _ in range(100))]
        for _ in range(3):
            worker = site.start("child_worker", lease_s=0.5, slots=1, killer=True)
            assert worker.wait() == 9, worker.errors()
        site.worker(lease_s=0.5, killer=True)
        with pytest.raises(JobFailedError) as failed:
            bad.result(timeout=60)
        assert failed.value.reason == "lost"
        site.drained()
    check_effects(site, good)
    check_tables(site)


def _kill_worker() -> None:
    os._exit(9)
