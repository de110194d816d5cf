from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.duration import MAX_DURATION_S, format_duration, parse_duration
from mainspring.errors import InvalidError


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30s", 30),
        ("10m", 600),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("500ms", 0.5),
        ("1m500ms", 60.5),
        ("1.5h", 5400),
        (" 5s ", 5),
        (0, 0),
        (7, 7),
        (0.25, 0.25),
        (timedelta(minutes=2), 120),
        (MAX_DURATION_S, MAX_DURATION_S),
    ],
)
def test_parse(value: Any, seconds: float) -> None:
    assert parse_duration("timeout", value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            " ",
            "5",
            "s",
            "m5",
            "5 m",
            "5M",
            "-5s",
            "5m5m",
            "30m1h",
            "5mss",
            "1e3s",
            "nan",
            "inf",
            "1h,5m",
            "٣s",
            "5s\0",
        ),
        *(True, False, None, [], b"5s", float("nan"), float("inf"), -1, -0.1, 10**400, timedelta(seconds=-1)),
        *("37000d", "9" * 13 + "s", "1s" * 100, MAX_DURATION_S + 1, timedelta.max, "\ud800"),
    ],
)
def test_bad_ones_name_the_field(value: Any) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_duration("timeout", value)
    assert caught.value.field == "timeout"
    str(caught.value).encode()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (5400, "1h30m"), (0.5, "500ms"), (90_061.0005, "1d1h1m1s0.5ms"), (1_209_600, "2w")]
)
def test_format(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, int(MAX_DURATION_S) - 1), st.integers(0, 999_999))
def test_format_is_read_back(seconds: int, microseconds: int) -> None:
    value = seconds + microseconds / 1_000_000
    assert parse_duration("x", format_duration(value)) == pytest.approx(value, abs=1e-6)
