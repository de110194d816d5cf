"""`mainspring submit`."""

from pathlib import Path

import pytest

from cli.harness import Cli
from mainspring.core.partition import parse_id

EVERYWHERE = True


def test_submits_with_the_kinds_defaults(cli: Cli) -> None:
    ran = cli("submit", "send", "--args", '{"to": "a"}')
    assert (ran.code, ran.err) == (0, "")
    parse_id(ran.out.strip())
    shown = cli("jobs", "show", ran.out.strip(), "--json").document
    assert shown["queue"] == "mail"
    assert shown["tags"] == ["post"]
    assert shown["retries"] == 2
    assert shown["state"] == "pending"
    assert shown["arguments"] == {"to": "a"}


def test_options_override_the_defaults(cli: Cli) -> None:
    options = ["--queue", "q", "--priority", "9", "--tag", "a", "--tag", "b", "--label", "gpu", "--retries", "7"]
    options += ["--at", "2090-01-01T00:00:00Z", "--deadline", "2090-01-02T00:00:00Z", "--start-by", "36500d"]
    options += [
        "--timeout",
        "5s",
        "--tenant",
        "t",
        "--client",
        "c",
        "--cpu",
        "0.5",
        "--memory-mb",
        "100",
        "--complexity",
        "2",
    ]
    ran = cli("submit", "send", "--args", '{"to": "a"}', *options, "--json")
    shown = cli("jobs", "show", ran.document["id"], "--json").document
    assert (shown["queue"], shown["priority"], shown["tags"], shown["labels"]) == ("q", 9, ["a", "b"], ["gpu"])
    assert (shown["retries"], shown["timeout_s"], shown["tenant"], shown["client"]) == (7, 5.0, "t", "c")
    assert (shown["due_at"], shown["deadline_at"]) == ("2090-01-01T00:00:00Z", "2090-01-02T00:00:00Z")
    assert shown["resources"] == {"cpu": 0.5, "memory_mb": 100, "gpu": 0}


def test_a_key_makes_one_job(cli: Cli) -> None:
    first = cli("submit", "send", "--args", '{"to": "a"}', "--key", "k", "--json").document
    again = cli("submit", "send", "--args", '{"to": "a"}', "--key", "k", "--json").document
    assert (first["existed"], again["existed"]) == (False, True)
    assert first["id"] == again["id"]
    assert "another key" in cli.fails(1, "submit", "send", "--args", '{"to": "b"}', "--key", "k")


def test_an_unknown_kind_names_the_known_ones(cli: Cli) -> None:
    assert "broken, report, send" in cli.fails(2, "submit", "sned")


def test_a_missing_store_is_not_made(bare: Cli) -> None:
    assert "there is no store" in bare.fails(3, "submit", "send")
    assert not Path("mainspring.db").exists()


def test_with_the_application_arguments_are_checked(cli: Cli) -> None:
    assert "arguments.to: is missing" in cli.fails(2, "submit", "send", "--app", "tasks:app")
    assert "count" in cli.fails(2, "submit", "send", "--app", "tasks:app", "--args", '{"to": "a", "count": "x"}')
    assert "is not a parameter" in cli.fails(2, "submit", "send", "--app", "tasks:app", "--args", '{"no": 1}')
    assert "broken, report, send" in cli.fails(1, "submit", "nope", "--app", "tasks:app")
    assert cli("submit", "send", "--app", "tasks:app", "--args", '{"to": "a", "count": 3}').code == 0


def test_the_application_alone_may_make_the_store(bare: Cli) -> None:
    assert bare("submit", "send", "--app", "tasks", "--args", '{"to": "a"}', "--store", "sqlite:///other.db").code == 0
    assert Path("other.db").exists()


def test_delay_and_at_do_not_go_together(cli: Cli) -> None:
    assert "at" in cli.fails(2, "submit", "send", "--delay", "1s", "--at", "2090-01-01T00:00:00Z")


def test_waiting_in_vain_is_code_4(cli: Cli) -> None:
    ran = cli("submit", "send", "--args", '{"to": "a"}', "--wait", "--wait-timeout", "50ms")
    assert ran.code == 4
    assert "jobs explain" in ran.err


@pytest.mark.parametrize("url", ["postgres://x", "", "sqlite:", "sqlite:///", "file.db"])
def test_a_store_that_is_none(cli: Cli, url: str) -> None:
    assert cli.fails(2, "submit", "send", "--store", url).startswith("store: ")
