"""JSON from outside: what is accepted says the same when it is read again, and the quick way accepts no more than the slow one."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.jsontext import MAX_DEPTH, compact, encode_object, read_object
from mainspring.errors import InvalidError

BAD = {
    "not JSON": (b"{to: 1}", "not JSON"),
    "empty": (b"", "not JSON"),
    "two documents": (b"{} {}", "not JSON"),
    "a list": (b"[1]", "got a list"),
    "null": (b"null", "got null"),
    "duplicate names": (b'{"a":1,"a":2}', "'a' is there twice"),
    "duplicate names, spaced": (b'{"a":1,"b" :2,"b":3}', "'b' is there twice"),
    "duplicate names, escaped": (b'{"a":1,"\\u0061":2}', "'a' is there twice"),
    "duplicate names inside": (b'{"a":[{"b":{"c":1,"c":1}}]}', "'c' is there twice"),
    "duplicate names, quoted text": (b'{"a":1,"a":":\\""}', "'a' is there twice"),
    "NaN": (b'{"a":NaN}', "NaN is not JSON"),
    "overflow": (b'{"a":1e999}', "too large"),
    "2**63": (b'{"a":9223372036854775808}', "64 bits"),
    "-2**63-1": (b'{"a":-9223372036854775809}', "64 bits"),
    "a million digits": (b'{"a":' + b"9" * 1_000_000 + b"}", "64 bits"),
    "deep list": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "deep object": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    "one level too deep": (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "nested too deeply"),
    "lone surrogate": (b'{"a":"\\ud800"}', "surrogate"),
    "lone surrogate in a name": (b'{"\\udfff":1}', "surrogate"),
    "surrogate as bytes": (b'{"a":"\xed\xa0\x80"}', "UTF-8"),
    "not UTF-8": (b'{"a":"\xff"}', "UTF-8"),
    "NUL": (b'{"a":["\\u0000"]}', "NUL"),
    "raw control character": (b'{"a":"\n"}', "not JSON"),
    "too large": (b'{"a":"' + b"x" * 1_048_577 + b'"}', "too many"),
    "very long": (b" " * 5_000_000 + b"{}x", "longer than"),
}


@pytest.mark.parametrize(("data", "problem"), BAD.values(), ids=BAD.keys())
def test_bad_json_is_refused_at_once_and_by_name(data: bytes, problem: str) -> None:
    started_s = time.perf_counter()
    with pytest.raises(InvalidError, match=problem) as caught:
        compact("arguments", data)
    assert caught.value.field == "arguments"
    assert time.perf_counter() - started_s < 1


GOOD = [
    b"{}",
    b' { "a" : [1, -9223372036854775808, 9223372036854775807, 1.5, null, true] } ',
    '{"ü":"😀","t":"\\ud83d\\ude00"}'.encode(),
    b'{"q":"say \\"hi\\":","c":":","e":"\\\\"}',
    b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH,
    b'{"brackets":"' + b"[{" * 100 + b'"}',
]


@pytest.mark.parametrize("data", GOOD)
def test_good_json_is_kept_and_without_spaces(data: bytes) -> None:
    stored = compact("arguments", data)
    assert json.loads(stored) == json.loads(data)
    assert stored == compact("arguments", stored) == encode_object("arguments", json.loads(data))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), values, max_size=4), st.booleans())
def test_bytes_and_values_are_judged_alike(value: dict[str, Any], ascii: bool) -> None:
    try:
        data = json.dumps(value, ensure_ascii=ascii).encode()
    except UnicodeEncodeError:
        data = json.dumps(value).encode()
    try:
        wanted = encode_object("a", value)
    except InvalidError:
        with pytest.raises(InvalidError):
            compact("a", data)
    else:
        assert compact("a", data) == wanted


@given(st.lists(st.sampled_from(["a", "b", "ab", ":", '"', "a b"]), max_size=5), st.sampled_from([":", " :", ": "]))
def test_a_name_twice_is_always_seen(names: list[str], colon: str) -> None:
    data = ("{" + ",".join(json.dumps(name) + colon + '":"' for name in names) + "}").encode()
    if len(set(names)) == len(names):
        assert list(json.loads(compact("a", data))) == names
    else:
        with pytest.raises(InvalidError, match="twice"):
            compact("a", data)


BAD_VALUES: dict[str, Any] = {
    "a number as a name": {1: 2},
    "bytes": {"a": b"x"},
    "a tuple": {"a": (1,)},
    "infinity": {"a": [float("inf")]},
    "2**63": {"a": 2**63},
    "a huge number": {"a": 10**5000},
    "half a pair": {"a": {"b": "\ud800"}},
}


@pytest.mark.parametrize("value", BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_values_that_json_does_not_have(value: dict[Any, Any]) -> None:
    with pytest.raises(InvalidError):
        encode_object("a", value)


def test_what_is_read_may_be_text() -> None:
    assert read_object("a", '{"x": 1}') == {"x": 1}
