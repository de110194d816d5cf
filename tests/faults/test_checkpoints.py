"""A job of many steps loses its worker: the next attempt goes on where it was, and repeats one step at most.

Counted by what the steps wrote down outside of Mainspring.
"""

import signal
from collections import Counter, defaultdict
from pathlib import Path

from faults.checks import check_tables
from faults.harness import ON_SQLITE, Child, Site, until
from faults.remote import free_port, serve, works
from faults.scene import Jobs

STEPS = 60
LEASE_S = 1.0


def _steps(site: Site) -> dict[str, list[tuple[int, int]]]:
    """Of each job: attempt and number, as they were done."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    log = Path(f"{site.log}.steps")
    for line in log.read_text().splitlines() if log.exists() else ():
        job, attempt, number = line.split()
        found[job].append((int(attempt), int(number)))
    return found


def _submit(jobs: Jobs) -> list[str]:
    """One for each pool, and one with named steps."""
    drafts = [jobs.walk_by_names.job(STEPS), jobs.walk.job(STEPS), jobs.walk_process.job(STEPS)]
    with jobs.app.sync as app:
        return [job.id for job in app.submit_many([*drafts, jobs.walk_thread.job(STEPS, {}, "")])]


def _kill_half_way(site: Site, victim: Child, ids: list[str]) -> None:
    until(lambda: all(len(_steps(site)[id_]) > STEPS // 3 for id_ in ids), "every job is half way")
    victim.kill()


def _check(site: Site, ids: list[str]) -> None:
    site.drained()
    done = _steps(site)
    for id_ in ids:
        numbers = Counter(number for _, number in done[id_])
        assert set(numbers) == set(range(STEPS)), "a step was left out"
        assert sum(numbers.values()) <= STEPS + 1, f"repeated {numbers.most_common(3)}"
        assert {attempt for attempt, _ in done[id_]} == {1, 2}, "nothing was killed"
    assert site.value("select count(*) from job where state <> 'completed'") == 0
    check_tables(site)


def test_a_job_whose_worker_is_killed_repeats_one_step_at_most(site: Site) -> None:
    victim = site.worker(lease_s=LEASE_S)
    jobs = site.jobs()
    ids = _submit(jobs)
    _kill_half_way(site, victim, ids)
    site.worker(lease_s=LEASE_S)
    _check(site, ids)
    with jobs.app.sync as app:
        assert app.get(ids[0]).result(timeout=10) == list(range(STEPS)), "what the steps returned before the kill"


@ON_SQLITE
def test_the_same_at_a_server(site: Site) -> None:
    port = free_port()
    serve(site, port, lease_s=LEASE_S)
    url = f"http://127.0.0.1:{port}"
    victim = works(site, url)
    ids = _submit(site.jobs())
    _kill_half_way(site, victim, ids)
    works(site, url)
    _check(site, ids)


def test_an_attempt_that_wakes_up_late_does_not_spoil_what_the_next_one_saved(site: Site) -> None:
    gate = site.folder / "gate"
    frozen = site.worker(lease_s=LEASE_S)
    jobs = site.jobs()
    with jobs.app.sync:
        id_ = jobs.walk_thread.sync.submit(STEPS, {1: 10, 2: 20}, str(gate)).id
        until(lambda: _steps(site)[id_][-1:] == [(1, 9)], "the first attempt waits")
        other = site.worker(lease_s=LEASE_S, everywhere=False)
        site.freeze(frozen)
        until(lambda: _steps(site)[id_][-1:] == [(2, 19)], "the second goes on from there, and waits")
        assert _steps(site)[id_][10] == (2, 10)

        (site.folder / "gate.1").touch()
        frozen.signal(signal.SIGCONT)
        until(lambda: (1, 10) in _steps(site)[id_], "the first one goes on too, and would save what it did")
        late = jobs.only_here.sync.submit(1)  # it has registered anew: only this process serves the kind
        assert late.result(timeout=30) == frozen.pid
        other.kill()
        site.drained()
    third = [number for attempt, number in _steps(site)[id_] if attempt == 3]
    assert third == list(range(20, STEPS)), "it went on from what the second had saved"
    check_tables(site)
