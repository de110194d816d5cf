"""What people type is read strictly: every case of the bad input list that the command line can meet."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cli.harness import Cli
from mainspring.cli.reading import read_arguments
from mainspring.core.jsontext import encode_object
from mainspring.core.options_json import read_moment
from mainspring.core.timer import read_time
from mainspring.errors import InvalidError

BAD_ARGUMENTS = {
    "not JSON": ("{to: 1}", "not JSON"),
    "empty": ("", "not JSON"),
    "two documents": ("{} {}", "not JSON"),
    "a list": ("[1]", "got a list"),
    "null": ("null", "got null"),
    "a number": ("1", "got a number"),
    "duplicate keys": ('{"a": 1, "a": 2}', "'a' is there twice"),
    "nested duplicate keys": ('{"a": {"b": 1, "b": 1}}', "'b' is there twice"),
    "NaN": ('{"a": NaN}', "NaN is not JSON"),
    "infinity": ('{"a": [-Infinity]}', "-Infinity is not JSON"),
    "overflow": ('{"a": 1e999}', "too large"),
    "2**63": ('{"a": 9223372036854775808}', "64 bits"),
    "a million digits": ('{"a": ' + "9" * 1_000_000 + "}", "64 bits"),
    "deep list": ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    "deep object": ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    "lone surrogate": ('{"a": "\\ud800"}', "surrogate"),
    "lone surrogate in a key": ('{"\\udfff": 1}', "surrogate"),
    "NUL": ('{"a": ["\\u0000"]}', "NUL"),
    "raw control character": ('{"a": "\n"}', "not JSON"),
    "too large": ('{"a": "' + "x" * 1_048_577 + '"}', "too many"),
    "no such file": ("@/nowhere/at/all", "cannot read"),
}


@pytest.mark.parametrize(("text", "problem"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS.keys())
def test_bad_arguments_are_refused_at_once(text: str, problem: str) -> None:
    started_s = time.perf_counter()
    with pytest.raises(InvalidError, match=problem) as caught:
        encode_object("args", read_arguments(text))
    assert caught.value.field == "args"
    assert time.perf_counter() - started_s < 1


@pytest.mark.parametrize(("text", "problem"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS.keys())
def test_bad_arguments_are_one_line_and_code_2(cli: Cli, text: str, problem: str) -> None:
    assert problem in cli.fails(2, "submit", "send", "--args", text)
    assert cli("jobs", "list", "--json").document["jobs"] == []


@pytest.mark.parametrize(
    "text", ["{}", '{"a": {"b": [1, -9223372036854775808, 1.5, null, true, "ü😀"]}}', ' {"a": "\\ud83d\\ude00"} ']
)
def test_good_arguments_are_kept_exactly(text: str) -> None:
    import json

    assert json.loads(encode_object("args", read_arguments(text))) == json.loads(text)


def test_the_size_limit_is_exact() -> None:
    empty = len('{"a":""}')
    assert len(encode_object("args", read_arguments('{"a": "' + "x" * (1_048_576 - empty) + '"}'))) == 1_048_576
    with pytest.raises(InvalidError, match="too many"):
        encode_object("args", read_arguments('{"a": "' + "x" * (1_048_577 - empty) + '"}'))


def test_arguments_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    assert read_arguments(f"@{tmp_path}/a.json") == {"a": 1}
    (tmp_path / "b.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InvalidError, match="UTF-8"):
        read_arguments(f"@{tmp_path}/b.json")


def test_times_need_a_zone_and_a_year() -> None:
    assert read_time("at", "2030-01-31T10:00:00+01:00") == datetime(2030, 1, 31, 9, tzinfo=UTC)
    assert read_time("at", "2030-01-31T09:00:00Z") == datetime(2030, 1, 31, 9, tzinfo=UTC)
    for text in (
        "2030-01-31T09:00:00",
        "2030-01-31",
        "tomorrow",
        "10000-01-01T00:00:00Z",
        "",
    ):
        with pytest.raises(InvalidError):
            read_time("at", text)


def test_a_moment_is_a_duration_or_a_time() -> None:
    assert read_moment("deadline", "2h") == "2h"
    assert read_moment("deadline", "2030-01-31T09:00:00Z") == datetime(2030, 1, 31, 9, tzinfo=UTC)
    assert read_moment("deadline", None) is None


BAD_OPTIONS = [
    ("--delay", "-5s"),
    ("--delay", "soon"),
    ("--delay", "101000w"),
    ("--at", "2030-01-01T00:00:00"),
    ("--at", "10000-01-01T00:00:00Z"),
    ("--at", "0001-01-01T00:00:00+23:59"),
    ("--priority", "0"),
    ("--priority", "11"),
    ("--priority", "high"),
    ("--priority", "9" * 5000),
    ("--queue", ""),
    ("--queue", "a\nb"),
    ("--queue", "x" * 201),
    ("--tenant", "a\tb"),
    ("--key", "\r\n"),
    ("--tag", ""),
    ("--label", "\x1b[31m"),
    ("--retries", "-1"),
    ("--retries", "1e3"),
    ("--timeout", "0s"),
    ("--unique", "0"),
    ("--cache", "0s"),
    ("--result-ttl", "0s"),
    ("--cpu", "nan"),
    ("--cpu", "inf"),
    ("--cpu", "-1"),
    ("--memory-mb", "0"),
    ("--gpu", "-1"),
    ("--complexity", "11"),
    ("--deadline", "2030-13-01"),
    ("--start-by", "later"),
    ("--wait-timeout", "5s"),
    ("--unknown", "1"),
]


@pytest.mark.parametrize(("option", "value"), BAD_OPTIONS)
def test_bad_options_are_one_line_and_code_2(cli: Cli, option: str, value: str) -> None:
    cli.fails(2, "submit", "send", "--args", '{"to": "a"}', option, value)
    assert cli("jobs", "list", "--json").document["jobs"] == []


def test_text_that_is_not_utf8_is_refused(cli: Cli) -> None:
    assert "UTF-8" in cli.fails(2, "jobs", "list", "--tag", "\udcff")
