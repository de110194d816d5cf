"""From a wish to a row."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.draft import Draft, claim_of, place
from mainspring.core.job import Resources
from mainspring.core.lane import rounded
from mainspring.core.options import JobOptions, Moment, parse_options
from mainspring.core.partition import slot_for
from mainspring.core.rank import Band
from mainspring.core.timer import HOUR, SECOND
from mainspring.errors import InvalidError

NOW = 1_900_000_000 * SECOND


def test_a_job_without_options_is_ordinary() -> None:
    placed = place("k", JobOptions(), NOW)
    t = placed.template
    assert (t.tenant, t.queue, t.kind, t.priority, t.band, t.due_at) == (
        "default",
        "default",
        "k",
        5,
        Band.MEDIUM,
        None,
    )
    assert (t.options.retries, t.options.timeout_s, t.options.key) == (3, None, None)
    assert placed.slot is None
    assert t.lane == placed.lane.number()


def test_relative_times_count_from_the_submit() -> None:
    t = place("k", parse_options(delay=5, deadline="1h", start_by=10), NOW).template
    assert (t.due_at, t.options.deadline_at, t.options.start_by) == (NOW + 5 * SECOND, NOW + HOUR, NOW + 10 * SECOND)


def test_a_lane_is_made_of_rounded_needs_and_the_job_keeps_its_own() -> None:
    placed = place("k", parse_options(cpu=0.3, memory_mb=700, limit_key="l", labels=["x"]), NOW)
    assert placed.lane.resources == rounded(Resources(cpu=0.3, memory_mb=700)) != placed.template.options.resources
    assert (placed.template.options.resources.cpu, placed.lane.limit_key) == (0.3, "l")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"at": datetime(1969, 12, 31, tzinfo=UTC)}, "at"),
        ({"deadline": datetime(1, 1, 1, tzinfo=UTC)}, "deadline"),
        ({"start_by": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)}, "start_by"),
    ],
)
def test_a_time_before_1970_is_refused_and_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        place("k", parse_options(**options), NOW)
    assert caught.value.field == field


def test_the_year_10000_is_refused_however_it_is_reached() -> None:
    late = 253_402_300_790 * SECOND
    assert place("k", JobOptions(due=Moment(after_s=5.0)), late).template.due_at == late + 5 * SECOND
    with pytest.raises(InvalidError, match="1970 to 9999"):
        place("k", JobOptions(due=Moment(after_s=60.0)), late)


def test_jobs_that_belong_together_share_a_slot() -> None:
    assert place("k", parse_options(key="a"), NOW).slot == slot_for("key", "default", "a")
    assert place("k", parse_options(key="a", tenant="t"), NOW).slot == slot_for("key", "t", "a")
    assert place("k", JobOptions(), NOW, schedule="default/s").slot == slot_for("schedule", "default/s")


# --- claims


def claim(kind: str, arguments: bytes, **options: Any) -> Any:
    return claim_of(Draft(kind, arguments, parse_options(**options)), NOW)


def test_i2_a_key_is_a_claim_for_as_long_as_the_job_and_its_digest_is_kind_and_arguments() -> None:
    first = claim("k", b"1", key="a")
    assert (first.key, first.expires_at) == ("a", None)
    assert first == claim("k", b"1", key="a", priority=9)
    assert first.digest != claim("k", b"2", key="a").digest
    assert first.digest != claim("l", b"1", key="a").digest
    assert claim("k", b"1") is None


def test_i2_unique_is_a_claim_on_the_arguments_for_a_while() -> None:
    first = claim("k", b"1", unique=60)
    assert first.expires_at == NOW + 60 * SECOND
    assert first.key == claim("k", b"1", unique=5).key
    assert first.key != claim("k", b"2", unique=60).key


def test_cache_is_such_a_claim_too_and_says_that_it_reuses() -> None:
    first = claim("k", b"1", cache=60)
    assert (first.expires_at, first.reuse) == (NOW + 60 * SECOND, True)
    assert not claim("k", b"1", unique=60).reuse
    assert first.key == claim("k", b"1", cache=5).key
    assert first.key not in (claim("k", b"2", cache=60).key, claim("k", b"1", unique=60).key)


@pytest.mark.parametrize("claiming", [{"key": "a"}, {"unique": 60}, {"cache": 60}])
def test_i2_a_job_with_another_secret_is_another_job(claiming: dict[str, Any]) -> None:
    first = claim("k", b"1", secrets={"A": "a", "B": "b"}, **claiming)
    assert first == claim("k", b"1", secrets={"B": "b", "A": "a"}, **claiming)
    assert first.digest != claim("k", b"1", secrets={"A": "b", "B": "a"}, **claiming).digest
    assert first.digest != claim("k", b"1", **claiming).digest
    plain = hashlib.blake2b(b"k\0001", digest_size=16).digest()  # as it always was
    assert claim("k", b"1", **claiming).digest == claim("k", b"1", secrets={}, **claiming).digest == plain


@given(st.text(min_size=1), st.binary(), st.text(min_size=1), st.binary())
def test_i2_different_jobs_have_different_digests(kind: str, arguments: bytes, other: str, others: bytes) -> None:
    try:
        a, b = claim(kind, arguments, key="k"), claim(other, others, key="k")
    except UnicodeEncodeError:
        return
    if "\0" not in kind + other:
        assert (a.digest == b.digest) == ((kind, arguments) == (other, others))
