"""Faults at random, from a printed seed: three workers on one file, jobs and a schedule; then heal, drain and check.

`pytest tests/faults --soak` does it for ten minutes; `--soak-seed` repeats the faults of a run (their order and lengths; what the
processes do between them is theirs).
"""

import random
import signal
import threading
import time
from collections import Counter
from typing import Any, NamedTuple

import pytest

from faults.checks import check_effects, check_every_second, check_tables
from faults.effects import Effect
from faults.harness import Child, Site, until
from mainspring.core.partition import format_id

LEASE_S = 1.0
WORKERS = 3
SHORT_S, LONG_S = 15.0, 600.0
_NEAR_S = 5.0  # a run that began so long before or after a fault of its process may have been cut off by it


class Fault(NamedTuple):
    """What was done to a process, and from when to when it felt it."""

    kind: str
    pid: int
    began_s: float
    ended_s: float


class Submitter(threading.Thread):
    """Submits in the background and remembers what was acknowledged; a process that stands still may make it wait."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(name="submitter", daemon=True)
        self._jobs = site.jobs()
        self._random = random.Random(seed)
        self._enough = threading.Event()
        self.acknowledged: list[str] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with self._jobs.app.sync as app:
                while not self._enough.wait(self._random.uniform(0.05, 0.3)):
                    drafts = [self._draft() for _ in range(self._random.randint(1, 200))]
                    self.acknowledged += [job.id for job in app.submit_many(drafts)]
        except Exception as error:  # no fault of a worker may reach who submits
            self.error = error

    def stop(self) -> None:
        self._enough.set()
        self.join(60)
        assert not self.is_alive(), "a submit hangs"
        assert self.error is None, f"a submit failed: {self.error!r}"

    def _draft(self) -> Any:
        jobs, number = self._jobs, self._random.random()
        if number < 0.6:
            return jobs.quick.job(0)
        if number < 0.75:
            return jobs.nap.job(self._random.uniform(0.0, 0.2))
        if number < 0.85:
            return jobs.quick_thread.job(0)
        if number < 0.95:
            return jobs.quick.options(delay=self._random.uniform(0.0, 2.0)).job(0)
        return jobs.flaky.job()


class Soak:
    """Three workers and what happens to them."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site = site
        self._random = random.Random(seed)
        self._workers = [self._start() for _ in range(WORKERS)]
        self.faults: list[Fault] = []

    def suffer(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            time.sleep(self._random.uniform(0.1, 1.0))
            place = self._random.randrange(WORKERS)
            kind = self._random.choice(("kill", "kill", "freeze", "freeze", "stop"))
            getattr(self, f"_{kind}")(place, self._random.uniform(0.1, 3.0) * LEASE_S)

    def heal(self) -> None:
        assert all(worker.alive for worker in self._workers), "a worker ended by itself"

    def explains(self, run: Effect) -> bool:
        return any(
            fault.pid == run.pid and fault.began_s - _NEAR_S <= run.at_s <= fault.ended_s + _NEAR_S
            for fault in self.faults
        )

    def _start(self) -> Child:
        return self._site.worker(lease_s=LEASE_S, slots=20, grace_s=0.2, schedules=1)

    def _replace(self, place: int) -> None:
        self._workers[place].close()
        self._workers[place] = self._start()

    def _kill(self, place: int, _seconds: float) -> None:
        worker, began_s = self._workers[place], time.monotonic()
        worker.kill()
        self.faults.append(Fault("kill", worker.pid, began_s, time.monotonic()))
        self._replace(place)

    def _freeze(self, place: int, seconds: float) -> None:
        """Not within a commit, where everybody would wait for it."""
        worker, began_s = self._workers[place], time.monotonic()
        self._site.freeze(worker)
        time.sleep(seconds)
        worker.signal(signal.SIGCONT)
        self.faults.append(Fault("freeze", worker.pid, began_s, time.monotonic()))

    def _stop(self, place: int, _seconds: float) -> None:
        worker, began_s = self._workers[place], time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.wait(30) == 0, worker.errors()
        self.faults.append(Fault("stop", worker.pid, began_s, time.monotonic()))
        self._replace(place)


def test_random_faults(site: Site, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    def option(name: str) -> Any:
        """None where this folder was not named on the command line, so that pytest read its options too late."""
        return request.config.getoption(name, default=None)

    seconds = option("--soak-seconds") or (LONG_S if option("--soak") else SHORT_S)
    seed = option("--soak-seed")
    seed = random.randrange(1 << 32) if seed is None else seed
    print(f"--soak-seed {seed} --soak-seconds {seconds:g}")

    soak, submitter = Soak(site, seed), Submitter(site, seed)
    submitter.start()
    soak.suffer(seconds)
    soak.heal()
    submitter.stop()
    site.drained(120)
    until(lambda: site.value("select count(*) from live") == 0, "nothing is live")

    ended = Counter(site.rows("select state, reason from job"))
    lost = {format_id(row[0]) for row in site.rows("select id from job where state = 'failed' and reason = 'lost'")}
    check_tables(site)
    occurrences = check_every_second(site, "default/tick-0")
    tally = check_effects(site, [id_ for id_ in submitter.acknowledged if id_ not in lost])
    unexplained = _unexplained(site, soak)
    with capsys.disabled():
        if option("--soak"):
            faults = Counter(fault.kind for fault in soak.faults)
            print(
                f"\nsoak: seed {seed}, {len(submitter.acknowledged)} jobs, {occurrences} occurrences, {dict(faults)}, {dict(ended)}"
            )
            print(
                f"lost 0, given up after three losses {len(lost)}, repeated {tally.repeats}, unexplained {len(unexplained)}"
            )
    assert not unexplained, f"{len(unexplained)} runs that no fault explains, such as {unexplained[:3]}"
    assert set(ended) <= {("completed", None), ("failed", "lost")}
    assert len(submitter.acknowledged) > 10 * seconds


def _unexplained(site: Site, soak: Soak) -> list[Effect]:
    """Runs that were followed by another one of the same job although nothing had happened to their process."""
    failed = {format_id(id_) for (id_,) in site.rows("select id from job where failures > 0")}
    last = {effect.job: effect.attempt for effect in sorted(site.effects(), key=lambda effect: effect.attempt)}
    earlier = [effect for effect in site.effects() if effect.attempt < last[effect.job]]
    flaky = Counter(effect.job for effect in earlier if effect.job in failed and not soak.explains(effect))
    return [e for e in earlier if not soak.explains(e) and flaky[e.job] != 1]
