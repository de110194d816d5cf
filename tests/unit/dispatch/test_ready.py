"""The window: exact order, fairness, and no job lost or given twice."""

from collections import Counter
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.dispatch import ready as ready_module
from mainspring.dispatch.ready import MAX_READ, MIN_READ, WINDOW, Window
from mainspring.store.contract import Ready, Stream

SESSION = b"s"


class Source:
    """A ready table in a list: what the store would answer."""

    def __init__(self) -> None:
        self.rows: dict[Stream, list[Ready]] = {}
        self.made = 0

    def put(self, stream: Stream, rank: int) -> Ready:
        self.made += 1
        ready = Ready(rank, self.made.to_bytes(16, "big"), 0, stream[2])
        self.rows.setdefault(stream, []).append(ready)
        self.rows[stream].sort(key=key_of)
        return ready

    def take(self, stream: Stream, ready: Ready) -> bool:
        """Assign: true for the one who comes first."""
        if ready not in self.rows.get(stream, []):
            return False
        self.rows[stream].remove(ready)
        return True

    def read(self, stream: Stream, cursor: tuple[int, bytes] | None, limit: int) -> list[Ready]:
        return [row for row in self.rows.get(stream, []) if cursor is None or key_of(row) > cursor][:limit]

    def left(self) -> int:
        return sum(map(len, self.rows.values()))


def key_of(ready: Ready) -> tuple[int, bytes]:
    return ready.rank, ready.job


def tenant_of(stream: Stream) -> str:
    return f"tenant {stream[2] // 10}"


def quench(window: Window, source: Source, size: int | None = None) -> None:
    """What the dispatcher does before it chooses."""
    asked = size or window.read_size()
    for stream in tuple(window.thirsty):
        window.fill(stream, source.read(stream, window.streams[stream].cursor, asked), asked)


def anybody(lane: int) -> bytes | None:
    return SESSION


def drain(
    window: Window, source: Source, capacity: int, size: int, place: Callable[[int], bytes | None] = anybody
) -> list[Ready]:
    """Rounds until nothing comes; each round reads, chooses and takes."""
    order: list[Ready] = []
    for _ in range(10_000):
        quench(window, source, size)
        chosen = window.choose(capacity, place)
        for _, stream, ready in chosen:
            assert source.take(stream, ready), "a job was given twice"
            order.append(ready)
        if not chosen and not window.thirsty:
            return order
    raise AssertionError("it never ends")


def fill(source: Source, window: Window, jobs: list[tuple[int, int, int]]) -> None:
    for partition, lane, rank in jobs:
        source.put((partition, 1, lane), rank)
    for stream, rows in source.rows.items():
        window.open(stream, tenant_of(stream), rows[0].rank)


one_tenant = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 50)), max_size=60)
capacities = st.integers(1, 20)
sizes = st.integers(1, 9)


@given(jobs=one_tenant, capacity=capacities, size=sizes)
def test_the_order_of_one_tenant_is_that_of_a_sort_however_little_is_read_at_once(
    jobs: list[tuple[int, int, int]], capacity: int, size: int
) -> None:
    source, window = Source(), Window()
    fill(source, window, jobs)
    everything = sorted((ready for rows in source.rows.values() for ready in rows), key=key_of)
    assert drain(window, source, capacity, size) == everything


@given(
    jobs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 49), st.integers(0, 50)), max_size=60),
    capacity=capacities,
    size=sizes,
)
def test_each_tenants_own_order_is_exact_and_nothing_is_lost(
    jobs: list[tuple[int, int, int]], capacity: int, size: int
) -> None:
    source, window = Source(), Window()
    fill(source, window, jobs)
    wanted: dict[str, list[Ready]] = {}
    owner = {}
    for stream, rows in source.rows.items():
        wanted.setdefault(tenant_of(stream), []).extend(rows)
        owner.update(dict.fromkeys(rows, tenant_of(stream)))
    order = drain(window, source, capacity, size)
    assert len(order) == len(owner)
    for tenant, rows in wanted.items():
        assert [ready for ready in order if owner[ready] == tenant] == sorted(rows, key=key_of)


@settings(max_examples=200)
@given(data=st.data(), size=sizes, capacity=capacities)
def test_whatever_happens_meanwhile_no_job_is_lost_or_given_twice(
    data: st.DataObject, size: int, capacity: int
) -> None:
    """Jobs come with hints, others take some, streams close and open, lanes refuse, windows are read in any part."""
    source, window = Source(), Window()
    streams = [(0, 1, 3), (1, 1, 3), (0, 0, 3), (0, 1, 12), (2, 2, 25)]
    refusing: set[int] = set()
    given_out: set[bytes] = set()
    closed: dict[Stream, int] = {}

    def hint(stream: Stream, rank: int) -> None:
        if stream in closed:
            closed[stream] = min(rank, closed[stream])
        else:
            window.open(stream, tenant_of(stream), rank)

    def place(lane: int) -> bytes | None:
        return None if lane in refusing else SESSION

    def choose() -> None:
        for _, stream, ready in window.choose(capacity, place):
            assert ready.job not in given_out, "given twice"
            assert stream not in closed
            if source.take(stream, ready):
                given_out.add(ready.job)
            else:
                hint(stream, ready.rank)  # as the dispatcher does with what it lost

    for _ in range(data.draw(st.integers(5, 40), label="steps")):
        stream = data.draw(st.sampled_from(streams))
        action = data.draw(st.sampled_from(["put", "put", "steal", "choose", "quench", "close", "open", "refuse"]))
        if action == "put":
            rank = data.draw(st.integers(0, 20))
            source.put(stream, rank)
            hint(stream, rank)
        elif action == "steal" and source.rows.get(stream):
            source.take(stream, data.draw(st.sampled_from(source.rows[stream])))
        elif action == "choose":
            choose()
        elif action == "quench":
            quench(window, source, size)
        elif action == "close":
            if stream in window.streams:
                window.close(stream)
            closed.setdefault(stream, -1)
        elif action == "open" and stream in closed:
            rank = closed.pop(stream)
            window.open(stream, tenant_of(stream), rank)
        elif action == "refuse":
            refusing ^= {stream[2]}
    refusing.clear()
    for stream, rank in list(closed.items()):
        del closed[stream]
        window.open(stream, tenant_of(stream), rank)
    for _ in range(200):
        quench(window, source, size)
        choose()
    assert source.left() == 0, "a job was forgotten"


def test_tenants_share_a_round_whoever_has_more_or_came_first() -> None:
    source, window = Source(), Window()
    for tenant, count in ((0, 1000), (1, 50), (2, 50)):
        for _ in range(count):
            source.put((0, 1, tenant * 10), tenant)
    for stream in source.rows:
        window.open(stream, tenant_of(stream), 0)
    quench(window, source)
    shares = Counter(stream[2] for _, stream, _ in window.choose(30, anybody))
    assert shares == {0: 10, 10: 10, 20: 10}


def test_what_one_tenant_leaves_the_others_take() -> None:
    source, window = Source(), Window()
    source.put((0, 1, 0), 1)
    for _ in range(100):
        source.put((0, 1, 10), 1)
    for stream in source.rows:
        window.open(stream, tenant_of(stream), 0)
    quench(window, source)
    assert Counter(stream[2] for _, stream, _ in window.choose(40, anybody)) == {0: 1, 10: 39}


def test_a_tenant_that_has_just_become_active_goes_first() -> None:
    source, window = Source(), Window()
    for _ in range(50):
        source.put((0, 1, 0), 1)
    window.open((0, 1, 0), "tenant 0", 1)
    quench(window, source)
    window.choose(5, anybody)
    source.put((0, 1, 10), 99)
    window.open((0, 1, 10), "tenant 1", 99)
    quench(window, source)
    ((_, stream, _),) = window.choose(1, anybody)
    assert stream == (0, 1, 10)


def test_over_many_rounds_of_one_job_tenants_take_turns() -> None:
    source, window = Source(), Window()
    for tenant in range(4):
        for _ in range(20):
            source.put((0, 1, tenant * 10), 1)
    for stream in source.rows:
        window.open(stream, tenant_of(stream), 1)
    turns = []
    for _ in range(40):
        quench(window, source)
        ((_, stream, ready),) = window.choose(1, anybody)
        source.take(stream, ready)
        turns.append(stream[2])
    assert all(set(turns[n : n + 4]) == {0, 10, 20, 30} for n in range(0, 40, 4))


def test_a_lane_that_nobody_takes_now_does_not_hold_up_the_others_and_keeps_its_place() -> None:
    source, window = Source(), Window()
    blocked, free = source.put((0, 1, 0), 1), source.put((0, 1, 1), 2)
    for stream in source.rows:
        window.open(stream, "t", 1)
    quench(window, source)
    assert [ready for _, _, ready in window.choose(5, lambda lane: None if lane == 0 else SESSION)] == [free]
    assert [ready for _, _, ready in window.choose(5, anybody)] == [blocked]


def test_many_hints_for_a_lane_that_nobody_takes_cost_nothing_later() -> None:
    source, window = Source(), Window()
    source.put((0, 1, 0), 1)
    window.open((0, 1, 0), "t", 1)
    quench(window, source)
    asked = []
    for rank in range(2, 500):
        source.put((0, 1, 0), rank)
        window.open((0, 1, 0), "t", rank)
        window.choose(1, lambda lane: asked.append(lane))
        quench(window, source, 8)
    asked.clear()
    window.choose(1, lambda lane: asked.append(lane))
    assert len(asked) <= 2, "the cost of a round depends on the jobs it moves"


def test_a_job_that_comes_before_what_was_read_is_given_first() -> None:
    source, window = Source(), Window()
    late = [source.put((0, 1, 0), rank) for rank in (10, 20, 30)]
    window.open((0, 1, 0), "t", 10)
    quench(window, source)
    early = source.put((0, 1, 0), 5)
    window.open((0, 1, 0), "t", 5)
    quench(window, source)
    assert [ready for _, _, ready in window.choose(9, anybody)] == [early, *late]


def test_the_window_is_bounded_whatever_number_of_streams_there_are() -> None:
    window = Window()
    for count in (1, 100, 5000):
        for lane in range(count):
            window.open((0, 1, lane), "t", 0)
        size = window.read_size()
        assert MIN_READ <= size <= MAX_READ
        assert size * len(window.streams) <= max(WINDOW, MIN_READ * len(window.streams))
    assert ready_module.WINDOW == 8192


def test_an_empty_stream_leaves_the_window() -> None:
    source, window = Source(), Window()
    window.open((0, 1, 0), "t", 0)
    quench(window, source)
    assert window.streams == {}
    assert window.choose(5, anybody) == []
    window.fill((0, 1, 0), [Ready(1, b"x", 0, 0)], 8)  # an answer that comes after its stream was closed
    assert window.choose(5, anybody) == []
