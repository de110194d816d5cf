"""Faults at random: who works, what happens to them, and which repeated runs that explains."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from faults.checks import check_effects, check_tables
from faults.effects import Effect
from faults.harness import Child, Site, until
from mainspring.core.partition import format_id

LEASE_S = 1.0
_NEAR_S = 5.0  # a run that began so long before or after a fault of its process may have been cut off by it


class Fault(NamedTuple):
    """What was done to a process, and from when to when it felt it; `pid` 0: to the database or the network, which explains no
    repeated run."""

    kind: str
    pid: int
    began_s: float
    ended_s: float


class Submitter(threading.Thread):
    """Submits in the background and remembers what was acknowledged; faults may make it wait, never fail."""

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
        except Exception as error:
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


Start = Callable[[], Child]


class Soak:
    """Processes, and what happens to them. `shared`: faults that strike all of them at once, by name."""

    def __init__(
        self, site: Site, seed: int, starts: Sequence[Start], shared: dict[str, Callable[[float], object]]
    ) -> None:
        self._site = site
        self._random = random.Random(seed)
        self._starts = starts
        self._shared = shared
        self._children = [start() for start in starts]
        self.faults: list[Fault] = []

    def suffer(self, seconds: float, progress: Callable[[str], None]) -> None:
        began_s, told_s = time.monotonic(), 0.0
        kinds = ["kill", "kill", "freeze", "freeze", "stop", *self._shared]
        while (passed_s := time.monotonic() - began_s) < seconds:
            if passed_s - told_s >= 10:
                told_s = passed_s
                progress(f"{passed_s:.0f} of {seconds:.0f} s, {len(self.faults)} faults")
            time.sleep(self._random.uniform(0.1, 1.0))
            kind, length_s = self._random.choice(kinds), self._random.uniform(0.1, 3.0) * LEASE_S
            place = self._random.randrange(len(self._children))
            if kind in self._shared:
                self._strike_all(kind, length_s)
            else:
                getattr(self, f"_{kind}")(place, length_s)

    def heal(self) -> None:
        assert all(child.alive for child in self._children), "a process ended by itself"

    def explains(self, run: Effect) -> bool:
        return any(
            fault.pid == run.pid and fault.began_s - _NEAR_S <= run.at_s <= fault.ended_s + _NEAR_S
            for fault in self.faults
        )

    def _strike_all(self, kind: str, seconds: float) -> None:
        began_s = time.monotonic()
        self._shared[kind](seconds)
        self.faults.append(Fault(kind, 0, began_s, time.monotonic()))

    def _replace(self, place: int) -> None:
        self._children[place].close()
        self._children[place] = self._starts[place]()

    def _kill(self, place: int, _seconds: float) -> None:
        child, began_s = self._children[place], time.monotonic()
        child.kill()
        self.faults.append(Fault("kill", child.pid, began_s, time.monotonic()))
        self._replace(place)

    def _freeze(self, place: int, seconds: float) -> None:
        """Not within a commit, where everybody would wait for it."""
        child, began_s = self._children[place], time.monotonic()
        self._site.freeze(child)
        time.sleep(seconds)
        child.signal(signal.SIGCONT)
        self.faults.append(Fault("freeze", child.pid, began_s, time.monotonic()))

    def _stop(self, place: int, _seconds: float) -> None:
        child, began_s = self._children[place], time.monotonic()
        child.signal(signal.SIGTERM)
        assert child.wait(30) == 0, child.errors()
        self.faults.append(Fault("stop", child.pid, began_s, time.monotonic()))
        self._replace(place)


class Found(Struct):
    """What is left when everything has been healed and drained."""

    ended: dict[tuple[str, str | None], int]
    given_up: int  # after three losses
    repeats: int
    unexplained: list[Effect]


def drain_and_check(site: Site, soak: Soak, acknowledged: list[str]) -> Found:
    """Lost is 0 and the tables agree, or it raises."""
    site.drained(120)
    until(lambda: site.value("select count(*) from live") == 0, "nothing is live")
    ended = Counter((state, reason) for state, reason in site.rows("select state, reason from job"))
    lost = {format_id(row[0]) for row in site.rows("select id from job where state = 'failed' and reason = 'lost'")}
    check_tables(site)
    tally = check_effects(site, [id_ for id_ in acknowledged if id_ not in lost])
    return Found(dict(ended), len(lost), tally.repeats, _unexplained(site, soak))


def _unexplained(site: Site, soak: Soak) -> list[Effect]:
    """Runs that were followed by another one of the same job although nothing had happened to their process."""
    failed = {format_id(id_) for (id_,) in site.rows("select id from job where failures > 0")}
    effects = site.effects()
    last = {effect.job: effect.attempt for effect in sorted(effects, key=lambda effect: effect.attempt)}
    earlier = [effect for effect in effects if effect.attempt < last[effect.job]]
    flaky = Counter(effect.job for effect in earlier if effect.job in failed and not soak.explains(effect))
    return [e for e in earlier if not soak.explains(e) and flaky[e.job] != 1]
