"""Many processes on one database: some submit, some run; they wake each other and share the work."""

import signal
import threading
from pathlib import Path

import pytest

from faults.checks import check_effects, check_tables
from faults.harness import ON_SQLITE, Site, until
from mainspring.store.sqlite.database import connect
from mainspring.verbs.documents import NewSchedule

SOON_S = 20.0  # much more than a hint takes, much less than the hour until anybody looks by himself


def _acknowledged(*paths: Path) -> list[str]:
    return [id_ for path in paths for id_ in path.read_text().split()]


def test_a_web_process_submits_and_another_runs(site: Site) -> None:
    acks = [site.folder / "async.acks", site.folder / "sync.acks"]
    worker = site.worker()
    web = site.start("child_submit", acks=str(acks[0]), count=500)
    cgi = site.start("child_submit", acks=str(acks[1]), count=100, sync=True)
    for child in (web, cgi):
        child.hear("done")
        assert child.wait() == 0, child.errors()
    site.drained()
    ids = _acknowledged(*acks)
    assert len(set(ids)) == 600
    assert check_effects(site, ids).repeats == 0
    assert {effect.pid for effect in site.effects()} == {worker.pid}


def test_hints_reach_the_other_process(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody polls: every slow look is set to an hour, in both processes."""
    monkeypatch.setattr("mainspring.verbs.looking.SLOW_LOOK_S", 3600.0)
    worker = site.worker(slow_looks=True, slots=10)
    jobs = site.jobs()
    with jobs.app.sync as app:
        # One at a time, so that each wakes a worker that sleeps.
        for number in range(3):
            assert jobs.quick.sync.submit(number).result(timeout=SOON_S) == worker.pid
        assert jobs.quick.options(delay="300ms").sync.submit(0).result(timeout=SOON_S) == worker.pid
        assert jobs.flaky.sync.submit().result(timeout=SOON_S) == worker.pid

        rule = {"cron": "* * * * * *", "overlap": "allow"}
        often = NewSchedule(name="often", kind="quick", rule=rule, arguments={"number": 0})
        app.call(jobs.app.schedules.create(often))
        fired = "select count(*) from job where kind = 'quick' and state = 'completed'"
        before = site.value(fired)
        until(lambda: site.value(fired) >= before + 2, "a schedule made elsewhere fires", SOON_S)


def test_a_cancel_reaches_the_process_that_runs_the_job(site: Site) -> None:
    site.worker(slow_looks=True, slots=10)
    jobs = site.jobs()
    with jobs.app.sync:
        job = jobs.nap.sync.submit(600.0)
        until(lambda: site.effects(), "it runs")
        assert job.cancel()
        until(lambda: job.status().state == "cancelled", "it is cancelled where it runs", SOON_S)


@pytest.mark.parametrize(("count", "batch"), [(200, 1), (1000, 20)], ids=["singles", "batches"])
def test_eight_writers_at_once(site: Site, count: int, batch: int) -> None:
    """They also open a store that is not there yet, all at the same moment."""
    paths = [site.folder / f"{n}.acks" for n in range(8)]
    writers = [site.start("child_submit", acks=str(path), count=count, batch=batch) for path in paths]
    worker = site.worker()
    for writer in writers:
        writer.hear("done")
        assert writer.wait() == 0, writer.errors()
        assert "Busy" not in writer.errors()
    ids = _acknowledged(*paths)
    assert len(set(ids)) == 8 * count
    site.drained()
    assert check_effects(site, ids).repeats == 0
    check_tables(site)
    assert worker.alive


@ON_SQLITE
def test_a_lock_held_for_long_reaches_nobody(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than SQLite's own patience, which is shortened for this: a submit waits, it does not fail."""
    monkeypatch.setattr("mainspring.store.sqlite.database.BUSY_TIMEOUT_MS", 20)
    jobs = site.jobs()
    with jobs.app.sync:
        holder = connect(site.place.settings.path)
        holder.execute("begin immediate")
        releasing = threading.Timer(0.5, holder.execute, ("rollback",))
        releasing.start()
        job = jobs.quick.sync.submit(1)
        assert not holder.in_transaction, "acknowledged while another held the lock"
        assert job.status().state == "pending"
        releasing.join()
        holder.close()


def test_two_nodes_share_the_partitions_and_steal_when_idle(site: Site) -> None:
    every, some = site.worker(), site.worker(everywhere=False)
    half = site.value("select count(*) from partition") // 2
    share = "select count(*) from partition group by node"
    until(lambda: site.rows(share) == [(half,), (half,)], "both own half of the partitions")
    jobs = site.jobs()
    with jobs.app.sync as app:
        # In all partitions, but only one of the two nodes serves the kind.
        ids = [job.id for job in app.submit_many(jobs.only_here.job(n) for n in range(200))]
        site.drained()
        common = [job.id for job in app.submit_many(jobs.nap.job(0.05) for n in range(400))]
        site.drained()
    assert check_effects(site, ids + common).repeats == 0
    ran = {effect.job: effect.pid for effect in site.effects()}
    assert {ran[id_] for id_ in ids} == {every.pid}
    assert {ran[id_] for id_ in common} == {every.pid, some.pid}


def test_a_node_that_leaves_gives_its_share_away_at_once(site: Site) -> None:
    """With the real lease: nobody waits for it when a process stops in order."""
    first, second = site.worker(), site.worker()
    owners = "select count(distinct node) from partition where node is not null"
    until(lambda: site.value(owners) == 2, "both own partitions")
    first.signal(signal.SIGTERM)
    assert first.wait() == 0, first.errors()
    until(lambda: len(site.rows("select node from partition group by node")) == 1, "the other owns all", 8.0)
    assert second.alive
