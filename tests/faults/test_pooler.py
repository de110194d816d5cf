"""An application behind pgbouncer in transaction mode, end to end: what leans on a session would break at once."""

import time

import pytest

from faults.checks import check_effects, check_occurrences, check_tables
from faults.conftest import MakeSite
from faults.harness import until
from faults.places import Schema
from mainspring.core.timer import SECOND
from mainspring.store.postgres.hub import POLL_S
from postgres.pooler import Pooler
from postgres.server import Server


@pytest.mark.parametrize("listens", [True, False], ids=["listen-url", "polling"])
def test_an_application_behind_a_pooler(make_site: MakeSite, postgres: Server, pooler: Pooler, listens: bool) -> None:
    site = make_site(Schema(postgres.url, pooler.url, postgres.url if listens else None))
    worker, other = (site.worker(lease_s=2.0, slots=50, schedules=1) for _ in range(2))
    jobs = site.jobs()
    with jobs.app.sync as app:
        first = jobs.quick.sync.submit(1)
        first.result(timeout=30)
        began_s = time.monotonic()
        woken = jobs.quick.sync.submit(2)
        assert woken.result(timeout=30) in (worker.pid, other.pid)
        took_s = time.monotonic() - began_s
        assert took_s < (POLL_S if listens else 3 * POLL_S), f"a job took {took_s:.2f} s"
        keyed = [jobs.quick.options(key="once").sync.submit(3) for _ in range(2)]
        many = app.submit_many([jobs.quick.job(n) for n in range(500)] + [jobs.flaky.job()])
        cancelled = jobs.nap.sync.submit(600.0)
        until(lambda: any(effect.job == cancelled.id for effect in site.effects()), "it runs")
        assert cancelled.cancel()
        until(lambda: cancelled.status().state == "cancelled", "it is cancelled where it runs")
        for job in many:
            job.result(timeout=30)
        held = app.submit_many(jobs.gated.job(str(site.folder / "gate")) for _ in range(60))
        until(lambda: {e.job for e in site.effects()} >= {job.id for job in held}, "both have jobs in their hands")
        worker.kill()
        lost = "select count(*) from job where losses = 1"
        until(lambda: site.value(lost) > 0, "the other one rescues what it had", 10.0)
        (site.folder / "gate").touch()
        for job in held:
            job.result(timeout=30)
        app.call(jobs.app.store.delete_schedules(["default/tick-0"]))
    site.drained()
    ids = [job.id for job in (first, woken, *keyed, cancelled, *many, *held)]
    assert keyed[0].id == keyed[1].id
    tally = check_effects(site, ids)
    assert tally.unexplained == 0
    assert check_occurrences(site, "default/tick-0", SECOND) >= 2
    check_tables(site)
