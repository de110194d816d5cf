"""What is sealed opens at its place, whole, with its key; nowhere else."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from mainspring.errors import SecretsError
from mainspring.secrets.envelope import Place, is_sealed, mark_of, rewrap, seal, unseal
from mainspring.secrets.keys import MasterKeys

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
KEYS = MasterKeys({"new": NEW, "old": OLD})
BEFORE = MasterKeys({"old": OLD})
PLACE = Place("job", "acme", "0f" * 16, "arguments")

places = st.builds(Place, *[st.text(max_size=8)] * 4)


@given(places, st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_round_trip(place: Place, value: bytes) -> None:
    sealed = seal(KEYS, place, value)
    assert is_sealed(sealed)
    assert sealed.isascii()
    assert b"\n" not in sealed
    assert sealed.startswith(mark_of("new"))
    assert unseal(KEYS, place, sealed) == value


@given(st.binary(min_size=1, max_size=40), st.data())
@settings(max_examples=150, deadline=None)
def test_a_flipped_bit_anywhere_is_noticed(value: bytes, data: st.DataObject) -> None:
    sealed = bytearray(seal(KEYS, PLACE, value))
    bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(SecretsError):
        unseal(KEYS, PLACE, bytes(sealed))


@given(places, places)
@settings(max_examples=100, deadline=None)
def test_at_another_place_it_does_not_open(here: Place, there: Place) -> None:
    sealed = seal(KEYS, here, b"value")
    if here != there:
        with pytest.raises(SecretsError):
            unseal(KEYS, there, sealed)


@pytest.mark.parametrize("field", ["purpose", "tenant", "owner", "field"])
def test_each_part_of_a_place_counts(field: str) -> None:
    sealed = seal(KEYS, PLACE, b"value")
    with pytest.raises(SecretsError, match="does not open"):
        unseal(KEYS, structs.replace(PLACE, **{field: "other"}), sealed)


def test_parts_of_a_place_do_not_run_into_each_other() -> None:
    assert Place("a", "bc", "", "").encoded() != Place("ab", "c", "", "").encoded()


def test_a_cut_value_does_not_open() -> None:
    sealed = seal(KEYS, PLACE, b"value")
    for end in range(len(sealed)):
        with pytest.raises(SecretsError):
            unseal(KEYS, PLACE, sealed[:end])


def test_the_same_value_never_looks_the_same() -> None:
    assert seal(KEYS, PLACE, b"value") != seal(KEYS, PLACE, b"value")


def test_another_key_of_the_same_id() -> None:
    sealed = seal(MasterKeys({"new": OLD}), PLACE, b"value")
    with pytest.raises(SecretsError, match="another key of the same id"):
        unseal(KEYS, PLACE, sealed)


def test_a_key_that_is_not_here_is_named() -> None:
    sealed = seal(MasterKeys({"gone": NEW}), PLACE, b"value")
    with pytest.raises(SecretsError, match=r"the key 'gone', which is not among the keys here \(new, old\)"):
        unseal(KEYS, PLACE, sealed)


def test_rewrapping_changes_the_key_and_not_the_value() -> None:
    before = seal(BEFORE, PLACE, b"value")
    after = rewrap(KEYS, before)
    assert before.startswith(mark_of("old"))
    assert after.startswith(mark_of("new"))
    assert before.rpartition(b":")[2] == after.rpartition(b":")[2]
    assert unseal(MasterKeys({"new": NEW}), PLACE, after) == b"value"


def test_json_is_not_sealed() -> None:
    assert not any(map(is_sealed, (b"{}", b'"sealed:1:new:a:b"', b"", b"null")))


def test_without_keys() -> None:
    with pytest.raises(SecretsError, match=r"MAINSPRING_SECRET_KEYS.*secrets new-key"):
        seal(None, PLACE, b"value")
    with pytest.raises(SecretsError, match="MAINSPRING_SECRET_KEYS"):
        unseal(None, PLACE, seal(KEYS, PLACE, b"value"))


def test_without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(SecretsError, match=r"pip install 'mainspring\[secrets\]'"):
        seal(KEYS, PLACE, b"value")
