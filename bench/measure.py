"""How each figure is measured: once, in the same way for every system.

A phase begins with an empty system in a new folder and ends with everything stopped. Times come from the stamps that
the jobs themselves write (`effects`), so the start-up of workers is in no figure. Each phase is bounded; a bound that
was hit is told in the notes.
"""

import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers.effects import Effects, payload, payloads
from bench.peers.protocol import Figures, Peer, Timer

Say = Callable[[str], None]

_CHUNK_ONE = 50
_CHUNK_BULK = 10_000
_WARM_JOBS = 20
_SETTLE_S = 2.0
_POLL_S = 0.05
_FINE_POLL_S = 0.005
_SAY_EVERY_S = 5.0
_NS = 1_000_000_000
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, and how long each part may take."""

    seed: int
    share: float = 1.0  # of each system's own numbers of jobs
    idle_jobs: int = 200
    idle_gap_s: tuple[float, float] = (0.020, 0.060)
    timers: int = 2_000
    timer_span_s: float = 10.0
    lost_jobs: int = 1_000
    nap_ms: int = 10
    quiet_s: float = math.inf  # no longer than this, whatever a system asks for
    submit_bound_s: float = 30.0
    start_bound_s: float = 30.0
    drain_bound_s: float = 120.0
    timer_lead_bound_s: float = 60.0
    timer_late_bound_s: float = 30.0
    lost_bound_s: float = 240.0
    trickle_s: float = 0.05

    def scaled(self, jobs: int) -> int:
        """A system's number of jobs, cut down for a short run."""
        return max(1, round(jobs * self.share))


def quick(seed: int) -> Plan:
    """A plan that only shows that everything works."""
    return Plan(seed, share=0.1, idle_jobs=30, timers=200, timer_span_s=3.0, lost_jobs=200, quiet_s=5.0)


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@dataclass(slots=True)
class Run:
    """The measuring of one system."""

    peer: Peer
    plan: Plan
    say: Say
    workdir: Path
    figures: Figures = field(init=False)

    def __post_init__(self) -> None:
        self.figures = Figures(self.peer.name, self.peer.settings)

    def all(self) -> Figures:
        """Every phase, one after the other; a phase that fails leaves its figures empty and a note."""
        for phase in (self.submit_one, self.bulk_and_drain, self.idle_and_timers, self.lost):
            try:
                phase()
            except Exception as error:  # any failure of a foreign system is a finding, not an end of the run
                self.note(f"{phase.__name__} failed: {type(error).__name__}: {error}")
        return self.figures

    def note(self, text: str) -> None:
        """Keep a remark for the reader and show it at once."""
        self.figures.notes.append(text)
        self.say(f"note: {text}")

    @contextmanager
    def session(self, jobs: int) -> Iterator[Effects]:
        """An empty system with room for the stamps of `jobs`, torn down in any case."""
        with tempfile.TemporaryDirectory(prefix="bench-", dir=self.workdir, ignore_cleanup_errors=True) as name:
            folder = Path(name)
            effects = Effects(folder / "stamps", jobs)
            try:
                self.peer.setup(folder, effects.path)
                yield effects
            except Exception as error:
                raise RuntimeError(f"{error}; workers said: {self.peer.log_tail() or 'nothing'}") from error
            finally:
                self.peer.teardown()
                effects.close()

    # --- submitting -----------------------------------------------------------------------------------------------

    def submit_one(self) -> None:
        """Submit one by one, with no worker running: jobs per second of the submitter."""
        jobs = payloads(_WARM_JOBS, self.plan.scaled(self.peer.submit_jobs))
        self.say(f"submit {len(jobs)} one by one")
        with self.session(_WARM_JOBS + len(jobs)):
            self.peer.submit(payloads(0, _WARM_JOBS))  # opens connections, fills caches
            sent, took_s = self.timed_submit(self.peer.submit, jobs, _CHUNK_ONE)
        self.figures.submit_one_per_s = sent / took_s

    def timed_submit(
        self, submit: Callable[[Sequence[str]], None], jobs: Sequence[str], chunk: int
    ) -> tuple[int, float]:
        """Submit in chunks until done or out of time; returns how many and how long."""
        sent = 0
        began = time.perf_counter()
        while sent < len(jobs):
            part = jobs[sent : sent + chunk]
            submit(part)
            sent += len(part)
            if time.perf_counter() - began > self.plan.submit_bound_s and sent < len(jobs):
                self.note(f"submitting stopped at the bound of {self.plan.submit_bound_s:g} s: {sent} of {len(jobs)}")
                break
        return sent, time.perf_counter() - began

    # --- draining -------------------------------------------------------------------------------------------------

    def bulk_and_drain(self) -> None:
        """Submit in bulk with no worker running, then start workers and time from the first job's end to the last's."""
        jobs = payloads(0, self.plan.scaled(self.peer.drain_jobs))
        self.say(f"submit {len(jobs)} in bulk")
        with self.session(len(jobs)) as effects:
            sent, took_s = self.timed_submit(self.peer.submit_bulk, jobs, _CHUNK_BULK)
            self.figures.submit_bulk_per_s = sent / took_s
            self.say(f"drain {sent}")
            self.peer.start_workers()
            self.await_ended(effects, range(sent), self.plan.start_bound_s + self.plan.drain_bound_s, "drain")
            self.figures.drain_per_s = self.drain_rate(effects, range(sent))

    def drain_rate(self, effects: Effects, jobs: range) -> float | None:
        """Jobs per second between the first and the last end."""
        ends = [end for end in map(effects.ended_at, jobs) if end]
        if len(ends) < 2:
            self.note(f"drain: only {len(ends)} jobs ran; workers said: {self.peer.log_tail() or 'nothing'}")
            return None
        span_s = (max(ends) - min(ends)) / _NS
        return (len(ends) - 1) / span_s if span_s else None

    def await_ended(self, effects: Effects, jobs: range, bound_s: float, what: str) -> bool:
        """Wait until all `jobs` ran to their end, or note that the bound was hit.

        The scan goes on from the first job not yet seen to have ended, so waiting costs next to nothing.
        """
        deadline = time.monotonic() + bound_s
        say_at = time.monotonic() + _SAY_EVERY_S
        place = 0
        while True:
            while place < len(jobs) and effects.ended_at(jobs[place]):
                place += 1
            if place == len(jobs):
                return True
            now = time.monotonic()
            if now > deadline:
                self.note(f"{what}: bound of {bound_s:g} s hit, {effects.ended(jobs)} of {len(jobs)} had run")
                return False
            if now > say_at:
                self.say(f"{what}: {effects.ended(jobs)} of {len(jobs)}")
                say_at = now + _SAY_EVERY_S
            time.sleep(_POLL_S)

    # --- latency --------------------------------------------------------------------------------------------------

    def idle_and_timers(self) -> None:
        """With workers up and idle: the start latency of single jobs, then the lateness of timers."""
        warm = range(_WARM_JOBS)
        idle = range(warm.stop, warm.stop + self.plan.idle_jobs)
        timers = range(idle.stop, idle.stop + self.plan.timers)
        with self.session(timers.stop) as effects:
            self.peer.start_workers()
            self.peer.submit(payloads(warm.start, len(warm)))
            if not self.await_ended(effects, warm, self.plan.start_bound_s, "workers' start"):
                raise RuntimeError("the workers did not start")
            time.sleep(_SETTLE_S)
            self.idle(effects, idle)
            self.timers(effects, timers)

    def idle(self, effects: Effects, jobs: range) -> None:
        """From just before the call that submits to the first line of the job function."""
        self.say(f"start latency of {len(jobs)} single jobs")
        gaps = random.Random(self.plan.seed)
        called: list[int] = []
        for index in jobs:
            argument = [payload(index)]
            called.append(time.time_ns())
            self.peer.submit(argument)
            time.sleep(gaps.uniform(*self.plan.idle_gap_s))
        self.await_ended(effects, jobs, self.plan.start_bound_s, "idle latency")
        waits = [
            (effects.started_at(index) - at) / _NS_PER_MS
            for index, at in zip(jobs, called, strict=True)
            if effects.started_at(index)
        ]
        if waits:
            self.figures.idle_p50_ms = percentile(waits, 50)
            self.figures.idle_p99_ms = percentile(waits, 99)

    def timer_lead_s(self, count: int) -> float:
        """How long before the first due time the timers are submitted, so that all are in before one is due."""
        rate = self.figures.submit_one_per_s or 100.0
        return min(2.0 + 2.5 * count / rate, self.plan.timer_lead_bound_s)

    def timers(self, effects: Effects, jobs: range) -> None:
        """How late after its due time each timer's job function begins."""
        self.say(f"{len(jobs)} timers over {self.plan.timer_span_s:g} s")
        due = self.due_times(len(jobs))
        timers = [Timer(due_ms, payload(index)) for due_ms, index in zip(due, jobs, strict=True)]
        self.peer.submit_at(timers)
        over_ms = time.time_ns() // _NS_PER_MS - min(due)
        if over_ms > 0:
            self.note(
                f"timers: the last was submitted {over_ms} ms after the first was due, so lateness has that in it"
            )
        left_s = max(0.0, max(due) / 1000 - time.time())
        self.await_ended(effects, jobs, left_s + self.plan.timer_late_bound_s, "timers")
        late = [
            effects.started_at(index) / _NS_PER_MS - due_ms
            for due_ms, index in zip(due, jobs, strict=True)
            if effects.started_at(index)
        ]
        if late:
            self.figures.timer_p50_ms = percentile(late, 50)
            self.figures.timer_p99_ms = percentile(late, 99)
            self.figures.timer_max_ms = max(late)
            self.figures.timers_early = sum(1 for value in late if value < 0)

    def due_times(self, count: int) -> list[int]:
        """Due times at random over the span, in no order, the same for every system but for the base."""
        base_ms = time.time_ns() // _NS_PER_MS + round(self.timer_lead_s(count) * 1000)
        spread = random.Random(self.plan.seed + 1)
        span_ms = round(self.plan.timer_span_s * 1000)
        return [base_ms + spread.randrange(span_ms) for _ in range(count)]

    # --- loss -----------------------------------------------------------------------------------------------------

    def lost(self) -> None:
        """SIGKILL all workers when half the jobs have run, start new ones, count what never ran to its end."""
        jobs = range(self.plan.lost_jobs)
        trickle = range(jobs.stop, jobs.stop + round(self.plan.lost_bound_s / self.plan.trickle_s))
        self.say(f"kill the workers in the middle of {len(jobs)} jobs of {self.plan.nap_ms} ms")
        with self.session(trickle.stop) as effects:
            self.peer.submit_bulk(payloads(0, len(jobs), self.plan.nap_ms))
            self.peer.start_workers()
            self.await_half(effects, jobs)
            time.sleep(random.Random(self.plan.seed).uniform(0, self.plan.nap_ms / 1000))  # not in step with the jobs
            self.peer.kill_workers()
            at_kill = effects.ended(jobs)
            if at_kill == len(jobs):
                self.note("lost: all jobs had run before the kill, so this says nothing")
            self.peer.start_workers()
            self.await_recovery(effects, jobs, trickle)
            self.count_lost(effects, jobs, at_kill)

    def await_half(self, effects: Effects, jobs: range) -> None:
        """Wait until half of the jobs ran to their end."""
        deadline = time.monotonic() + self.plan.start_bound_s + len(jobs) * self.plan.nap_ms / 1000
        while effects.ended(jobs) < len(jobs) // 2:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {effects.ended(jobs)} of {len(jobs)} jobs ran")
            time.sleep(_FINE_POLL_S)

    def await_recovery(self, effects: Effects, jobs: range, trickle: range) -> None:
        """Wait until every job ran, or until no more did for as long as the system's quiet time.

        A trickle of other jobs goes on meanwhile, as in a live system: some systems look for the work of the dead only
        in passing, when they do something else.
        """
        began = changed = said = time.monotonic()
        done = effects.ended(jobs)
        quiet_s = min(self.peer.quiet_s, self.plan.quiet_s)
        for index in trickle:
            now = time.monotonic()
            count = effects.ended(jobs)
            if count > done:
                done, changed = count, now
            if done == len(jobs):
                self.figures.recovered_s = now - began
                return
            if now - changed > quiet_s:
                self.note(f"lost: counted when nothing more had run for {quiet_s:g} s")
                return
            if now - said > _SAY_EVERY_S:
                self.say(f"recovery: {done} of {len(jobs)}")
                said = now
            self.peer.submit([payload(index)])
            time.sleep(self.plan.trickle_s)
        self.note(f"lost: bound of {self.plan.lost_bound_s:g} s hit")

    def count_lost(self, effects: Effects, jobs: range, at_kill: int) -> None:
        """What never ran to its end, split by whether it had begun, and what ran to its end more than once."""
        lost = [index for index in jobs if not effects.ended_at(index)]
        begun = sum(1 for index in lost if effects.started_at(index))
        self.figures.lost, self.figures.lost_of = len(lost), len(jobs)
        self.figures.ran_twice = sum(1 for index in jobs if effects.runs(index) > 1)
        self.note(f"lost: killed at {at_kill} of {len(jobs)}; of {len(lost)} missing, {begun} had begun")
