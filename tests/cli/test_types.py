"""Job types from the command line."""

import pytest

from cli.harness import Cli
from mainspring.execute.types import catalogue

EVERYWHERE = True


def test_a_command_stands_after_two_dashes(cli: Cli) -> None:
    ran = cli("submit", "script", "--args", '{"env": {"A": "1"}}', "--json", "--", "ls", "-l", "--json")
    assert ran.code == 0, ran.err
    shown = cli("jobs", "show", ran.document["id"], "--json").document
    assert (shown["kind"], shown["arguments"]) == ("script", {"env": {"A": "1"}, "command": ["ls", "-l", "--json"]})


WRONG = {
    "no command": (("submit", "script"), "arguments.command: is missing"),
    "two commands": (("submit", "script", "--args", '{"command": ["a"]}', "--", "b"), "command: is given twice"),
    "another kind": (
        ("submit", "send", "--", "ls"),
        "command: is for script, container: give the arguments of send with --args",
    ),
    "of the application": (
        ("submit", "script", "--app", "tasks:app", "--args", '{"comand": []}'),
        "arguments.comand: is not",
    ),
}


@pytest.mark.parametrize(("command", "problem"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_before_anything_is_submitted(cli: Cli, command: tuple[str, ...], problem: str) -> None:
    assert cli.fails(2, *command).startswith(problem)
    assert cli("jobs", "list", "--json").document["jobs"] == []


def test_a_worker_needs_an_application_or_types(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "or which job types, such as --types script" in bare.fails(2, "worker")
    assert "types: 'shell' is no job type; there are script, http, sql" in bare.fails(2, "worker", "--types", "shell")
    monkeypatch.setattr(catalogue, "why_not", {"sql": "no duck here"}.get)
    assert bare.fails(2, "worker", "--types", "sql") == "types: sql cannot run here: no duck here"
    monkeypatch.setenv("MAINSPRING_TYPES", "sql")
    assert bare.fails(2, "dev", "tasks:app", "--port", "0") == "types: sql cannot run here: no duck here"


def test_the_doctor_says_what_a_worker_could_run(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.cli.checks.why_not", {"sql": "no duck here"}.get)
    bare("migrate")
    ran = bare("doctor", "--json")
    found = {check["check"]: check for check in ran.document["checks"]}
    assert (ran.code, found["type http"]["found"]) == (0, "can run here")
    assert found["type script"]["found"].startswith("can run here: ")
    assert (found["type sql"]["status"], found["type sql"]["todo"]) == ("ok", "no duck here")
    monkeypatch.setenv("MAINSPRING_TYPES", "sql,http")
    ran = bare("doctor", "--json")
    found = {check["check"]: check["status"] for check in ran.document["checks"]}
    assert (ran.code, found["type sql"], found["type http"]) == (1, "fail", "ok")
    monkeypatch.setenv("MAINSPRING_TYPES", "shell")
    assert "correct MAINSPRING_TYPES" in bare("doctor").out
