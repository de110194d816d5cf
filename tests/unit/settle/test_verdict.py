"""What shall become of a job whose attempt ended like this: the whole table."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mainspring.core.job import JobRecord, Options
from mainspring.core.retry import Backoff
from mainspring.core.timer import SECOND
from mainspring.runtime.clock import ManualClock
from mainspring.runtime.gauges import Gauges
from mainspring.settle.settler import Settler, verdict
from mainspring.store.contract import Settlement
from mainspring.wire import Failure, Outcome, OutcomeType, Stored, Usage

NOW = 1_000 * SECOND
JOB = b"j" * 16
WHY = Failure("timeout", "TimeoutError", "late")


def record(failures: int = 0, retries: int = 2, backoff: Backoff | None = None) -> JobRecord:
    return JobRecord(
        id=JOB,
        tenant="t",
        queue="q",
        kind="k",
        state="assigned",
        priority=5,
        band=1,
        lane=1,
        rank=0,
        due_at=0,
        attempt=failures + 1,
        failures=failures,
        losses=0,
        cancelling=False,
        created_at=0,
        started_at=0,
        finished_at=None,
        reason=None,
        arguments=b"{}",
        options=Options(retries=retries, backoff=backoff or Backoff(10.0, 60.0)),
    )


def outcome(type_: OutcomeType, **fields: Any) -> Outcome:
    return Outcome(JOB, 1, type_, **fields)


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (outcome(OutcomeType.COMPLETED, result=b"1"), Settlement(JOB, 1, "completed", result=b"1")),
        (outcome(OutcomeType.COMPLETED), Settlement(JOB, 1, "completed")),
        (
            outcome(OutcomeType.COMPLETED, usage=Usage(cpu_s=1.5), outputs=(Stored("a", 1, "00"),), result_ttl_s=60.0),
            Settlement(
                JOB,
                1,
                "completed",
                usage=b'{"cpu_s":1.5}',
                outputs=b'[{"name":"a","size":1,"sha256":"00","media":"application/octet-stream"}]',
                expires_at=NOW + 60 * SECOND,
            ),
        ),
        (
            outcome(OutcomeType.RETURNED, usage=Usage(peak_mb=2)),
            Settlement(JOB, 1, "pending", usage=b'{"peak_mb":2}'),
        ),
        (outcome(OutcomeType.CANCELLED), Settlement(JOB, 1, "cancelled", reason="requested")),
        (outcome(OutcomeType.CANCELLED, reason="raised"), Settlement(JOB, 1, "cancelled", reason="raised")),
        (outcome(OutcomeType.SNOOZED, until=NOW + 5), Settlement(JOB, 1, "pending", due_at=NOW + 5)),
        (outcome(OutcomeType.RETURNED), Settlement(JOB, 1, "pending")),
    ],
)
def test_what_is_no_failure_counts_as_nothing(ended: Outcome, expected: Settlement) -> None:
    assert verdict(ended, None, NOW, 0.5) == expected
    assert expected.counts is None


FAILED = outcome(OutcomeType.FAILED, failure=WHY)


@pytest.mark.parametrize(
    ("ended", "job", "state", "due_at"),
    [
        (FAILED, record(0), "pending", NOW + 5 * SECOND),  # half of the first bound of 10 s
        (FAILED, record(1), "pending", NOW + 10 * SECOND),
        (FAILED, record(2), "failed", None),
        (FAILED, record(0, retries=0), "failed", None),
        (structs.replace(FAILED, retry=False), record(0), "failed", None),
        (structs.replace(FAILED, retry_after_s=7.0), record(1), "pending", NOW + 7 * SECOND),
        (structs.replace(FAILED, retry_after_s=0.0), record(0), "pending", NOW),
        (structs.replace(FAILED, retry_after_s=7.0), record(2), "failed", None),
        (FAILED, None, "failed", None),
    ],
)
def test_i7_a_failure_is_tried_again_while_retries_are_left(
    ended: Outcome, job: JobRecord | None, state: str, due_at: int | None
) -> None:
    settled = verdict(ended, job, NOW, 0.5)
    assert (settled.state, settled.due_at, settled.counts, settled.failure) == (state, due_at, "failure", WHY)
    assert settled.reason == ("timeout" if state == "failed" else None)


def test_a_failure_without_words_is_an_error() -> None:
    assert verdict(outcome(OutcomeType.FAILED), None, NOW, 0.5).reason == "error"


@given(retries=st.integers(0, 20), share=st.floats(0, 1))
def test_i7_a_job_that_always_fails_is_tried_once_more_than_its_retries(retries: int, share: float) -> None:
    failures = 0
    while verdict(FAILED, record(failures, retries), NOW, share).state == "pending":
        failures += 1
    assert failures + 1 == retries + 1


class Recording:
    """A store that accepts every outcome but one."""

    def __init__(self, refused: bytes) -> None:
        self.refused = refused
        self.reads: list[bytes] = []
        self.settled: list[Settlement] = []

    async def read_jobs(self, ids: list[bytes]) -> list[JobRecord | None]:
        self.reads += ids
        return [record() for _ in ids]

    async def settle_attempts(self, session: bytes, settlements: list[Settlement]) -> list[bool]:
        self.settled += settlements
        return [settlement.job != self.refused for settlement in settlements]


async def test_i6_a_report_is_one_call_and_answers_what_was_not_accepted() -> None:
    store, gauges = Recording(refused=b"late"), Gauges()
    settler = Settler(store, ManualClock(NOW), gauges)  # type: ignore[arg-type]
    outcomes = [
        Outcome(b"good", 1, OutcomeType.COMPLETED),
        Outcome(b"late", 1, OutcomeType.COMPLETED),
        Outcome(b"bad", 1, OutcomeType.FAILED),
    ]
    assert await settler.settle(b"s", outcomes) == [b"late"]
    assert store.reads == [b"bad"]  # nothing is read for what simply succeeded
    assert [settlement.state for settlement in store.settled] == ["completed", "completed", "pending"]
    assert (gauges.settled, gauges.rejected) == (2, 1)
