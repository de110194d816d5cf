"""What must hold in the tables after any sequence of verbs, checked by reading all of them.

Plain SELECTs and Python, so that every backend is held to the same sentences. The ids are those of the reliability document.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from contract.backends import Backend
from mainspring.core.lifecycle import ENDED, LIVE, MAX_LOSSES, State
from mainspring.core.partition import partition_of
from mainspring.store.contract import Store
from mainspring.store.rows import decode_options

Rows = Callable[[str], list[tuple[Any, ...]]]  # the answer to a plain SELECT

_JOB = "id, tenant, state, band, lane, rank, due_at, attempt, losses, cancelling, started_at, finished_at"


class Tables:
    """Every table that speaks of jobs, at one moment."""

    def __init__(self, rows: Rows, partitions: int) -> None:
        self.partitions = partitions
        columns = _JOB.split(", ")
        self.jobs = {row[0]: dict(zip(columns, row, strict=True)) for row in rows(f"select {_JOB} from job")}
        self.timer = rows("select job, partition, due_at, band, lane, rank, attempt from timer")
        self.ready = rows("select job, partition, band, lane, rank, attempt from ready")
        self.live = rows("select job, session, attempt from live")
        self.finished = rows("select job, tenant, state, finished_at from finished")
        self.held = rows("select job, name, key from held")
        self.active = rows("select job, schedule from active")
        self.cancel = rows("select job, session from cancel")
        self.progress = rows("select job, attempt from progress")
        self.edge = rows("select child, parent from edge")
        self.claim = rows("select job, tenant, key from claim")
        self.occurrence = rows("select job, schedule, occurrence_at from occurrence")
        self.expiry = rows("select job, start_by from expiry")
        self.spec = rows("select job, options from spec")
        self.result = rows("select job from result")
        self.failure = rows("select job, attempt from failure")
        self.session = {row[0] for row in rows("select id from session")}


def check_invariants(backend: Backend, store: Store) -> None:
    check_rows(lambda sql: backend.rows(store, sql), store.partitions)


def check_rows(rows: Rows, partitions: int) -> None:
    """Raises AssertionError with the invariant and the job that broke it."""
    tables = Tables(rows, partitions)
    _check_places(tables)
    _check_waiting(tables)
    _check_live(tables)
    _check_ended(tables)
    _check_references(tables)


def check_counters(counted: dict[tuple[str, str], int], backend: Backend, store: Store) -> None:
    """I15: what `count_jobs` answers is what a count by hand gives."""
    by_hand = Counter((queue, state) for queue, state in backend.rows(store, "select queue, state from job"))
    assert counted == dict(by_hand), f"I15: {counted} is not {dict(by_hand)}"


def _check_places(t: Tables) -> None:
    """I1, I5: each job is in exactly the one narrow table of its state."""
    where: dict[bytes, list[str]] = {job: [] for job in t.jobs}
    for name, rows in (("timer", t.timer), ("ready", t.ready), ("live", t.live), ("finished", t.finished)):
        for row in rows:
            assert row[0] in where, f"I1: {name} has a row of {row[0].hex()}, which is no job"
            where[row[0]].append(name)
    for job, places in where.items():
        state = State(t.jobs[job]["state"])
        if state in LIVE:
            expected = [["live"]]
        elif state in ENDED:
            expected = [["finished"]]
        elif state is State.PENDING:
            expected = [["timer"], ["ready"]]
        else:
            expected = [[]]
        assert places in expected, f"I3/I5: {state} job {job.hex()} is in {places}"


def _check_waiting(t: Tables) -> None:
    """A waiting job's row says where its place in the order is: without that it could not be found again."""
    for job, partition, due_at, band, lane, rank, attempt in t.timer:
        row = t.jobs[job]
        assert partition == partition_of(job, t.partitions)
        assert (due_at, band, lane, rank, attempt) == tuple(
            row[c] for c in ("due_at", "band", "lane", "rank", "attempt")
        )
    for job, partition, band, lane, rank, attempt in t.ready:
        row = t.jobs[job]
        assert partition == partition_of(job, t.partitions)
        assert (band, lane, rank, attempt) == tuple(row[c] for c in ("band", "lane", "rank", "attempt"))


def _check_live(t: Tables) -> None:
    """I3, I4: one live row per live job, with its attempt, in a session that exists."""
    for job, session, attempt in t.live:
        assert attempt == t.jobs[job]["attempt"], f"I4: live attempt {attempt} of {job.hex()} is not the job's"
        assert session in t.session, f"{job.hex()} is live in a session that is gone"
    live = {row[0] for row in t.live}
    for name, rows in (("held", t.held), ("cancel", t.cancel)):
        for row in rows:
            assert row[0] in live, f"I13: {name} has a row of {row[0].hex()}, which is not live"
    for job, attempt in t.progress:
        assert job in live, f"progress has a row of {job.hex()}, which is not live"
        assert attempt == t.jobs[job]["attempt"], f"I4: progress of {job.hex()} is of another attempt"
    assert len({row[0] for row in t.cancel}) == len(t.cancel)
    cancelling = {job for job in live if t.jobs[job]["cancelling"]}
    assert {row[0] for row in t.cancel} == cancelling, "I12: a requested stop is listed for its session"


def _check_ended(t: Tables) -> None:
    """I5, I7: an ended job says so once, and nothing waits for it or counts it any more."""
    for job, *said in t.finished:
        assert said == [t.jobs[job][column] for column in ("tenant", "state", "finished_at")]
    ended = {job for job, row in t.jobs.items() if row["state"] in ENDED}
    for name, jobs in (
        ("active", [job for job, _ in t.active]),
        ("edge parent", [parent for _, parent in t.edge]),
        ("edge child", [child for child, _ in t.edge]),
    ):
        for job in jobs:
            assert job not in ended, f"{name} has a row of {job.hex()}, which has ended"
    for job, row in t.jobs.items():
        assert (row["finished_at"] is not None) == (job in ended)
        assert row["losses"] <= MAX_LOSSES, f"I7: {job.hex()} was lost {row['losses']} times"
        assert (row["started_at"] is not None) == (row["attempt"] > 0)
        assert row["state"] != State.BLOCKED or any(child == job for child, _ in t.edge), "blocked by nothing"


def _check_references(t: Tables) -> None:
    """Nothing speaks of a job that is gone; I2, I9: names belong to one job each."""
    named = {"claim": t.claim, "occurrence": t.occurrence, "active": t.active, "result": t.result, "failure": t.failure}
    for name, rows in {**named, "expiry": t.expiry, "spec": t.spec, "edge": t.edge}.items():
        for row in rows:
            assert row[0] in t.jobs, f"{name} has a row of {row[0].hex()}, which is no job"
    assert len(t.spec) == len(t.jobs)
    start_by = {job: decode_options(options).start_by for job, options in t.spec}
    for job, at in t.expiry:
        assert at == start_by[job], f"{job.hex()} would expire at a time that is not its own"
    assert len({row[1:] for row in t.claim}) == len(t.claim), "I2: two jobs have one key"
    assert len({row[1:] for row in t.occurrence}) == len(t.occurrence), "I9: two jobs of one occurrence"
    assert {row[0] for row in t.result} <= {job for job, row in t.jobs.items() if row["state"] == State.COMPLETED}
    for job, attempt in t.failure:
        assert attempt <= t.jobs[job]["attempt"]
