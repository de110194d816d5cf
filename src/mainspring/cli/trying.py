"""A request that works, to try an application's API with: one of its kinds, and arguments that fit."""

import inspect
import typing
from typing import Any

from msgspec import json

from mainspring.errors import MainspringError
from mainspring.execute.context import Context
from mainspring.execute.registry import Kind, Registry

_EXAMPLES: dict[Any, Any] = {str: "text", int: 1, float: 1.5, bool: True, list: [], dict: {}}


def curl_line(registry: Registry, url: str) -> str:
    """A submit; a listing where no kind has arguments that could be made up."""
    for name in sorted(registry.names()):
        kind = registry.get(name)
        arguments = None if kind is None else example(kind)
        if arguments is not None:
            body = json.encode({"kind": name, "arguments": arguments}).decode().replace("'", "'\\''")
            return f"curl {url}/v1/jobs -H 'Content-Type: application/json' -d '{body}'"
    return f"curl {url}/v1/jobs"


def example(kind: Kind) -> dict[str, Any] | None:
    """Arguments that the function takes; None where its types say too little."""
    try:
        hints = typing.get_type_hints(kind.function)
        required = [p.name for p in inspect.signature(kind.function).parameters.values() if p.default is p.empty]
        wanted = {name: hints.get(name) for name in required if hints.get(name) is not Context}
        made = {name: _EXAMPLES[typing.get_origin(hint) or hint] for name, hint in wanted.items()}
        kind.decode(json.encode(made))
    except (MainspringError, LookupError, NameError, TypeError):
        return None
    return made
