"""Values of secrets are found however they are written."""

import json
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.secret import MAX_SECRET_BYTES, MIN_SECRET, check_secret
from mainspring.errors import InvalidError
from mainspring.execute.masking import NO_MASK, Mask, mask_for

VALUE = "pä s/w\"o\\rd\t'x+=&1😀"
WRITERS: list[Callable[[str], str]] = [
    str,
    quote,
    quote_plus,
    lambda value: quote(value, safe=""),
    lambda value: quote(value, safe="!*'()"),
    lambda value: json.dumps(value)[1:-1],
    lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    lambda value: repr(value)[1:-1],
    lambda value: ascii(value)[1:-1],
]

secrets = st.text(min_size=MIN_SECRET, max_size=40).filter(lambda value: len(value.splitlines()) == 1)


@pytest.mark.parametrize("write", WRITERS)
def test_a_value_is_hidden_however_it_is_written(write: Callable[[str], str]) -> None:
    assert Mask([VALUE]).text(f"before {write(VALUE)} after") == "before *** after"


def test_percent_in_lower_case() -> None:
    assert Mask(["a/b=c?d"]).text("a%2fb%3dc%3fd") == "***"


@given(secrets)
@settings(max_examples=100, deadline=None)
def test_any_value_is_hidden_in_all_forms(value: str) -> None:
    mask = Mask([value])
    for write in (str, lambda v: quote(v, safe=""), lambda v: json.dumps(v)[1:-1]):
        assert mask.text(write(value)) == "***"


@given(secrets, st.binary(max_size=7), st.binary(max_size=7), st.sampled_from([b64encode, urlsafe_b64encode]))
@settings(max_examples=150, deadline=None)
def test_base64_is_hidden_whatever_stands_around_it(
    value: str, before: bytes, behind: bytes, encode: Callable[[bytes], bytes]
) -> None:
    data = value.encode()
    hidden = Mask([value]).bytes(encode(before + data + behind))
    assert b"***" in hidden
    # What is left are the characters that neighbours have a part in: less than four of them on either side of the value.
    around = (len(before) + len(behind)) * 4 // 3 + 8
    assert len(hidden.replace(b"***", b"")) <= around


def test_base64_by_itself_leaves_nothing() -> None:
    for value in ("four", "five5", "sixsix"):
        for text in (b64encode(value.encode()), b64encode(value.encode()).rstrip(b"=")):
            assert Mask([value]).bytes(text) == b"***"


def test_a_value_that_holds_another_goes_as_a_whole() -> None:
    assert Mask(["token", "token-and-more"]).text("x token-and-more token y") == "x *** *** y"


def test_lines_of_a_value_are_hidden_one_by_one() -> None:
    key = "-----BEGIN KEY-----\nMIIabcdef\nQR\n-----END KEY-----\n"
    assert Mask([key]).text("line: MIIabcdef\n") == "line: ***\n"
    assert Mask([key]).text(f"<{key}>") == "<***>"


@pytest.mark.parametrize("value", ["hunter22\n", " hunter22\r\n", "\thunter22"])
def test_space_around_a_value_need_not_be_there(value: str) -> None:
    """Files end with a line break, and whoever uses what they hold leaves it out."""
    mask = Mask([value])
    assert mask.text("Bearer hunter22;") == "Bearer ***;"
    assert mask.bytes(b64encode(b"hunter22")) == b"***"
    assert mask.text(f"<{value}>") == "<***>"
    assert Mask(["abc\n"]).text("abc") == "abc"  # too short to be sought


def test_without_secrets_the_same_object_comes_back() -> None:
    data = b"x" * 1000
    assert mask_for({}) is NO_MASK
    assert NO_MASK.bytes(data) is data
    assert NO_MASK.text("") == ""


def test_text_that_is_no_unicode_survives() -> None:
    assert Mask(["hidden"]).text("a\ud800hidden") == "a\ud800***"


@pytest.mark.parametrize(
    ("value", "problem"), [("abc", "fewer than 4"), ("a\0bcd", "none may be 0"), (12345, "a text")]
)
def test_what_cannot_be_a_secret(value: object, problem: str) -> None:
    with pytest.raises(InvalidError, match=problem) as refused:
        check_secret("value", value)
    assert str(value) not in str(refused.value).replace("may be 0", "")


def test_too_long_for_a_secret() -> None:
    with pytest.raises(InvalidError, match="32,768"):
        check_secret("value", "x" * 32_769)


@pytest.mark.parametrize("write", [WRITERS[place] for place in (0, 1, 2, 3, 5, 6, 7)])
def test_long_values_are_hidden_too(write: Callable[[str], str]) -> None:
    value = VALUE * 100
    assert Mask([value]).text(f"<{write(value)}>") == "<***>"


def odd(count: int, seed: int = 0) -> str:
    return "".join(chr(33 + (place * 7 + seed) % 14) for place in range(count))


@pytest.mark.parametrize(
    "values",
    [
        [odd(MAX_SECRET_BYTES)],
        [odd(100, seed) for seed in range(32)],
        [odd(500, seed) for seed in range(32)],
        ["\n".join(odd(499, line + 64 * seed) for line in range(64)) for seed in range(4)],
        ["\n".join(f"{number:04x}" for number in range(MAX_SECRET_BYTES // 5))],
        ["\n".join(f"{number:08x}" for number in range(MAX_SECRET_BYTES // 9))],
    ],
    ids=["one long", "many", "many long", "long lines", "short lines", "many lines"],
)
def test_no_values_hold_up_a_worker(values: list[str]) -> None:
    """Neither making the mask nor using it: milliseconds, so that this much means something is wrong."""
    line = "2026-01-01 hello world this is a plain log line 123456\n"
    begun_s = time.process_time()
    hidden = Mask(values).text(line * 1000 + values[-1])
    assert time.process_time() - begun_s < 0.5
    assert hidden == line * 1000 + "***"


def test_of_many_lines_the_longest_are_hidden() -> None:
    value = "\n".join(["a short", *(f"line {number:06}" for number in range(300)), "the longest of all lines"])
    mask = Mask([value])
    assert mask.text("a short the longest of all lines") == "a short ***"
    assert sum(mask.text(line) == "***" for line in value.splitlines()) == 256
    assert mask.text(f"<{value}>") == "<***>"


def test_values_that_overlap_are_hidden_together() -> None:
    long = "cdefghij" * 3000
    assert Mask(["abcdef", long]).text(f"ab{long} x") == "*** x"


@pytest.mark.parametrize("before", range(0, 60, 3))
def test_a_tail_begins_with_no_part_of_a_secret(before: int) -> None:
    """Wherever the rest was cut off."""
    mask = Mask(["correct-horse"])
    whole = b"." * before + b"correct-horse" * 3 + b"." * 30
    kept = whole[-(30 + mask.longest) :]
    tail = mask.tail(kept, 30)
    assert len(tail) <= 30
    assert set(tail) <= set(b".*")
    assert mask.tail(b"short", 30) == b"short"
    assert NO_MASK.tail(b"x" * 30, 30) == b"x" * 30
