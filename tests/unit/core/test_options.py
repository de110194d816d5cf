"""Options as users write them: what is wrong is named, whatever it is."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, json

from mainspring.core.job import MAX_NAME, MAX_TAGS, Resources
from mainspring.core.options import MAX_LABELS, MAX_RETRIES, JobOptions, Moment, merged, parse_options
from mainspring.core.retry import Backoff
from mainspring.errors import InvalidError

NAMES = ["queue", "tenant", "client", "key", "limit_key"]
SCALES = ["priority", "complexity"]
DURATIONS = ["timeout", "delay", "unique", "cache", "result_ttl", "backoff", "deadline", "start_by"]

BAD_NAMES: list[object] = [
    "",
    "x" * (MAX_NAME + 1),
    "nul\0",
    "line\nbreak",
    "line\rbreak",
    "tab\t",
    "half \ud800",
    "\u2028",
    7,
    True,
    b"bytes",
    ["list"],
    float("nan"),
]
BAD_NUMBERS: list[object] = [0, 11, -1, 2**63, True, False, 5.0, "5", float("nan"), float("inf"), [5], b"5"]
BAD_DURATIONS: list[object] = [
    -1,
    -0.001,
    "-1s",
    "",
    "soon",
    "1 fortnight",
    float("nan"),
    float("inf"),
    -math.inf,
    2**63,
    10**400,
    True,
    timedelta(seconds=-1),
    timedelta(days=40_000),
    "1" * 100 + "s",
    b"1s",
    [1],
    "1s\0",
    "\uff11s",
]
BAD_TIMES: list[object] = [
    datetime(2030, 1, 1),  # noqa: DTZ001
    "2030-01-01T00:00:00Z",
    1_900_000_000,
    True,
    float("nan"),
    timedelta(1),
]
BAD_LISTS: list[object] = ["text", b"bytes", 7, True, [""], [7], ["ok", "bad\n"], ["\ud800"], {"x": None}.items()]

CASES = [
    *((field, value) for field in NAMES for value in BAD_NAMES),
    *((field, value) for field in SCALES for value in BAD_NUMBERS),
    *(("retries", value) for value in [-1, MAX_RETRIES + 1, 2**63, True, 1.0, "1", float("nan")]),
    *((field, value) for field in DURATIONS for value in BAD_DURATIONS),
    *((field, 0) for field in ("timeout", "unique", "cache", "result_ttl")),
    ("delay", datetime(2030, 1, 1, tzinfo=UTC)),
    *(("at", value) for value in BAD_TIMES),
    *((field, value) for field in ("tags", "labels") for value in BAD_LISTS),
    ("tags", ["x"] * (MAX_TAGS + 1)),
    ("labels", [str(n) for n in range(MAX_LABELS + 1)]),
    *(("cpu", value) for value in [0, -1, 4097, float("nan"), float("inf"), True, "1", 2**63]),
    *(("memory_mb", value) for value in [0, -1, 2**63, True, 1.5, "1"]),
    *(("gpu", value) for value in [-1, 1025, True, 1.0, "1"]),
]


@pytest.mark.parametrize(("field", "value"), CASES, ids=lambda value: ascii(value)[:40])
def test_a_bad_option_is_refused_and_named(field: str, value: object) -> None:
    given_options: dict[str, Any] = {field: value}
    with pytest.raises(InvalidError) as caught:
        parse_options(**given_options)
    assert caught.value.field.partition("[")[0] == field
    str(caught.value).encode()  # the message can be shown


@pytest.mark.parametrize(
    "options",
    [
        {"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"key": "k", "unique": 5},
        {"key": "k", "cache": 5},
        {"unique": 5, "cache": 5},
        {"nonsense": 1},
    ],
)
def test_what_cannot_be_said_together_or_at_all_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        parse_options(**options)


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({"queue": "x" * MAX_NAME}, "queue", "x" * MAX_NAME),
        ({"tenant": "ä 日本"}, "tenant", "ä 日本"),
        ({"priority": 1}, "priority", 1),
        ({"priority": 10}, "priority", 10),
        ({"retries": 0}, "retries", 0),
        ({"retries": MAX_RETRIES}, "retries", MAX_RETRIES),
        ({"backoff": "5s"}, "backoff", Backoff(5.0)),
        ({"backoff": Backoff(1.0, 2.0)}, "backoff", Backoff(1.0, 2.0)),
        ({"timeout": timedelta(minutes=1)}, "timeout_s", 60.0),
        ({"delay": 0}, "due", Moment(after_s=0.0)),
        ({"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}, "due", Moment(at=1_000_000)),
        ({"deadline": "1h"}, "deadline", Moment(after_s=3600.0)),
        ({"start_by": datetime(1970, 1, 1, tzinfo=UTC)}, "start_by", Moment(at=0)),
        ({"cache": "1h"}, "cache_s", 3600.0),
        ({"result_ttl": "2d"}, "result_ttl_s", 172_800.0),
        ({"tags": ["x"] * MAX_TAGS}, "tags", ("x",) * MAX_TAGS),
        ({"labels": {"a", "b"}}, "labels", frozenset({"a", "b"})),
        ({"cpu": 4096}, "resources", Resources(cpu=4096.0)),
        ({"memory_mb": 1, "gpu": 0}, "resources", Resources(memory_mb=1)),
        ({"queue": None}, "queue", UNSET),
    ],
)
def test_good_options_up_to_their_limits_are_taken(options: dict[str, Any], field: str, value: object) -> None:
    parsed = parse_options(**options)
    assert getattr(parsed, field) == value
    assert json.decode(json.encode(parsed), type=JobOptions) == parsed


def test_who_comes_later_overrides_field_by_field() -> None:
    base = parse_options(queue="a", priority=3, tags=["x"])
    over = parse_options(priority=9)
    both = merged(base, over)
    assert (both.queue, both.priority, both.tags) == ("a", 9, ("x",))
    assert merged(base, JobOptions()) is base


def test_of_key_unique_and_cache_the_last_one_said_counts() -> None:
    unique, cache, key = parse_options(unique=5), parse_options(cache=5), parse_options(key="k")
    assert merged(unique, cache) == cache
    assert merged(cache, unique) == unique
    assert merged(cache, key) == key
    assert merged(cache, parse_options(priority=9)) == parse_options(cache=5, priority=9)


@given(st.text())
def test_any_text_is_either_a_name_or_refused(text: str) -> None:
    if 0 < len(text) <= MAX_NAME and text.isprintable():
        assert parse_options(queue=text).queue == text
        text.encode()
    else:
        with pytest.raises(InvalidError, match=r"^queue"):
            parse_options(queue=text)
