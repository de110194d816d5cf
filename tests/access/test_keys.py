"""The text of keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.access.keys import caller_of, digest_of, is_good, make_key, parse_key, without_secrets
from mainspring.access.roles import Role
from mainspring.errors import UnknownKeyError
from mainspring.store.service import KeyRecord

NOW = 1_900_000_000_000_000


def made(**changes: object) -> tuple[str, KeyRecord]:
    return make_key("ci", Role.SUBMITTER, "acme", now=NOW, created_by="me", **changes)  # type: ignore[arg-type]


def test_a_made_key_is_found_by_its_id_and_told_by_its_digest() -> None:
    text, record = made()
    assert parse_key(text) == record.id
    assert record.digest == digest_of(text)
    assert text.removeprefix(f"msk_{record.id}_") not in str(record)
    caller = caller_of(record, text, NOW)
    assert (caller.key, caller.name, caller.role, caller.tenant) == (record.id, "ci", Role.SUBMITTER, "acme")
    assert not caller.everywhere


def test_no_two_keys_are_alike() -> None:
    assert len({made()[0] for _ in range(100)}) == 100


@given(st.text() | st.binary() | st.none() | st.integers())
def test_whatever_is_no_key_is_unknown(text: object) -> None:
    with pytest.raises(UnknownKeyError):
        parse_key(text)


@given(st.data())
def test_a_changed_character_is_another_key(data: st.DataObject) -> None:
    text, record = made()
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda character: character != text[place]))
    changed = text[:place] + other + text[place + 1 :]
    with pytest.raises(UnknownKeyError):
        caller_of(record if parse_key(changed) == record.id else None, changed, NOW)


@pytest.mark.parametrize("tail", ["\n", " ", "=", "x", "\0"])
def test_nothing_may_follow(tail: str) -> None:
    with pytest.raises(UnknownKeyError):
        parse_key(made()[0] + tail)


def test_the_error_says_nothing_of_the_key() -> None:
    text, _ = made()
    with pytest.raises(UnknownKeyError) as caught:
        caller_of(None, text, NOW)
    assert text[:16] not in str(caught.value)


def test_a_key_ends_when_it_expires() -> None:
    text, record = made(expires_at=NOW + 10)
    assert caller_of(record, text, NOW + 9).name == "ci"
    with pytest.raises(UnknownKeyError):
        caller_of(record, text, NOW + 10)


def test_a_role_of_a_later_version_is_no_way_in() -> None:
    _, record = made()
    assert is_good(record, NOW)
    strange = KeyRecord(
        id=record.id, digest=record.digest, name="x", role="owner", tenant="acme", created_at=NOW, created_by="me"
    )
    assert not is_good(strange, NOW)


def test_secrets_are_left_out_of_records() -> None:
    text, record = made()
    assert without_secrets(f'{{"key":"{text}"}}'.encode()) == f'{{"key":"msk_{record.id}_..."}}'.encode()
    assert without_secrets(b'{"key":"msk_1"}') == b'{"key":"msk_1"}'
