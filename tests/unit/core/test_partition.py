"""Ids, slots and partitions."""

import uuid

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


@st.composite
def ownerships(draw: st.DrawFn) -> tuple[dict[int, bytes | None], list[bytes]]:
    nodes = [bytes([n]) for n in range(draw(st.integers(1, 6)))]
    owner = st.sampled_from([*nodes, None, b"dead"])
    count = draw(st.sampled_from([1, 2, 4, 8, 16, 64]))
    return {number: draw(owner) for number in range(count)}, nodes


def settle(owners: dict[int, bytes | None], nodes: list[bytes]) -> dict[int, bytes | None]:
    """Every node claims in turn until nothing moves."""
    owners = dict(owners)
    for _ in range(10):
        before = dict(owners)
        for node in nodes:
            take, leave = fair_share(owners, dict.fromkeys(nodes, 1), node)
            owners.update(dict.fromkeys(take, node))
            owners.update(dict.fromkeys(leave))
        if owners == before:
            return owners
    raise AssertionError("shares never settle")


@given(ownerships())
def test_every_partition_ends_up_with_one_living_node_and_shares_differ_by_at_most_one(
    state: tuple[dict[int, bytes | None], list[bytes]],
) -> None:
    owners, nodes = state
    settled = settle(owners, nodes)
    shares = [list(settled.values()).count(node) for node in nodes]
    assert set(settled.values()) <= set(nodes)
    assert max(shares) - min(shares) <= 1


@given(ownerships())
def test_only_free_partitions_are_taken_and_only_a_surplus_is_let_go(
    state: tuple[dict[int, bytes | None], list[bytes]],
) -> None:
    owners, nodes = state
    for node in nodes:
        take, leave = fair_share(owners, dict.fromkeys(nodes, 1), node)
        assert all(owners[number] is None or owners[number] not in nodes for number in take)
        assert all(owners[number] == node for number in leave)
        assert not (take and leave)


@given(ownerships())
def test_once_shares_are_even_nothing_moves_and_a_leaver_moves_no_more_than_its_share(
    state: tuple[dict[int, bytes | None], list[bytes]],
) -> None:
    settled, nodes = settle(*state), state[1]
    assert all(fair_share(settled, dict.fromkeys(nodes, 1), node) == ([], []) for node in nodes)
    if len(nodes) > 1:
        after = settle(settled, nodes[:-1])
        moved = [number for number in settled if settled[number] != after[number]]
        share = -(-len(settled) // len(nodes[:-1]))
        assert len(moved) <= list(settled.values()).count(nodes[-1]) + len(nodes) * (share == len(settled))


def test_a_node_that_is_not_alive_takes_nothing() -> None:
    assert fair_share({0: None}, {b"other": 1}, b"me") == ([], [])
