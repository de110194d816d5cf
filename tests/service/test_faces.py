"""Both ways to do the verbs have every method of every face, and take the same."""

import inspect
from typing import get_type_hints

import pytest

from mainspring.client.verbs import RemoteVerbs
from mainspring.verbs import faces
from mainspring.verbs.local import LocalVerbs

GROUPS = {
    name: get_type_hints(group.fget)["return"]
    for name, group in vars(faces.Verbs).items()
    if isinstance(group, property)
}
METHODS = [(group, method) for group, face in GROUPS.items() for method in vars(face) if not method.startswith("_")]


def local_of(group: str) -> type:
    made: type = get_type_hints(getattr(LocalVerbs, group).fget)["return"]
    return made


def remote_of(group: str) -> type:
    return type(getattr(RemoteVerbs(None, None), group))  # type: ignore[arg-type]


def taken(function: object, *, beside: object = None) -> list[tuple[str, object, object]]:
    """Without what a method takes by name only, and does not need, and the face says nothing of: that is between the rooms."""
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    known = parameters if beside is None else inspect.signature(beside).parameters  # type: ignore[arg-type]
    return [
        (parameter.name, parameter.kind, parameter.default)
        for name, parameter in parameters.items()
        if name in known or parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty
    ]


def test_there_is_something_to_compare() -> None:
    assert len(GROUPS) == 11
    assert len(METHODS) > 50


@pytest.mark.parametrize(("group", "method"), METHODS)
def test_a_verb_takes_the_same_everywhere(group: str, method: str) -> None:
    said = getattr(GROUPS[group], method)
    for made in (local_of(group), remote_of(group)):
        done = getattr(made, method)
        assert taken(done, beside=said) == taken(said), made
        assert inspect.iscoroutinefunction(done) == inspect.iscoroutinefunction(said), made
        hints, wanted = get_type_hints(done), get_type_hints(said)
        assert {name: hints[name] for name in wanted if name != "return"} == {
            name: hint for name, hint in wanted.items() if name != "return"
        }, made


def test_a_client_loads_no_driver_and_no_server() -> None:
    import subprocess
    import sys

    code = (
        "import mainspring, mainspring.client.verbs, sys; mainspring.App('http://localhost:1');"
        "print([name for name in ('apsw', 'asyncpg', 'uvicorn', 'typer') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"
