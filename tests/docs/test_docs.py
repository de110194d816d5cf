"""The documentation says what is true: its code runs, its links lead somewhere, its tables leave nothing out."""

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import typer

from docs.pages import DOCS, PAGES, ROOT, Block, anchors, blocks, links
from docs.serving import run_shell, served
from mainspring import App, config, errors
from mainspring.api import limits
from mainspring.cli.root import build
from mainspring.core.lifecycle import TRANSITIONS
from mainspring.core.options import GivenOptions
from mainspring.core.schedule import parse_rule


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that a page's code runs in, without settings from outside."""
    for variable in [name for name in os.environ if name.startswith("MAINSPRING_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for module in set(sys.modules) - before:
        if getattr(sys.modules[module], "__file__", None) == str(folder / f"{module}.py"):
            del sys.modules[module]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=_name)
def test_the_code_of_a_page_runs(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    with ExitStack() as servers, asyncio.Runner() as runner:
        for block in blocks(page):
            if block.language == "serve":
                for name, value in servers.enter_context(served(place, block.code)).items():
                    monkeypatch.setenv(name, value)
            elif block.language == "sh":
                run_shell(block.code, place)
            elif block.file is not None:
                (place / block.file).write_text(block.code)
            else:
                _run_python(page, block, names, runner)
    if any(place.glob("test_*.py")):
        _run_pytest(place)


def _run_python(page: Path, block: Block, names: dict[str, Any], runner: asyncio.Runner) -> None:
    source = "\n" * (block.line - 1) + block.code  # so that a traceback names the page's own line
    compiled = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if compiled.co_flags & inspect.CO_COROUTINE:
        runner.run(eval(compiled, names))
    else:
        exec(compiled, names)


def _run_pytest(place: Path) -> None:
    (place / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:hypothesispytest",
    ]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = [link for link in links(page) if not _leads_somewhere(page, link)]
    assert not broken


def _leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def test_every_page_can_be_found_from_the_index() -> None:
    index = DOCS / "README.md"
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    assert {page for page in PAGES if page.is_relative_to(DOCS) and page.parent.name != "decisions"} <= listed | {index}


def _own_options_of_job() -> set[str]:
    return set(inspect.signature(App.job).parameters) - {"self", "options"}


def _missing(page: str, names: set[str]) -> set[str]:
    text = (DOCS / page).read_text()
    return {name for name in names if f"`{name}`" not in text}


def test_every_job_option_is_described() -> None:
    assert not _missing("reference/options.md", set(GivenOptions.__annotations__) | _own_options_of_job())


def test_every_field_of_a_schedule_is_described() -> None:
    assert not _missing("guides/schedules.md", set(inspect.signature(parse_rule).parameters))


def test_every_setting_is_described() -> None:
    variables = set(re.findall(r"MAINSPRING_\w+", config.__doc__ or ""))
    assert len(variables) > 15
    assert not _missing("reference/settings.md", variables | set(inspect.signature(App.run).parameters) - {"self"})


def test_every_limit_of_the_api_is_described() -> None:
    assert not _missing("reference/api-limits.md", {name for name in vars(limits) if name.isupper()})


def test_every_error_is_described() -> None:
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert not _missing("reference/errors.md", classes)


def test_every_table_is_described() -> None:
    schema = files("mainspring.store.sqlite").joinpath("migrations")
    created = "\n".join(file.read_text() for file in schema.iterdir() if file.name.endswith(".sql"))
    assert not _missing("internals/store.md", set(re.findall(r"create table (\w+)", created)))


def test_the_diagram_of_states_is_the_table_of_transitions() -> None:
    _, found, rest = (DOCS / "design.md").read_text().partition("<!-- states:begin")
    shown, ended, _ = rest.partition("<!-- states:end -->")
    assert found, "docs/design.md has no states:begin"
    assert ended, "docs/design.md has no states:end"
    edges = [f"    {source} --> {target}" for source in TRANSITIONS for target in sorted(TRANSITIONS[source])]
    assert shown.splitlines()[1:] == ["```mermaid", "stateDiagram-v2", *edges, "```"]


_COMMAND = re.compile(r"(?:^ {4}|`|^ExecStart=/\S*/)mainspring ([a-z][^`#\n]*)", re.MULTILINE)


def test_every_command_that_is_shown_exists() -> None:
    tree: Any = typer.main.get_command(build())
    shown = {command.strip() for page in PAGES for command in _COMMAND.findall(_joined(page))}
    assert len(shown) > 20
    assert not {command for command in shown if not _exists(tree, command.split())}


def _joined(page: Path) -> str:
    """Its text; a command that goes on in the next line is one line."""
    return page.read_text().replace("\\\n", "")


def _exists(command: Any, words: list[str]) -> bool:
    """Are the words a command of the tree, with options that it has? What stands after `--` is somebody else's."""
    words = words[: words.index("--")] if "--" in words else words
    for name in words:
        if name.startswith("-") or not hasattr(command, "commands"):
            break
        if name not in command.commands:
            return False
        command = command.commands[name]
    known = {"--help", *(option for parameter in command.params for option in parameter.opts)}
    return all(word in known for word in words if word.startswith("--"))


PAGE = """
Text.

<!-- run
hidden = 1
-->

```python
shown = 2
```

<!-- not run: it would take too long -->
```python
skipped = 3
```

```sh
not python
```

```python
# tasks.py
x = 4
```
"""


def test_which_blocks_run(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text(PAGE)
    assert [(block.line, block.code, block.file) for block in blocks(page)] == [
        (5, "hidden = 1\n", None),
        (9, "shown = 2\n", None),
        (22, "# tasks.py\nx = 4\n", "tasks.py"),
    ]
    page.write_text(PAGE + "<!-- serve\napp = 5\n-->\n")
    assert [block.language for block in blocks(page)] == ["python", "python", "sh", "python", "serve"]
