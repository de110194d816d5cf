"""Workers over HTTP while servers die, calls get lost and a balancer sends them anywhere: each job runs once, and ends."""

import signal

import pytest

from faults.balancer import Balancer
from faults.checks import check_effects, check_tables
from faults.harness import ON_SQLITE, Site, until
from faults.remote import REMOTE, free_port, serve, works

SEED = 20_260_101
_LIVE = "select count(*) from job where state in ('assigned', 'running')"


def _submit_gated(site: Site, gate: str, count: int) -> list[str]:
    jobs = site.jobs()
    with jobs.app.sync as app:
        return [job.id for job in app.submit_many(jobs.gated.job(str(site.folder / gate)) for _ in range(count))]


def _check_ran_once(site: Site, ids: list[str]) -> None:
    site.drained()
    tally = check_effects(site, ids)
    assert (tally.runs, tally.repeats) == (len(ids), 0)
    assert site.rows("select state, attempt, count(*) from job group by 1, 2") == [("completed", 1, len(ids))]
    check_tables(site)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_goes_and_comes_back_while_its_workers_run(site: Site, how: signal.Signals) -> None:
    """They go on, find the new one, and what ended meanwhile counts once."""
    port = free_port()
    server = serve(site, port)
    url = f"http://127.0.0.1:{port}"
    workers = [works(site, url) for _ in range(2)]
    ids = _submit_gated(site, "first", 30) + _submit_gated(site, "second", 30)
    until(lambda: len(site.effects()) == 60, "all of them run")
    server.signal(how)
    server.wait()
    (site.folder / "first").touch()  # half of them end while there is nobody to tell
    serve(site, port)
    assert site.value(_LIVE) == 60
    until(lambda: site.value(_LIVE) == 30, "what ended is told to the new server")
    (site.folder / "second").touch()
    _check_ran_once(site, ids)
    assert site.value(REMOTE) == 2, "with the sessions that they had"
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0, worker.errors()


def test_a_worker_that_dies_while_its_server_is_away_is_missed(site: Site) -> None:
    port = free_port()
    server = serve(site, port)
    victim = works(site, f"http://127.0.0.1:{port}")
    ids = _submit_gated(site, "gate", 10)
    until(lambda: len(site.effects()) == 10, "all of them run")
    server.kill()
    victim.kill()
    serve(site, port)
    survivor = works(site, f"http://127.0.0.1:{port}")
    (site.folder / "gate").touch()
    site.drained()
    tally = check_effects(site, ids)
    assert (tally.repeats, tally.unexplained) == (10, 0)
    assert {effect.pid for effect in site.effects()} == {victim.pid, survivor.pid}
    check_tables(site)


def test_two_servers_behind_a_balancer_and_one_of_them_dies(site: Site) -> None:
    """Half of the calls arrive at the server where the session is not."""
    ports = [free_port(), free_port()]
    servers = [serve(site, port) for port in ports]
    with Balancer(*(f"http://127.0.0.1:{port}" for port in ports)) as balancer:
        for _ in range(2):
            works(site, balancer.url)
        jobs = site.jobs()
        with jobs.app.sync as app:
            ids = [job.id for job in app.submit_many(jobs.quick.job(number) for number in range(500))]
        site.drained()
        running = _submit_gated(site, "gate", 40)
        until(lambda: len(site.effects()) == 540, "all of them run")
        servers[0].kill()
        (site.folder / "gate").touch()
        _check_ran_once(site, ids + running)
        assert site.value(REMOTE) == 2


@ON_SQLITE
def test_a_line_that_loses_a_third_of_all_calls_costs_no_job_a_second_run(site: Site) -> None:
    port = free_port()
    serve(site, port)
    with Balancer(f"http://127.0.0.1:{port}", lose=0.3, seed=SEED) as line:
        for _ in range(2):
            works(site, line.url)
        jobs = site.jobs()
        with jobs.app.sync as app:
            ids = [job.id for job in app.submit_many(jobs.quick.job(number) for number in range(2000))]
        _check_ran_once(site, ids)
        assert min(line.lost_before, line.lost_after) > 5, "nothing was lost"
