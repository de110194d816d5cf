"""Job x worker: capacity, kinds, labels, resources, reservation."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.job import Resources
from mainspring.core.lane import Lane
from mainspring.dispatch.matcher import RESERVE_AFTER_S, Matcher, Seat
from mainspring.wire import WorkerInfo

PLAIN = Lane("t", "q", "k")


def seat(name: bytes = b"s", slots: int = 1, kinds: str = "k", labels: str = "", **resources: Any) -> Seat:
    info = WorkerInfo(
        name="w",
        slots=slots,
        kinds=frozenset(kinds.split()),
        labels=frozenset(labels.split()),
        resources=Resources(**resources),
    )
    made = Seat(name, info)
    made.slots = slots
    return made


def needing(**resources: Any) -> Lane:
    return Lane("t", "q", "k", Resources(**resources))


def matcher(*seats: Seat) -> Matcher:
    made = Matcher()
    for one in seats:
        made.add(one)
    return made


@given(
    seats=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 8)), min_size=1, max_size=4),
    wishes=st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.sampled_from([0, 1, 4])), max_size=40),
)
def test_capacity_and_resources_are_never_exceeded(
    seats: list[tuple[int, int, int]], wishes: list[tuple[float, int]]
) -> None:
    made = {
        bytes([n]): seat(bytes([n]), slots, cpu=float(cpu), memory_mb=memory)
        for n, (slots, cpu, memory) in enumerate(seats)
    }
    match = matcher(*made.values())
    given_to: dict[bytes, list[Resources]] = {name: [] for name in made}
    for n, (cpu, memory) in enumerate(wishes):
        lane = needing(cpu=cpu, memory_mb=memory)
        session = match.place(hash((cpu, memory)), lane, float(n))
        if session is not None:
            given_to[session].append(lane.resources)
    for (slots, cpu, memory), taken in zip(seats, given_to.values(), strict=True):
        assert len(taken) <= slots
        assert sum(needs.cpu for needs in taken) <= cpu
        assert sum(needs.memory_mb for needs in taken) <= memory
    assert match.capacity() == sum(slots for slots, _, _ in seats) - sum(map(len, given_to.values()))


@pytest.mark.parametrize(
    ("lane", "worker", "serves"),
    [
        (PLAIN, {}, True),
        (PLAIN, {"kinds": "other"}, False),
        (Lane("t", "q", "k", labels=frozenset({"gpu"})), {}, False),
        (Lane("t", "q", "k", labels=frozenset({"gpu"})), {"labels": "gpu eu"}, True),
        (Lane("t", "q", "k", labels=frozenset({"gpu", "us"})), {"labels": "gpu eu"}, False),
        (needing(cpu=2.0), {"cpu": 2.0}, True),
        (needing(cpu=2.25), {"cpu": 2.0}, False),
        (needing(memory_mb=512), {"cpu": 9.0}, False),
        (needing(gpu=1), {"gpu": 1}, True),
    ],
)
def test_a_worker_serves_what_it_knows_has_and_is_large_enough_for(
    lane: Lane, worker: dict[str, Any], serves: bool
) -> None:
    match = matcher(seat(**worker))
    assert match.serves(1, lane) is serves
    assert (match.place(1, lane, 0.0) is not None) is serves


def test_the_roomiest_worker_takes_the_job() -> None:
    match = matcher(seat(b"small", 2), seat(b"large", 4))
    assert [match.place(1, PLAIN, 0.0) for _ in range(6)].count(b"large") == 4
    assert match.place(1, PLAIN, 0.0) is None


def test_a_worker_that_comes_is_served_from_and_one_that_goes_is_not() -> None:
    match = matcher(seat(b"a"))
    assert not match.serves(1, Lane("t", "q", "new"))
    match.add(seat(b"b", kinds="new"))
    assert match.place(1, Lane("t", "q", "new"), 0.0) == b"b"
    match.remove(b"a")
    assert not match.serves(2, PLAIN)
    match.remove(b"never was")


def test_resources_come_back_and_slots_come_with_the_next_pull() -> None:
    worker = seat(slots=2, cpu=1.0)
    match = matcher(worker)
    assert match.place(1, needing(cpu=1.0), 0.0)
    assert match.place(1, needing(cpu=1.0), 0.0) is None
    worker.give_back(Resources(cpu=1.0))
    assert worker.slots == 1
    assert match.place(1, needing(cpu=1.0), 0.0)


# --- reservation

BIG, SMALL = needing(cpu=4.0), needing(cpu=1.0)


def busy(name: bytes) -> Seat:
    """A worker of four cores of which one is taken."""
    worker = seat(name, 8, cpu=4.0)
    worker.take(Resources(cpu=1.0))
    return worker


def test_a_large_job_reserves_a_worker_after_a_while_so_that_small_ones_do_not_starve_it() -> None:
    worker = busy(b"w")
    match = matcher(worker)
    assert match.place(1, BIG, 0.0) is None
    assert match.place(2, SMALL, 0.1) == b"w"
    worker.give_back(Resources(cpu=1.0))
    assert match.place(1, BIG, RESERVE_AFTER_S) is None
    assert match.place(2, SMALL, RESERVE_AFTER_S) is None  # it is kept free now
    worker.give_back(Resources(cpu=1.0))
    assert match.place(1, BIG, RESERVE_AFTER_S + 1) == b"w"
    worker.give_back(Resources(cpu=4.0))
    assert match.place(2, SMALL, RESERVE_AFTER_S + 1) == b"w"


def test_one_lane_reserves_one_worker() -> None:
    match = matcher(busy(b"a"), busy(b"b"))
    for at in (0.0, RESERVE_AFTER_S, RESERVE_AFTER_S + 1):
        match.place(1, BIG, at)
    assert sum(worker.reserved_for == 1 for worker in match.seats.values()) == 1
    assert match.place(2, SMALL, 9.0) is not None


def test_a_reservation_ends_when_its_job_found_another_worker() -> None:
    a, b = busy(b"a"), busy(b"b")
    match = matcher(a, b)
    match.place(1, BIG, 0.0)
    match.place(1, BIG, RESERVE_AFTER_S)
    (reserved,) = [worker for worker in (a, b) if worker.reserved_for == 1]
    other = b if reserved is a else a
    other.give_back(Resources(cpu=1.0))
    assert match.place(1, BIG, RESERVE_AFTER_S + 1) == other.session
    assert match.place(2, SMALL, RESERVE_AFTER_S + 1) == reserved.session


def test_a_reservation_ends_when_its_lane_has_nothing_ready_any_more() -> None:
    worker = busy(b"w")
    match = matcher(worker)
    match.place(1, BIG, 0.0)
    match.place(1, BIG, RESERVE_AFTER_S)
    match.release(1)
    assert match.place(2, SMALL, RESERVE_AFTER_S) == b"w"


def test_jobs_without_needs_reserve_nothing() -> None:
    match = matcher(seat(slots=0))
    for at in (0.0, RESERVE_AFTER_S, 10.0):
        assert match.place(1, PLAIN, at) is None
    assert all(worker.reserved_for is None for worker in match.seats.values())
