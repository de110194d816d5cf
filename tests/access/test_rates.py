"""Token buckets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.access.keys import Caller
from mainspring.access.rates import Buckets, limit_requests
from mainspring.access.roles import Role
from mainspring.errors import LimitedError


def test_a_burst_and_then_the_rate() -> None:
    buckets = Buckets()
    assert [buckets.take("a", 2.0, 3.0, 0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("a", 2.0, 3.0, 0.4) == pytest.approx(0.1)
    assert buckets.take("a", 2.0, 3.0, 0.5) == 0.0
    assert buckets.take("b", 2.0, 3.0, 0.5) == 0.0


def test_who_is_refused_pays_nothing() -> None:
    buckets = Buckets()
    assert buckets.take("a", 1.0, 5.0, 0.0, 4) == 0.0
    assert [buckets.take("a", 1.0, 5.0, 0.0, 4) for _ in range(9)] == [3.0] * 9
    assert buckets.take("a", 1.0, 5.0, 3.0, 4) == 0.0


@given(
    rate=st.floats(0.1, 100),
    burst=st.floats(1, 50),
    steps=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 5)), max_size=60),
)
def test_i14_no_window_lets_more_through(rate: float, burst: float, steps: list[tuple[float, int]]) -> None:
    buckets, now, passed = Buckets(), 0.0, []
    for rest, count in steps:
        now += rest
        if buckets.take("a", rate, burst, now, count) == 0.0:
            passed.append((now, count))
    for place, (start, _) in enumerate(passed):
        through = 0
        for at, count in passed[place:]:
            through += count
            assert through <= burst + rate * (at - start) + 1e-6


@given(rate=st.floats(0.1, 100), count=st.integers(1, 10))
def test_waiting_as_long_as_was_said_is_enough(rate: float, count: int) -> None:
    buckets = Buckets()
    buckets.take("a", rate, 10.0, 0.0, 10)
    wait_s = buckets.take("a", rate, 10.0, 0.0, count)
    assert wait_s == pytest.approx(count / rate)
    assert buckets.take("a", rate, 10.0, wait_s * 1.0001, count) == 0.0


def test_a_changed_rate_counts_from_now_on() -> None:
    buckets = Buckets()
    buckets.take("a", 1.0, 10.0, 0.0, 10)
    assert buckets.take("a", 10.0, 100.0, 0.0, 10) == 1.0


def test_the_number_of_buckets_is_bounded() -> None:
    buckets = Buckets(most=3)
    for name in "abcad":
        buckets.take(name, 1.0, 1.0, 0.0)
    assert len(buckets) == 3
    assert buckets.take("a", 1.0, 1.0, 0.0) > 0  # used last but one, so remembered
    assert buckets.take("b", 1.0, 1.0, 0.0) == 0.0


def test_requests_of_a_key() -> None:
    buckets = Buckets()
    free, slow = Caller("a", "a", Role.VIEWER, "t"), Caller("b", "b", Role.VIEWER, "t", 0.5)
    for _ in range(100):
        limit_requests(buckets, free, 0.0)
    limit_requests(buckets, slow, 0.0)
    with pytest.raises(LimitedError) as caught:
        limit_requests(buckets, slow, 0.0)
    assert (caught.value.field, caught.value.retry_after_s) == ("requests_per_s", 2.0)
