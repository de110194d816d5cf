"""The job types by name, and those that a worker runs.

Read by `app` (the faces of the types, what a run may execute), by `verbs` (arguments checked at submit, also where nobody has an
application's code) and by the commands. Guarantees: a type's module is imported when the type is first used, never before; a
type that was asked for by name and cannot run here is refused with the reason.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module

from msgspec import json

from mainspring.core.words import listed
from mainspring.errors import InvalidError
from mainspring.execute.registry import Kind, Registry
from mainspring.execute.types import JobType

ALL = "all"

# Where each lives, as `TYPE`.
PLACES = {
    "script": "mainspring.execute.types.script",
    "http": "mainspring.execute.types.http",
    "sql": "mainspring.execute.types.sql",
    "container": "mainspring.execute.types.container",
}
COMMANDS = ("script", "container")  # those that take a `command`


class TypeKind(Kind):
    """The kind of a type: as any other, with the type's own checks at submit."""

    def __init__(self, type_: JobType) -> None:
        super().__init__(type_.name, type_.function, give_up_on=type_.give_up_on)
        self._check = type_.check

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        data = super().encode(args, kwargs)
        if self._check is not None:
            self._check(**self.decode(data)[1])
        return data


def is_type(kind: str) -> bool:
    return kind in PLACES


@cache
def load(name: str) -> JobType:
    found: JobType = import_module(PLACES[name]).TYPE
    return found


@cache
def type_kind(name: str) -> TypeKind:
    return TypeKind(load(name))


def find_kind(registry: Registry, name: str) -> Kind | None:
    """An application's kind, or a type."""
    return type_kind(name) if is_type(name) else registry.get(name)


def refuse_reserved(field: str, kind: str) -> None:
    if is_type(kind):
        raise InvalidError(field, f"{kind!r} is the name of a job type; call it something else")


def checked(kind: str, arguments: bytes) -> bytes:
    """A JSON object again; InvalidError if it is for a type that could not be called with it. Other kinds are not known here."""
    if is_type(kind):
        type_kind(kind).encode((), json.decode(arguments))
    return arguments


@cache
def why_not(name: str) -> str | None:
    """Why a type cannot run on this machine; None where it can. May take a moment, once: what the machine has is tried out."""
    return load(name).missing()


def read_names(field: str, given: object) -> tuple[str, ...]:
    """Names of types, as a list or as text with commas; `all` stands for those that the machine has."""
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, Iterable):
        raise InvalidError(field, f"expected names of job types, got {given!r}")
    wanted = tuple(dict.fromkeys(name.strip() if isinstance(name, str) else name for name in names))
    wanted = () if wanted == ("",) else wanted
    for name in wanted:
        if name != ALL and (not isinstance(name, str) or not is_type(name)):
            raise InvalidError(field, f"{name!r} is no job type; there are {listed(PLACES)}, and {ALL!r}")
    if ALL in wanted and len(wanted) > 1:
        raise InvalidError(field, f"{ALL!r} stands for itself: leave the other names out")
    return wanted


def with_types(registry: Registry, names: tuple[str, ...]) -> Registry:
    """What a worker runs: the application's kinds and these types."""
    made = Registry()
    for kind in (*registry, *map(type_kind, chosen(names))):
        made.add(kind)
    return made


def chosen(names: tuple[str, ...]) -> list[str]:
    """The types that were asked for: each by its name must be able to run; `all` are those that are."""
    if names == (ALL,):
        return [name for name in PLACES if why_not(name) is None]
    for name in names:
        if why := why_not(name):
            raise InvalidError("types", f"{name} cannot run here: {why}")
    return list(names)
