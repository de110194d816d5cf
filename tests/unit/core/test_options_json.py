"""Options and rules as documents: what goes out comes back."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import Backoff
from mainspring.core.options import JobOptions, parse_options
from mainspring.core.options_json import options_document, read_options
from mainspring.core.schedule import parse_rule, read_rule, rule_document
from mainspring.errors import InvalidError

AT = datetime(2030, 1, 31, 9, 0, 0, 123, tzinfo=UTC)

SAID: list[dict[str, Any]] = [
    {},
    {"queue": "q", "tenant": "t", "client": "c", "priority": 9, "complexity": 1, "retries": 0, "key": "k"},
    {"backoff": Backoff(1.5, 60.0), "timeout": "10m", "limit_key": "l", "unique": 30},
    {"cache": "1h", "result_ttl": 90},
    {"delay": "1h30m", "deadline": 60, "start_by": AT},
    {"at": AT, "deadline": AT, "start_by": "2d"},
    {"tags": ["a", "b"], "labels": ["x"], "cpu": 0.5, "memory_mb": 100, "gpu": 2},
    {"delay": 0, "tags": [], "gpu": 0},
]


@pytest.mark.parametrize("said", SAID)
def test_a_round_trip_changes_nothing(said: dict[str, Any]) -> None:
    options = parse_options(**said)
    assert read_options(options_document(options)) == options


def test_the_forms_that_json_has() -> None:
    document = {"at": "2030-01-31T10:00:00.000123+01:00", "start_by": "2030-01-31T09:00:00.000123Z", "backoff": "5s"}
    options = read_options(document)
    assert options == parse_options(at=AT, start_by=AT, backoff=5)
    assert read_options({"queue": None, "at": None}) == JobOptions()


BAD: list[tuple[dict[str, Any], str]] = [
    ({"at": 5}, "at"),
    ({"at": "2030-01-31T09:00:00"}, "at"),
    ({"at": "0001-01-01T00:00:00+23:59"}, "at"),
    ({"deadline": "2030-13-01"}, "deadline"),
    ({"delay": -1}, "delay"),
    ({"delay": True}, "delay"),
    ({"priority": "9"}, "priority"),
    ({"priority": True}, "priority"),
    ({"backoff": {"base_s": 1, "factor": 2}}, "backoff"),
    ({"backoff": {"base_s": -1}}, "backoff.base_s"),
    ({"tags": "a"}, "tags"),
    ({"cpu": "1"}, "cpu"),
    ({"colour": "red"}, "colour"),
    ({"queue": {"a": 1}}, "queue"),
]


@pytest.mark.parametrize(("document", "field"), BAD)
def test_what_is_wrong_is_named(document: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_options(document)
    assert caught.value.field == field


RULES: list[dict[str, Any]] = [
    {"cron": "0 9 * * *"},
    {
        "cron": "*/5 * * * *",
        "tz": "Europe/Berlin",
        "dst": "skip",
        "overlap": "allow",
        "catch_up": "1h",
        "jitter": "30s",
    },
    {"cron": "0 9 * * MON", "calendar": "DE-BY", "on_holiday": "next_business_day", "windows": ["MON-FRI 08:00-18:00"]},
    {"cron": "@daily", "calendar": ["2030-12-24"], "catch_up": "all", "catch_up_cap": 5, "max_runs": 3},
    {"cron": "0 0 * * *", "start_at": AT, "end_at": "2031-01-01T00:00:00Z", "catch_up": "none"},
]


@pytest.mark.parametrize("said", RULES)
def test_a_rule_comes_back_as_it_went(said: dict[str, Any]) -> None:
    rule = parse_rule(**said)
    assert read_rule(rule_document(rule)) == rule


def test_a_rule_needs_its_cron_and_nothing_unknown() -> None:
    for document, field in (({}, "cron"), ({"cron": "0 9 * * *", "every": 5}, "every")):
        with pytest.raises(InvalidError) as caught:
            read_rule(document)
        assert caught.value.field == field
