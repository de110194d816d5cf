"""The bridge between datetimes and whole microseconds."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.timer import SECOND, from_micros, seconds, to_micros
from mainspring.errors import InvalidError


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))])))
def test_a_time_survives_the_round_trip_to_the_microsecond(at: datetime) -> None:
    try:
        micros = to_micros("at", at)
    except InvalidError:
        assert at.year in (1, 9999)
        return
    assert from_micros(micros) == at


@given(st.integers(0, 3_155_760_000), st.integers(0, 999_999))
def test_a_duration_is_never_rounded_down(whole: int, part: int) -> None:
    exact = whole * SECOND + part
    assert 0 <= seconds(exact / SECOND) - exact <= max(1, exact // 2**50)


def test_less_than_a_microsecond_is_one() -> None:
    assert [seconds(value) for value in (0.0, 1e-9, 1e-6, 0.1, 1.0)] == [0, 1, 1, 100_000, SECOND]


@pytest.mark.parametrize(
    "value",
    [
        datetime(2030, 1, 1),  # noqa: DTZ001
        "2030-01-01",
        1.5,
        None,
    ],
)
def test_a_time_without_a_meaning_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidError) as caught:
        to_micros("at", value)
    assert caught.value.field == "at"
