"""The job types as functions of every app: `app.script`, `app.http`, `app.sql`, `app.container`.

Submitting one needs no worker in this process and no `types=`: that says what this process executes.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from mainspring.app.function import JobFunction
from mainspring.core.options import JobOptions
from mainspring.execute.context import Context
from mainspring.execute.types.catalogue import type_kind

if TYPE_CHECKING:
    from mainspring.app.application import App
    from mainspring.execute.types.container import container
    from mainspring.execute.types.http import http
    from mainspring.execute.types.script import script
    from mainspring.execute.types.sql import sql

P = ParamSpec("P")
R = TypeVar("R")


class TypeFace(Generic[P, R]):
    """An attribute of an app that is a type's function, imported when it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, app: "App", owner: type) -> JobFunction[P, R]:
        kind = type_kind(self._name)
        made: JobFunction[P, R] = JobFunction(app, kind, JobOptions(), kind.function)
        # Kept, as by cached_property: jobs whose options are one object are written as one batch.
        app.__dict__[self._name] = made
        return made


if TYPE_CHECKING:

    def _like(function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]) -> TypeFace[P, R]:
        """The face of a function has its signature, without the context."""


class TypeFaces:
    """What `App` has of them."""

    if TYPE_CHECKING:
        script = _like(script)
        http = _like(http)
        sql = _like(sql)
        container = _like(container)
    else:
        script, http, sql, container = map(TypeFace, ("script", "http", "sql", "container"))
