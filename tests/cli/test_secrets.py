"""`mainspring secrets`, `tenants set` and `submit --secret`."""

import io
import json
import os
import sys
from datetime import date

import pytest

from cli.harness import Cli
from mainspring.secrets.keys import VARIABLE, new_key, parse_keys

VALUE = "hunter22"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, new_key(date(2030, 1, 1)))


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Values come from standard input."""
    say(monkeypatch, VALUE + "\n")
    return monkeypatch


def say(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode(errors="surrogateescape"))))


def test_a_secret_is_set_listed_and_deleted_without_its_value(cli: Cli, typed: pytest.MonkeyPatch) -> None:
    told = cli("secrets", "set", "api-token")
    assert (told.code, told.out) == (0, "api-token is set\n")
    shown = cli("secrets", "list")
    assert "api-token" in shown.out
    assert VALUE not in told.out + told.err + shown.out + cli("secrets", "list", "--json").out
    assert cli("secrets", "delete", "api-token").out == "api-token is deleted\n"
    assert cli("secrets", "list").out.startswith("no secrets: set one")
    assert "there is no secret" in cli.fails(1, "secrets", "delete", "api-token")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("abc\n", "fewer than 4"),
        ("x" * 70_000, "32,768"),
        ("x" * 32_768 + "\r\nand more", "32,768"),
        ("\udcffabcd", "not UTF-8"),
    ],
)
def test_values_that_are_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch, text: str, problem: str) -> None:
    say(monkeypatch, text)
    told = cli.fails(2, "secrets", "set", "api-token")
    assert problem in told
    assert text not in told


def test_a_value_of_several_lines_keeps_them(cli: Cli, typed: pytest.MonkeyPatch) -> None:
    say(typed, "one\r\n\ntwo\n\n")
    assert cli("secrets", "set", "api-token").code == 0


def test_without_keys(cli: Cli, typed: pytest.MonkeyPatch) -> None:
    typed.delenv(VARIABLE)
    assert "set MAINSPRING_SECRET_KEYS" in cli.fails(1, "secrets", "set", "api-token")
    assert "set MAINSPRING_SECRET_KEYS" in cli.fails(1, "secrets", "rotate")
    assert "set MAINSPRING_SECRET_KEYS" in cli.fails(1, "tenants", "set", "default", "--sealed")


def test_a_bad_key_is_said_when_the_store_is_opened(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "a:b")
    assert "MAINSPRING_SECRET_KEYS: the key 'a' is not base64" in cli.fails(2, "jobs", "list")


def test_rotating(cli: Cli, typed: pytest.MonkeyPatch) -> None:
    cli("secrets", "set", "api-token")
    made = cli("secrets", "new-key")
    assert "keep it where only servers read it" in made.err
    fresh = parse_keys("key", made.out).current
    told = cli("secrets", "rotate")
    assert told.out.startswith("0 values changed")
    typed.setenv(VARIABLE, f"{made.out.strip()},{os.environ[VARIABLE]}")
    assert cli("secrets", "rotate", "--json").document == {"key": fresh, "changed": 1, "unreadable": 0}
    assert fresh in cli("secrets", "list").out
    typed.setenv(VARIABLE, new_key(date(2030, 1, 2)))
    assert "No key here opens 1 value: keep the older keys" in cli("secrets", "rotate").out


def test_sealing_a_tenant(cli: Cli) -> None:
    assert cli("tenants", "set", "default", "--sealed").out == "default is sealed\n"
    assert "sealed" in cli("tenants", "list").out
    assert cli("tenants", "set", "default", "--unsealed", "--json").document["sealed"] is False
    assert "there is no tenant" in cli.fails(1, "tenants", "set", "nobody", "--sealed")


def test_a_submit_names_secrets(cli: Cli) -> None:
    given = ("submit", "send", "--args", json.dumps({"to": "a"}), "--json")
    made = cli(*given, "--secret", "TOKEN=api-token", "--secret", "OTHER").document
    shown = cli("jobs", "show", made["id"], "--json").document
    assert shown["secrets"] == {"TOKEN": "api-token", "OTHER": "OTHER"}
    assert "TOKEN = api-token" in cli("jobs", "show", made["id"]).out
    assert "is no name for a variable" in cli.fails(2, *given, "--secret", "a b=c")
