"""Hypothesis drives the real store and the oracle side by side: I1-I9, I12, I15.

After every step the whole state is compared and the tables are checked. `HYPOTHESIS_PROFILE=deep` looks for long.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import json, structs

from contract.backends import Fresh
from contract.scene import FAILURE, START, JumpingClock, Scene, make_batch, make_schedule
from mainspring.core.lane import Lane
from mainspring.core.lifecycle import LIVE, State, may
from mainspring.core.timer import SECOND
from mainspring.settle.settler import verdict
from mainspring.store.contract import Change, Pick, Ready
from mainspring.wire import Outcome, OutcomeType
from model.oracle import Job, Oracle

T = TypeVar("T")

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
SCHEDULES = ["default/s", "default/t"]
LANES = [Lane("default", "a", "work"), Lane("default", "b", "work")]

some = st.integers(0, 10_000)
delays = st.sampled_from([None, 0, 1, 30])
outcomes = st.sampled_from(list(OutcomeType))


class StoreAgainstOracle(RuleBasedStateMachine):
    def __init__(self, fresh: Fresh) -> None:
        super().__init__()
        self.database = fresh()
        self.backend = self.database.__enter__()
        self.runner = asyncio.Runner()
        self.clock = JumpingClock(START)
        self.oracle = Oracle(START)
        self.seen: list[Ready] = []
        self.states: dict[bytes, str] = {}
        self.outcomes: Counter[tuple[bytes, int]] = Counter()
        self.starts: dict[bytes, int] = {}
        self.fired: Counter[tuple[str, int]] = Counter()

    def run(self, verb: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(verb)

    @initialize()
    def open(self) -> None:
        self.store = self.run(self.backend.open(self.clock))
        self.scene = Scene(self.backend, self.store, self.clock)
        self.open_sessions = [self._new_session(), self._new_session()]
        self.all_sessions = list(self.open_sessions)
        for name in SCHEDULES:
            self.put_schedule(name, 0)
        self.submit(3)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.close())
        self.runner.close()
        self.database.__exit__(None, None, None)

    def _new_session(self) -> bytes:
        session = self.run(self.scene.session())
        self.oracle.sessions[session] = True
        return session

    def _any_job(self, which: int) -> Job | None:
        jobs = list(self.oracle.jobs.values())
        return jobs[which % len(jobs)] if jobs else None

    # jobs

    @rule(
        count=st.integers(1, 3),
        delay=delays,
        start_by=st.sampled_from([None, None, 5, 60]),
        priority=st.sampled_from([1, 5, 10]),
        retries=st.integers(0, 2),
        deadline=st.sampled_from([None, None, 100]),
    )
    def submit(self, count: int, **options: Any) -> None:
        batch, lane = make_batch(self.clock.now(), arguments=[b"{}"] * count, **options)
        (answer,) = self.run(self.store.insert_jobs([batch], [lane]))
        assert answer == self.oracle.insert(batch)

    @rule(name=st.sampled_from("ab"), argument=st.sampled_from([b"1", b"2"]), delay=delays, unique=st.booleans())
    def submit_with_key(self, name: str, argument: bytes, delay: int | None, unique: bool) -> None:
        claim: dict[str, Any] = {"unique": 40} if unique else {"key": name}
        batch, lane = make_batch(self.clock.now(), arguments=[argument], delay=delay, **claim)
        (answer,) = self.run(self.store.insert_jobs([batch], [lane]))
        assert answer == self.oracle.insert(batch)

    @precondition(lambda self: self.oracle.jobs)
    @rule(which=some)
    def cancel(self, which: int) -> None:
        job = self._any_job(which)
        assert job is not None
        assert self.run(self.store.cancel_jobs([job.id])) == [self.oracle.cancel(job.id)]

    @precondition(lambda self: self.oracle.jobs)
    @rule(which=some)
    def retry(self, which: int) -> None:
        ended = [job for job in self.oracle.jobs.values() if job.finished_at is not None]
        job = ended[which % len(ended)] if ended and which % 4 else self._any_job(which)
        assert job is not None
        self._change(Change(job.id, replay=True))

    @precondition(lambda self: self.oracle.jobs)
    @rule(
        which=some,
        replay=st.sampled_from([False, False, True]),
        old=st.sampled_from([None, None, 0, 1]),
        priority=st.none() | st.integers(1, 10),
        delay=delays,
        argument=st.sampled_from([None, b"3", b"4"]),
        lane=st.sampled_from([None, *LANES]),
        start_by=st.sampled_from([None, 5, 60, "never"]),
    )
    def change(
        self,
        which: int,
        replay: bool,
        old: int | None,
        priority: int | None,
        delay: int | None,
        argument: bytes | None,
        lane: Lane | None,
        start_by: int | str | None,
    ) -> None:
        job = self._any_job(which)
        assert job is not None
        attempt = None if old is None else job.attempt - old
        due_at = None if delay is None else self.clock.now() + delay * SECOND
        options = None if start_by is None else self._options(job, start_by)
        self._change(Change(job.id, replay, attempt, argument, due_at, priority, None, options, lane))

    def _options(self, job: Job, start_by: int | str) -> bytes:
        """The job's own, with another time by which it must have started."""
        at = self.clock.now() + start_by * SECOND if isinstance(start_by, int) else None
        return json.encode(structs.replace(self.run(self.scene.record(job.id)).options, start_by=at))

    def _change(self, change: Change) -> None:
        assert self.run(self.store.change_jobs([change])) == [self.oracle.change(change)]

    # time

    @rule(by_s=st.sampled_from([0.000001, 1, 10, 60, 90_000]))
    def advance(self, by_s: float) -> None:
        self.clock.advance(by_s)
        self.oracle.now = self.clock.now()

    @rule()
    def ripen(self) -> None:
        self.run(self.store.ripen_timers(self.scene.everywhere, 10_000))
        self.oracle.ripen()

    @rule(older_than_s=st.sampled_from([0, 20, 100_000]))
    def prune(self, older_than_s: int) -> None:
        before = self.clock.now() - older_than_s * SECOND
        assert self.run(self.scene.prune(older_than_s)) == self.oracle.prune(before)

    # attempts

    @rule()
    def look(self) -> None:
        """Read the order, as a dispatcher does; what it read may be old when it is used."""
        ready = self.run(self.scene.ready())
        expected = [Ready(job.rank, job.id, job.attempt, job.lane) for job in self.oracle.ready()]
        assert ready == expected
        self.seen = (self.seen + ready)[-30:]

    @precondition(lambda self: self.seen)
    @rule(which=st.lists(some, min_size=1, max_size=5), seat=st.integers(0, 1), ended=st.booleans())
    def assign(self, which: list[int], seat: int, ended: bool) -> None:
        """Any of what was read at some time, in any order, to an open session or to any."""
        picked = list(dict.fromkeys(self.seen[n % len(self.seen)] for n in which))
        session = self.all_sessions[which[0] % len(self.all_sessions)] if ended else self.open_sessions[seat]
        (answer,) = self.run(self.store.assign_jobs([Pick(session, picked)]))
        won = [entry for entry in picked if self.oracle.assign(session, entry)]
        assert answer.won == won
        assert answer.lost == [entry for entry in picked if entry not in won]
        for entry in won:
            self._note_start(entry.job)

    @precondition(lambda self: any(job.state == State.PENDING for job in self.oracle.jobs.values()))
    @rule(seat=st.integers(0, 1), most=st.integers(1, 6), outcome=st.none() | outcomes, stay=st.booleans())
    def work(self, seat: int, most: int, outcome: OutcomeType | None, stay: bool) -> None:
        """The usual round: ripen, read, assign at once, and perhaps report."""
        self.ripen()
        self.look()
        entries = [Ready(job.rank, job.id, job.attempt, job.lane) for job in self.oracle.ready()[:most]]
        if not entries:
            return
        session = self.open_sessions[seat]
        (answer,) = self.run(self.store.assign_jobs([Pick(session, entries)]))
        assert answer.won == entries
        for entry in entries:
            assert self.oracle.assign(session, entry)
            self._note_start(entry.job)
        self.state_is_the_oracles()
        if outcome is not None:
            self._report(session, self.oracle.jobs[entries[0].job], entries[0].attempt + 1, outcome, stay)

    @precondition(lambda self: any(job.state in LIVE for job in self.oracle.jobs.values()))
    @rule(seat=st.integers(0, 1))
    def crash(self, seat: int) -> None:
        """A worker dies, and its jobs are rescued at once."""
        self.lose_worker(seat)
        self.rescue()

    def _note_start(self, job: bytes) -> None:
        assert self.oracle.jobs[job].due_at <= self.clock.now(), "I8"
        self.starts[job] = self.starts.get(job, 0) + 1
        assert self.oracle.jobs[job].attempt == self.starts[job], "I4: attempt numbers rise by one"

    @precondition(lambda self: any(job.state in LIVE for job in self.oracle.jobs.values()))
    @rule(which=some, outcome=outcomes, old=st.sampled_from([0, 0, 0, 0, 1, -1]), stranger=some, stay=st.booleans())
    def settle(self, which: int, outcome: OutcomeType, old: int, stranger: int, stay: bool) -> None:
        """The outcome of a live attempt; sometimes with another attempt's number, sometimes from a stranger."""
        live = [job for job in self.oracle.jobs.values() if job.state in LIVE]
        job = live[which % len(live)]
        session = self.all_sessions[stranger % len(self.all_sessions)] if stranger % 5 == 0 else job.session
        assert session is not None
        self._report(session, job, job.attempt - old, outcome, stay)

    @precondition(lambda self: self.oracle.jobs)
    @rule(which=some, who=some, outcome=outcomes, attempt=st.integers(0, 4))
    def settle_late(self, which: int, who: int, outcome: OutcomeType, attempt: int) -> None:
        """Any outcome for any job from any session that ever was."""
        job = self._any_job(which)
        assert job is not None
        self._report(self.all_sessions[who % len(self.all_sessions)], job, attempt, outcome, True)

    def _report(self, session: bytes, job: Job, attempt: int, type_: OutcomeType, retry: bool) -> None:
        outcome = Outcome(
            job.id,
            attempt,
            type_,
            result=b"1" if type_ is OutcomeType.COMPLETED else None,
            failure=FAILURE if type_ is OutcomeType.FAILED else None,
            retry=retry,
            until=self.clock.now() + 5 * SECOND if type_ is OutcomeType.SNOOZED else None,
        )
        (record,) = self.run(self.store.read_jobs([job.id]))
        settlement = verdict(outcome, record, self.clock.now(), 0.5)
        repeated = [settlement, structs.replace(settlement)]
        accepted = self.run(self.store.settle_attempts(session, repeated))
        expected = [self.oracle.settle(session, settled) for settled in repeated]
        assert accepted == expected
        self.outcomes[job.id, attempt] += sum(accepted)
        assert self.outcomes[job.id, attempt] <= 1, "I6"

    @precondition(lambda self: self.oracle.jobs)
    @rule(which=some, old=st.sampled_from([0, 0, 1]))
    def mark_running(self, which: int, old: int) -> None:
        job = self._any_job(which)
        assert job is not None
        self.run(self.store.mark_running([(job.id, job.attempt - old)]))
        self.oracle.mark_running(job.id, job.attempt - old)

    @rule(seat=st.integers(0, 1))
    def lose_worker(self, seat: int) -> None:
        """A worker dies; another takes its place."""
        session = self.open_sessions[seat]
        self.run(self.store.end_sessions([session]))
        self.oracle.sessions[session] = False
        self.open_sessions[seat] = self._new_session()
        self.all_sessions.append(self.open_sessions[seat])

    @rule()
    def rescue(self) -> None:
        assert self.run(self.store.rescue_attempts(10_000)) == self.oracle.rescue()

    # schedules

    @rule(name=st.sampled_from(SCHEDULES), stale=st.sampled_from([0, 0, 0, 1]))
    def put_schedule(self, name: str, stale: int) -> None:
        stored = self.oracle.schedules.get(name)
        version = max(0, (stored.version if stored else 0) - stale)
        record = make_schedule(name.partition("/")[2], version=version, watermark_at=self.clock.now())
        record = structs.replace(record, runs=stored.runs if stored else 0)
        assert self.run(self.store.put_schedules([record])) == [self.oracle.put_schedule(name, version)]

    @precondition(lambda self: self.oracle.schedules)
    @rule(
        name=st.sampled_from(SCHEDULES),
        stale=st.sampled_from([0, 0, 0, 1]),
        minutes=st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
        mode=st.sampled_from(["allow", "serial", "cancel"]),
    )
    def fire(self, name: str, stale: int, minutes: list[int], mode: str) -> None:
        if name not in self.oracle.schedules:
            return
        record = self.run(self.scene.schedule(name.partition("/")[2]))
        occurrences = [START + minute * 60 * SECOND for minute in sorted(minutes)]
        step = self.scene.firing(record, occurrences, serial=mode == "serial", cancel_active=mode == "cancel")
        step = structs.replace(step, version=record.version - stale)
        won = self.oracle.may_fire(name, step.version)
        assert self.run(self.store.fire_schedules([step])) == [won]
        if not won:
            return
        schedule = self.oracle.schedules[name]
        schedule.version, schedule.watermark_at, schedule.runs = schedule.version + 1, step.watermark_at, step.runs
        if mode == "cancel":
            for job in [job for job, owner in self.oracle.active.items() if owner == name]:
                self.oracle.cancel(job, "overlap")
        for batch, at in zip(step.jobs, occurrences, strict=True):
            if (name, at) in self.oracle.occurrences:
                continue
            (id_,) = batch.ids
            self.oracle.occurrences[name, at] = id_
            parents = self.oracle.chain_ends(name) if mode == "serial" else set()
            assert set(self.run(self.store.list_parents(id_, 100))) == parents, "I17: it waits for those before it"
            self.oracle.insert(batch, parents)
            self.oracle.active[id_] = name

    # after every step

    @invariant()
    def state_is_the_oracles(self) -> None:
        if not hasattr(self, "store"):
            return
        ids = {row[0] for row in self.scene.rows("select id from job")}
        assert ids == set(self.oracle.jobs), "I1"
        records = self.run(self.store.read_jobs(list(ids)))
        ripe = {row[0] for row in self.scene.rows("select job from ready")}
        results = dict(self.scene.rows("select job, data from result"))
        for record in records:
            assert record is not None
            job = self.oracle.jobs[record.id]
            assert (record.state, record.attempt, record.priority) == (job.state, job.attempt, job.priority)
            assert (record.queue, record.lane, record.arguments) == (job.queue, job.lane, job.arguments)
            assert record.options.start_by == job.start_by
            assert (record.failures, record.losses) == (job.failures, job.losses)
            assert (record.finished_at, record.reason) == (job.finished_at, job.reason)
            assert (record.id in ripe) == job.ripe, "I8"
            assert results.get(record.id) == job.result
            if record.state == State.PENDING:
                assert (record.due_at, record.rank) == (job.due_at, job.rank)
            if record.state in LIVE:
                assert record.cancelling == job.cancelling, "I12"
            assert record.failures <= job.retries + 1, "I7"
            self._check_edge(record.id, record.state)
        self.states = {record.id: record.state for record in records if record is not None}

    def _check_edge(self, job: bytes, state: str) -> None:
        before = self.states.get(job, state)
        assert before == state or may(State(before), State(state)), f"I5: {before} -> {state}"

    @invariant()
    def names_are_the_oracles(self) -> None:
        if not hasattr(self, "store"):
            return
        assert dict(self.scene.rows("select key, job from claim")) == {k: c[0] for k, c in self.oracle.claims.items()}
        occurrences = self.scene.rows("select schedule, occurrence_at, job from occurrence")
        assert {(s, at): job for s, at, job in occurrences} == self.oracle.occurrences, "I9"
        assert dict(self.scene.rows("select job, schedule from active")) == self.oracle.active
        for record in self.run(self.store.list_schedules()):
            expected = self.oracle.schedules[record.id]
            assert (record.version, record.watermark_at) == (expected.version, expected.watermark_at), "I9"
            of_schedule = [self.oracle.jobs[job] for job, owner in self.oracle.active.items() if owner == record.id]
            assert record.active == sum(job.attempt > 0 for job in of_schedule), "I15"
            assert record.queued == sum(job.attempt == 0 for job in of_schedule), "I15"

    @invariant()
    def the_tables_are_sound(self) -> None:
        if not hasattr(self, "store"):
            return
        self.scene.check()
        counted = Counter((job.queue, job.state) for job in self.oracle.jobs.values())
        assert self.run(self.store.count_jobs()) == dict(counted), "I15"


SETTINGS = settings(
    stateful_step_count=80 if DEEP else 40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Making a failure small takes minutes; the deep profile does it, from the same database of examples.
    phases=list(Phase) if DEEP else [Phase.explicit, Phase.reuse, Phase.generate],
)


@pytest.mark.parametrize(("fresh", "examples"), [("sqlite", 60), ("postgres", 25)], indirect=["fresh"])
def test_any_sequence_of_verbs_has_the_answers_and_the_state_of_the_oracle(fresh: Fresh, examples: int) -> None:
    budget = settings(SETTINGS, max_examples=2000 if DEEP else examples)
    run_state_machine_as_test(lambda: StoreAgainstOracle(fresh), settings=budget)  # type: ignore[arg-type]
