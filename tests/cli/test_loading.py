"""`module:app`, and what goes wrong with it."""

from pathlib import Path

import pytest

from cli.harness import Cli
from mainspring.cli.loading import load_app


def test_loads_by_module_and_name(workplace: Path) -> None:
    assert {"send", "broken", "report"} <= load_app("tasks:app").registry.names()
    assert load_app("tasks") is load_app("tasks:app")


NO_APP = {
    "nothing": ("", "is not MODULE:APP"),
    "spaces": ("a b:app", "is not MODULE:APP"),
    "a file": ("tasks.py:app", "name it as a module"),
    "a path": ("./tasks", "name it as a module"),
    "no module": ("nowhere:app", "there is no module 'nowhere'"),
    "no package": ("nowhere.at.all:app", "there is no module 'nowhere'"),
    "no attribute": ("tasks:application", "it has tasks:app, tasks:empty"),
    "not an app": ("tasks:send", "is a JobFunction, not a mainspring.App"),
    "no jobs": ("tasks:empty", "has no jobs"),
}


@pytest.mark.parametrize(("target", "problem"), NO_APP.values(), ids=NO_APP.keys())
@pytest.mark.parametrize("command", ["dev", "worker"])
def test_what_is_not_an_application(bare: Cli, command: str, target: str, problem: str) -> None:
    assert problem in bare.fails(2, command, target)


USERS_MISTAKES = {
    "missing import": ("import nowhere_at_all\n", "tasks_bad.py, line 1: ModuleNotFoundError: No module named"),
    "syntax": ("x = 1\ndef (:\n", "tasks_bad.py, line 2: SyntaxError"),
    "raises": (
        "def f():\n    return 1 / 0\n\nf()\n",
        "tasks_bad.py, line 2: ZeroDivisionError: division by zero (in `return 1 / 0`)",
    ),
    "exits": ("import sys\nsys.exit(3)\n", "tasks_bad.py, line 2: SystemExit: 3"),
    "bad option": (
        "from mainspring import App\napp = App()\n@app.job(priority=11)\ndef f() -> None: ...\n",
        "tasks_bad.py, line 3: InvalidError: priority",
    ),
    "bad cron": (
        "from mainspring import App\napp = App()\n@app.schedule('x * * * *')\n@app.job()\ndef f() -> None: ...\n",
        "tasks_bad.py, line 3: CronError",
    ),
}


@pytest.mark.parametrize(("code", "problem"), USERS_MISTAKES.values(), ids=USERS_MISTAKES.keys())
def test_the_users_own_mistakes_name_his_line(bare: Cli, workplace: Path, code: str, problem: str) -> None:
    (workplace / "tasks_bad.py").write_text(code)
    told = bare.fails(1, "worker", "tasks_bad:app")
    assert told.startswith("cannot import tasks_bad: ")
    assert problem in told


def test_dev_without_an_application_says_what_to_do(bare: Cli) -> None:
    assert "mainspring dev tasks:app" in bare.fails(2, "dev")


@pytest.mark.parametrize("wrong", [("--slots", "0"), ("--slots", "x"), ("--grace", "soon"), ("--store", "nope")])
@pytest.mark.parametrize("command", ["dev", "worker"])
def test_wrong_settings_are_refused_before_anything_starts(bare: Cli, command: str, wrong: tuple[str, str]) -> None:
    bare.fails(2, command, "tasks:app", *wrong)
    assert not Path("mainspring.db").exists()
