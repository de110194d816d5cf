"""`mainspring templates`."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.harness import Cli

EVERYWHERE = True

WELCOME: dict[str, Any] = {
    "kind": "send",
    "arguments": {"to": {"$": "to"}, "count": {"$": "count"}},
    "placeholders": {
        "to": {"description": "whom {to} greet"},
        "count": {"type": "integer", "default": 1, "least": 1, "most": 9},
    },
}


@pytest.fixture
def welcome(cli: Cli) -> Cli:
    """One template is there."""
    assert cli("templates", "put", "welcome", json.dumps(WELCOME)).out == "welcome: version 1 is current\n"
    return cli


def test_list_and_show(welcome: Cli) -> None:
    assert "to, count" in welcome("templates", "list").out
    (listed,) = welcome("templates", "list", "--json").document["templates"]
    assert (listed["name"], listed["version"], listed["tenant"]) == ("welcome", 1, "default")
    shown = welcome("templates", "show", "welcome").out
    assert "must be given" in shown
    assert "at least 1, at most 9" in shown
    assert welcome("templates", "show", "welcome", "--json").document["definition"]["arguments"] == WELCOME["arguments"]
    assert "no template 'other'" in welcome.fails(1, "templates", "show", "other")


def test_versions(welcome: Cli) -> None:
    Path("second.json").write_text(json.dumps(WELCOME | {"description": "second"}))
    assert welcome("templates", "put", "welcome", "@second.json").out == "welcome: version 2 is current\n"
    assert welcome("templates", "rollback", "welcome", "1").out == "welcome: version 1 is current\n"
    assert "2; 1 is current" in welcome("templates", "show", "welcome", "--version", "2").out
    assert "no version 3" in welcome.fails(1, "templates", "rollback", "welcome", "3")


def test_submit(welcome: Cli) -> None:
    job = welcome(
        "templates", "submit", "welcome", "--values", '{"to": "a {to}"}', "--options", '{"priority": 9}'
    ).out.strip()
    shown = welcome("jobs", "show", job, "--json").document
    assert (shown["arguments"], shown["priority"], shown["queue"]) == ({"to": "a {to}", "count": 1}, 9, "mail")
    assert welcome.fails(2, "templates", "submit", "welcome").startswith("values.to: is missing")
    assert welcome.fails(2, "templates", "submit", "welcome", "--values", '{"to": "a", "count": 10}').startswith(
        "values.count"
    )
    assert welcome.fails(2, "templates", "submit", "welcome", "--values", "[]").startswith(
        "values: expected a JSON object"
    )


def test_share_and_submit_as_another_tenant(welcome: Cli) -> None:
    welcome("tenants", "create", "acme")
    words = (
        "templates",
        "submit",
        "welcome",
        "--values",
        '{"to": "a"}',
        "--owner",
        "default",
        "--tenant",
        "acme",
        "--json",
    )
    assert "shares with you" in welcome.fails(1, *words)
    assert welcome("templates", "share", "welcome", "acme", "other").out == "welcome is shared with acme, other\n"
    job = welcome(*words).document["id"]
    assert welcome("jobs", "show", job, "--json").document["tenant"] == "acme"
    assert welcome("templates", "share", "welcome").out == "welcome is shared with nobody\n"


def test_validate(cli: Cli) -> None:
    assert cli("templates", "validate", json.dumps(WELCOME)).out == "valid\n"
    assert cli("templates", "validate", json.dumps(WELCOME), "--values", '{"to": "a"}', "--json").document == {
        "valid": True
    }
    assert cli.fails(2, "templates", "validate", json.dumps(WELCOME), "--values", '{"to": 1}').startswith("values.to: ")
    for broken, field in (
        ({"kind": "send", "arguments": {"to": {"$": "who"}}}, "arguments.to"),
        ({"arguments": {}}, "definition.kind"),
        ({"kind": 1}, "definition.kind"),
        ({"kind": "send", "colour": 1}, "definition.colour"),
        ({"kind": "send", "placeholders": {"x": {"type": "colour"}}}, "definition.placeholders"),
    ):
        assert cli.fails(2, "templates", "validate", json.dumps(broken)).startswith(field)
    assert "not JSON" in cli.fails(2, "templates", "validate", "{")
    assert "cannot read" in cli.fails(2, "templates", "validate", "@nowhere.json")


def test_export_and_import(welcome: Cli) -> None:
    welcome("templates", "put", "lang", json.dumps({"kind": "send", "arguments": {"to": "ä" * 20_000}}))
    Path("all.json").write_text(welcome("templates", "export").out)
    assert json.loads(Path("all.json").read_text()) == welcome("templates", "export", "--json").document
    welcome("tenants", "create", "acme")
    assert welcome("templates", "import", "@all.json", "--tenant", "acme").out == "2 templates imported\n"
    assert welcome("templates", "export", "--tenant", "acme").out == Path("all.json").read_text()


def test_an_import_is_all_or_nothing(cli: Cli) -> None:
    bundle = {"templates": {"good": WELCOME, "bad": WELCOME | {"arguments": {}}}}
    assert cli.fails(2, "templates", "import", json.dumps(bundle)).startswith("templates.bad.placeholders.to: ")
    assert cli("templates", "list").out == "no templates\n"


def test_delete(welcome: Cli) -> None:
    assert welcome("templates", "delete", "welcome").out == "welcome is deleted\n"
    welcome.fails(1, "templates", "delete", "welcome")
