"""The order of ready jobs, and bands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.rank import BOOST, Band, band_of, rank_of
from mainspring.core.timer import HOUR, SECOND

NOW = 1_900_000_000 * SECOND
times = st.integers(0, NOW)
priorities = st.integers(1, 10)


@given(times, priorities, priorities)
def test_of_jobs_due_together_the_higher_priority_runs_first(due_at: int, a: int, b: int) -> None:
    assert (rank_of(due_at, a) < rank_of(due_at, b)) == (a > b)


@given(times, times, priorities)
def test_of_jobs_with_one_priority_the_older_runs_first(a: int, b: int, priority: int) -> None:
    assert (rank_of(a, priority) < rank_of(b, priority)) == (a < b)


@given(times, st.integers(1, 9), st.integers(1, 9))
def test_a_lower_job_overtakes_newer_ones_after_an_hour_per_step(due_at: int, low: int, steps: int) -> None:
    high = min(10, low + steps)
    waited = (high - low) * BOOST
    assert rank_of(due_at, low) == rank_of(due_at + waited, high)
    assert rank_of(due_at, low) < rank_of(due_at + waited + 1, high)


@given(times, priorities, times, st.integers(0, HOUR))
def test_a_deadline_never_makes_a_job_later(due_at: int, priority: int, deadline_at: int, expected: int) -> None:
    assert rank_of(due_at, priority, deadline_at, expected) <= rank_of(due_at, priority)


def test_a_deadline_counts_as_the_highest_priority_at_the_latest_safe_start() -> None:
    deadline, timeout = NOW + HOUR, 10 * 60 * SECOND
    assert rank_of(NOW, 1, deadline, timeout) == rank_of(deadline - timeout, 10)
    assert rank_of(NOW, 1, deadline, timeout) < rank_of(NOW, 1, deadline) < rank_of(NOW, 1)


@given(st.integers(1, 9), st.integers(1, 10))
def test_more_priority_never_means_a_worse_band_and_more_weight_never_a_better(priority: int, complexity: int) -> None:
    assert band_of(priority + 1, complexity) <= band_of(priority, complexity)
    assert complexity == 10 or band_of(priority, complexity + 1) >= band_of(priority, complexity)


@pytest.mark.parametrize(
    ("priority", "complexity", "band"),
    [
        (10, 10, Band.HIGH),
        (10, 5, Band.HIGH),
        (5, 5, Band.MEDIUM),
        (5, 1, Band.MEDIUM),
        (6, 2, Band.HIGH),
        (1, 5, Band.LOW),
    ],
)
def test_bands(priority: int, complexity: int, band: Band) -> None:
    assert band_of(priority, complexity) is band
