"""What tests of a database that goes away have in common: jobs that run meanwhile, and whether all is well afterwards."""

import time

from faults.harness import Child, Site, until

RESUMES_S = 5.0


def running(site: Site, count: int = 10) -> list[str]:
    """Jobs that run until the file `gate` is made."""
    jobs = site.jobs()
    with jobs.app.sync as app:
        ids = [job.id for job in app.submit_many(jobs.gated.job(str(site.folder / "gate")) for _ in range(count))]
    until(lambda: {effect.job for effect in site.effects()} >= set(ids), "they run")
    return ids


def works_again(site: Site) -> None:
    """A job that is submitted now runs soon."""
    began_s = time.monotonic()
    jobs = site.jobs()
    with jobs.app.sync:
        jobs.quick.sync.submit(1).result(timeout=60)
    took_s = time.monotonic() - began_s
    assert took_s < RESUMES_S, f"it took {took_s:.1f} s until a job ran again"


def nobody_was_given_up(site: Site, *processes: Child) -> None:
    assert all(process.alive for process in processes)
    assert site.value("select count(*) from node where ended_at is not null") == 0
    assert site.value("select sum(losses) from job") == 0
