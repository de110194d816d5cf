"""docs/reference/cli.md says what the commands say: every command, argument and option, and nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from mainspring.cli.root import COMMANDS, build

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
_HEADING = re.compile(r"^### `mainspring ([a-z -]+)`$", re.MULTILINE)
_EVERYWHERE = {"--store", "--server", "--json"}  # described once, for all commands
_OPTION = re.compile(r"^\| `(--[a-z-]+)", re.MULTILINE)


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def documented() -> dict[str, str]:
    parts = _HEADING.split(PAGE.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


TREE = {name: command for name, command in commands(typer.main.get_command(build())) if not name.startswith("bench")}


def test_every_command_has_its_section() -> None:
    assert documented().keys() == TREE.keys()


@pytest.mark.parametrize("name", TREE)
def test_every_option_is_described(name: str) -> None:
    section = documented()[name]
    options = {option for p in TREE[name].params for option in p.opts if option.startswith("--") and option != "--help"}
    assert set(_OPTION.findall(section)) | _EVERYWHERE == options | _EVERYWHERE
    for parameter in TREE[name].params:
        if not parameter.opts[0].startswith("--"):
            assert f"{parameter.metavar}" in section.partition("\n\n")[2].partition("```")[2]


def test_the_tree_is_complete() -> None:
    assert {name.split()[0] for name in TREE} | {"bench"} == set(COMMANDS)
