"""Lanes: a number that is the same on every node and in every version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.job import Resources
from mainspring.core.lane import Lane, rounded


@pytest.mark.parametrize(
    ("lane", "number"),
    [
        (Lane("default", "default", "work"), 2147786583275984534),
        (Lane("acme", "mail", "send", Resources(0.5, 512, 1), frozenset({"b", "a"}), "k"), 860626087702388985),
        (Lane("ä", "q", "日本"), -4091645591832304347),
    ],
)
def test_the_number_of_a_lane_never_changes(lane: Lane, number: int) -> None:
    assert lane.number() == number


def test_labels_have_no_order_and_everything_else_counts() -> None:
    base = Lane("t", "q", "k", Resources(1.0, 2, 3), frozenset({"x"}), "l")
    others = [
        Lane("T", "q", "k", Resources(1.0, 2, 3), frozenset({"x"}), "l"),
        Lane("t", "Q", "k", Resources(1.0, 2, 3), frozenset({"x"}), "l"),
        Lane("t", "q", "K", Resources(1.0, 2, 3), frozenset({"x"}), "l"),
        Lane("t", "q", "k", Resources(2.0, 2, 3), frozenset({"x"}), "l"),
        Lane("t", "q", "k", Resources(1.0, 4, 3), frozenset({"x"}), "l"),
        Lane("t", "q", "k", Resources(1.0, 2, 4), frozenset({"x"}), "l"),
        Lane("t", "q", "k", Resources(1.0, 2, 3), frozenset({"y"}), "l"),
        Lane("t", "q", "k", Resources(1.0, 2, 3), frozenset({"x"}), None),
    ]
    assert len({lane.number() for lane in [base, *others]}) == len(others) + 1
    labels = [f"label {n}" for n in range(9)]
    assert (
        Lane("t", "q", "k", labels=frozenset(labels)).number()
        == Lane("t", "q", "k", labels=frozenset(labels[::-1])).number()
    )


@given(st.floats(0, 4096), st.integers(0, 1 << 40), st.integers(0, 1024))
def test_rounding_never_asks_for_less_and_at_most_for_a_class_more(cpu: float, memory_mb: int, gpu: int) -> None:
    needs = Resources(cpu, memory_mb, gpu)
    up = rounded(needs)
    assert needs.cpu <= up.cpu <= needs.cpu + 0.25
    assert memory_mb <= up.memory_mb <= max(1, 2 * memory_mb) or up.memory_mb == memory_mb == 0
    assert up.gpu == gpu
    assert rounded(up) == up
    assert -(2**63) <= Lane("t", "q", "k", up).number() < 2**63
