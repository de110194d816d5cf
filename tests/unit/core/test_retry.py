"""Backoff: exponential, capped, full jitter."""

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.retry import Backoff

backoffs = st.builds(Backoff, st.floats(0, 1e9), st.floats(0, 1e9))


@given(backoffs, st.integers(1, 100_000), st.floats(0, 1))
def test_a_wait_lies_between_nothing_and_its_bound(backoff: Backoff, failures: int, share: float) -> None:
    assert 0 <= backoff.delay_s(failures, share) <= backoff.bound_s(failures) <= backoff.cap_s


@given(backoffs, st.integers(1, 1000))
def test_the_bound_never_falls(backoff: Backoff, failures: int) -> None:
    assert backoff.bound_s(failures) <= backoff.bound_s(failures + 1)


def test_the_bound_doubles_up_to_the_cap() -> None:
    assert [Backoff(2.0, 60.0).bound_s(n) for n in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]


def test_the_whole_of_the_bound_is_drawn_from() -> None:
    assert [Backoff(8.0).delay_s(1, share) for share in (0.0, 0.5, 1.0)] == [0, 4, 8]
