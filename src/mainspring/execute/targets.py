"""How a function is found again in another process: by the module and the name it was defined under.

`check_target` runs at registration and refuses what has no such address; `Target` travels to the child, which calls
`load`. The program's main module is loaded in the child as `multiprocessing` does it: under another name, so that
code under `if __name__ == "__main__"` does not run again.
"""

import importlib
import inspect
import multiprocessing.spawn
import pickle
import sys
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct

from mainspring.errors import InvalidError

_MAIN = "__main__"

#: True in a child while it loads the main module; a worker that is started then belongs under the guard.
loading_main = False


class Target(Struct, frozen=True):
    """Where a function lives; `main` tells how to load the main module if it lives there."""

    module: str
    qualname: str
    main: dict[str, str] = {}


def check_target(name: str, function: Callable[..., Any], errors: tuple[type[BaseException], ...]) -> None:
    """InvalidError if another process could not find the function or its exception types."""
    if "<" in function.__qualname__ or inspect.ismethod(function):
        what = f"{function.__qualname__} cannot be found from another process"
        raise InvalidError(name, f"{what}; for pool='process' define it with def at the top of a module")
    if function.__module__ == _MAIN and not _main_data():
        raise InvalidError(name, "pool='process' needs a function in a module that can be imported; move it to one")
    for error in errors:
        if "<locals>" in error.__qualname__:
            raise InvalidError(
                name, f"{error.__qualname__} cannot be found from another process; define it at the top of a module"
            )


def target_of(function: Callable[..., Any]) -> Target:
    main = _main_data() if function.__module__ == _MAIN else {}
    return Target(function.__module__, function.__qualname__, main)


def load(target: Target) -> Callable[..., Any]:
    """The function itself, in the child; an object that a decorator left under its name says so by `__wrapped__`."""
    if target.main:
        _load_main(target.main)
    found: Any = importlib.import_module(target.module)
    for name in target.qualname.split("."):
        found = getattr(found, name)
    while not inspect.isfunction(found):
        if not hasattr(found, "__wrapped__"):
            what = f"{target.module}.{target.qualname} is now a {type(found).__name__}"
            raise InvalidError("function", f"{what}; a decorator that replaces a function must keep it as __wrapped__")
        found = found.__wrapped__
    return cast("Callable[..., Any]", found)


def pickle_errors(retry_on: object, give_up_on: object) -> bytes:
    """Exception types by reference."""
    return pickle.dumps((retry_on, give_up_on))


def _main_data() -> dict[str, str]:
    main = sys.modules[_MAIN]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if isinstance(name, str):
        # A package's __main__ is not loaded again by multiprocessing either: nothing guards it.
        return {} if name.endswith("__main__") else {"init_main_from_name": name}
    path = getattr(main, "__file__", None)
    return {"init_main_from_path": path} if isinstance(path, str) else {}


def _load_main(data: dict[str, str]) -> None:
    global loading_main
    loading_main = True
    try:
        multiprocessing.spawn.prepare(dict(data))
    finally:
        loading_main = False
