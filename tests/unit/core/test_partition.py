"""Ids, slots and partitions."""

import uuid
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.partition import (
    MAX_RANDOM,
    SLOTS,
    fair_share,
    format_id,
    make_id,
    parse_id,
    partition_of,
    shares,
    slot_for,
    slot_of,
)
from mainspring.errors import InvalidError

times = st.integers(0, 2**48 - 1)
slots = st.integers(0, SLOTS - 1)
randoms = st.integers(0, MAX_RANDOM - 1)
powers = st.integers(0, 12).map(lambda n: 1 << n)


@given(times, slots, randoms)
def test_an_id_is_a_valid_uuid7_that_carries_its_slot(unix_ms: int, slot: int, random62: int) -> None:
    job = make_id(unix_ms, slot, random62)
    shown = uuid.UUID(bytes=job)
    assert (shown.version, shown.variant, shown.int >> 80) == (7, uuid.RFC_4122, unix_ms)
    assert slot_of(job) == slot
    assert shown.int & (MAX_RANDOM - 1) == random62
    assert parse_id(format_id(job)) == job


@given(times, times, slots, slots, randoms, randoms)
def test_ids_are_ordered_by_time(a: int, b: int, slot_a: int, slot_b: int, random_a: int, random_b: int) -> None:
    if a != b:
        assert (make_id(a, slot_a, random_a) < make_id(b, slot_b, random_b)) == (a < b)


@given(slots, randoms, powers)
def test_a_partition_is_the_slots_top_bits_so_their_number_can_change(
    slot: int, random62: int, partitions: int
) -> None:
    job = make_id(1, slot, random62)
    assert 0 <= partition_of(job, partitions) < partitions
    if partitions > 1:
        assert partition_of(job, partitions) // 2 == partition_of(job, partitions // 2)


def test_slots_spread_evenly_over_partitions() -> None:
    for partitions in (1, 4, 64, SLOTS):
        found = [partition_of(make_id(1, slot, 0), partitions) for slot in range(SLOTS)]
        assert [found.count(number) for number in range(partitions)] == [SLOTS // partitions] * partitions


@pytest.mark.parametrize(
    ("parts", "slot"),
    [
        (("key", "default", "k"), 4011),
        (("schedule", "default/nightly"), 3146),
        (("key", "a", "b"), 265),
        (("key", "ä", "ü"), 4004),
    ],
)
def test_the_hash_behind_a_slot_never_changes(parts: tuple[str, ...], slot: int) -> None:
    assert slot_for(*parts) == slot


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=3))
def test_a_slot_is_in_range_and_parts_do_not_run_together(parts: list[str]) -> None:
    assert 0 <= slot_for(*parts) < SLOTS
    assert slot_for("a", "bc") != slot_for("ab", "c")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "0190",
        "../etc/passwd",
        "\0",
        "\ud800",
        str(uuid.UUID(int=0)),
        "f13fa529-32d8-4b2e-9daf-003ea07b5b07",
        "0" * 1000,
        None,
        7,
        b"x",
    ],
)
def test_what_is_no_id_is_refused_by_name(text: object) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_id(text)  # type: ignore[arg-type]
    assert caught.value.field == "id"


# --- fair share

Owners = dict[int, bytes | None]
Nodes = dict[bytes, int]  # by capacity


@st.composite
def ownerships(draw: st.DrawFn) -> tuple[Owners, Nodes]:
    """Partitions of any owners, some of whom are dead, and nodes of any size, some of which have no workers."""
    capacity = st.one_of(st.integers(0, 10), st.integers(0, 100_000))
    nodes = {bytes([n]): draw(capacity) for n in range(draw(st.integers(1, 12)))}
    owner = st.sampled_from([*nodes, None, b"dead"])
    count = draw(st.sampled_from([1, 2, 4, 8, 16, 64]))
    return {number: draw(owner) for number in range(count)}, nodes


def settle(owners: Owners, nodes: Nodes) -> Owners:
    """Every node claims in turn until nothing moves."""
    owners = dict(owners)
    for _ in range(4):
        before = dict(owners)
        for node in nodes:
            take, leave = fair_share(owners, nodes, node)
            owners.update(dict.fromkeys(take, node))
            owners.update(dict.fromkeys(leave))
        if owners == before:
            return owners
    raise AssertionError("shares never settle")


def counted(owners: Owners, nodes: Nodes) -> Nodes:
    return {node: list(owners.values()).count(node) for node in nodes}


def moved(before: Owners, after: Owners) -> int:
    return sum(before[number] != after[number] for number in before)


@given(ownerships())
def test_every_partition_ends_up_with_one_living_node_that_has_its_share(state: tuple[Owners, Nodes]) -> None:
    owners, nodes = state
    settled = settle(owners, nodes)
    assert set(settled.values()) <= nodes.keys()
    assert counted(settled, nodes) == shares(len(owners), nodes)


@given(ownerships())
def test_shares_are_by_capacity_within_one_beside_the_one_that_each_has(state: tuple[Owners, Nodes]) -> None:
    owners, nodes = state
    weights = {node: max(1, capacity) for node, capacity in nodes.items()}
    least = 1 if len(owners) >= len(nodes) else 0
    rest = len(owners) - least * len(nodes)
    found = shares(len(owners), nodes)
    assert sum(found.values()) == len(owners)
    for node, weight in weights.items():
        assert abs(found[node] - least - rest * weight / sum(weights.values())) < 1
        assert found[node] >= least


@given(ownerships())
def test_who_can_do_more_never_has_less(state: tuple[Owners, Nodes]) -> None:
    owners, nodes = state
    found = shares(len(owners), nodes)
    by_size = sorted(nodes, key=lambda node: nodes[node])
    for smaller, larger in pairwise(by_size):
        assert found[smaller] <= found[larger] or max(1, nodes[smaller]) == max(1, nodes[larger])


@given(ownerships())
def test_only_free_partitions_are_taken_and_only_a_surplus_is_let_go(state: tuple[Owners, Nodes]) -> None:
    owners, nodes = state
    for node in nodes:
        take, leave = fair_share(owners, nodes, node)
        assert all(owners[number] is None or owners[number] not in nodes for number in take)
        assert all(owners[number] == node for number in leave)
        assert not (take and leave)


@given(ownerships())
def test_once_shares_are_right_nothing_moves(state: tuple[Owners, Nodes]) -> None:
    owners, nodes = state
    settled = settle(owners, nodes)
    assert all(fair_share(settled, nodes, node) == ([], []) for node in nodes)


@given(ownerships(), st.integers(0, 100_000))
def test_who_joins_moves_what_it_gets_and_what_the_shares_of_the_others_differ_by(
    state: tuple[Owners, Nodes], capacity: int
) -> None:
    owners, nodes = state
    settled = settle(owners, nodes)
    grown = nodes | {b"new": capacity}
    after = settle(settled, grown)
    before_counts, after_counts = counted(settled, grown), counted(after, grown)
    assert moved(settled, after) == sum(max(0, before_counts[n] - after_counts[n]) for n in grown)
    # Remainders may give one of the others one more than before; everything else moves to the new one.
    assert after_counts[b"new"] <= moved(settled, after) < after_counts[b"new"] + len(grown)


@given(ownerships())
def test_who_leaves_moves_what_it_had_and_no_more_than_remainders(state: tuple[Owners, Nodes]) -> None:
    owners, nodes = state
    if len(nodes) == 1:
        return
    settled = settle(owners, nodes)
    leaver = next(reversed(nodes))
    left = {node: capacity for node, capacity in nodes.items() if node != leaver}
    after = settle(settled, left)
    had = counted(settled, nodes)[leaver]
    assert had <= moved(settled, after) < had + len(nodes)


def test_nodes_of_one_size_have_the_same_within_one() -> None:
    for count in range(1, 70):
        found = shares(64, {bytes([n]): 100 for n in range(count)}).values()
        assert max(found) - min(found) <= 1
        assert sum(found) == 64


def test_a_node_that_is_not_alive_takes_nothing() -> None:
    assert fair_share({0: None}, {b"other": 1}, b"me") == ([], [])


def test_a_node_that_drains_lets_everything_go() -> None:
    assert fair_share({0: b"me", 1: b"me", 2: b"other"}, {b"other": 1}, b"me") == ([], [0, 1])
    assert fair_share({0: b"me", 1: b"me", 2: b"other"}, {b"other": 1}, b"other") == ([0, 1], [])
    assert fair_share({0: b"me"}, {}, b"me") == ([], [0])


@given(st.binary(min_size=16, max_size=16))
def test_an_id_is_written_and_read_as_a_uuid(data: bytes) -> None:
    text = str(uuid.UUID(bytes=data))
    assert format_id(data) == text
    if uuid.UUID(bytes=data).version == 7:
        assert parse_id(text) == parse_id(text.upper()) == parse_id(text.replace("-", "")) == data
    else:
        with pytest.raises(InvalidError):
            parse_id(text)
