"""The hash chain of audit records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from mainspring.core.chain import FIRST, Checked, digest_of, link, verify


class Entry(Struct, frozen=True):
    tenant: str
    number: int
    at: int
    content: bytes | None
    digest: bytes
    hash: bytes


def chain(*contents: bytes, tenant: str = "acme") -> list[Entry]:
    entries: list[Entry] = []
    for number, content in enumerate(contents, 1):
        before = entries[-1].hash if entries else FIRST
        digest = digest_of(content)
        entries.append(
            Entry(tenant, number, 5 * number, content, digest, link(before, tenant, number, 5 * number, digest))
        )
    return entries


def test_a_good_chain_is_good_at_once_and_in_pages() -> None:
    entries = chain(b"a", b"b", b"c")
    whole = verify("acme", entries)
    assert whole == Checked(3, entries[-1].hash)
    assert verify("acme", entries[2:], after=verify("acme", entries[:2])) == whole
    assert verify("acme", []) == Checked(0, FIRST)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {"content": b"x"},
        {"at": 1},
        {"digest": bytes(32)},
        {"hash": FIRST},
        {"number": 9},
        {"content": "a"},
        {"at": -1},
        {"digest": None},
    ],
)
def test_a_changed_record_shows(number: int, changes: dict[str, object]) -> None:
    entries = chain(b"a", b"b", b"c")
    entries[number - 1] = structs.replace(entries[number - 1], **changes)
    assert verify("acme", entries).broken_at == number


def test_content_that_was_changed_with_its_digest_shows() -> None:
    entries = chain(b"a", b"b")
    entries[0] = structs.replace(entries[0], content=b"x", digest=digest_of(b"x"))
    assert verify("acme", entries).broken_at == 1


@given(st.permutations(range(4)))
def test_another_order_shows(order: list[int]) -> None:
    entries = chain(b"a", b"a", b"a", b"a")
    checked = verify("acme", [entries[place] for place in order])
    assert (checked.broken_at is None) == (order == sorted(order))


@pytest.mark.parametrize("place", [0, 1])
def test_a_removed_record_shows(place: int) -> None:
    entries = chain(b"a", b"b", b"c")
    del entries[place]
    assert verify("acme", entries).broken_at == place + 1


def test_a_chain_is_its_tenants() -> None:
    assert verify("other", chain(b"a")).broken_at == 1


def test_content_goes_with_an_erasure_only() -> None:
    entries = [structs.replace(entry, content=None) for entry in chain(b"a", b"b")]
    assert verify("acme", entries, erased=True).broken_at is None
    assert verify("acme", entries).broken_at == 1
