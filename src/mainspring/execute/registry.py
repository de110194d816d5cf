"""The functions a process knows by name: `Kind` and `Registry`.

Filled by the app when the user's modules are imported; read by submit (`encode`), by the worker (`decode`) and by
callers who wait for a result (`decode_result`). Guarantees: a function that could not be called from stored JSON is
refused when it is registered, with the parameter and the way out named. Annotations that point forward are resolved
at first use.
"""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from inspect import Parameter
from typing import Any

from mainspring.core.options import check_name
from mainspring.errors import InvalidError
from mainspring.execute.arguments import Arguments
from mainspring.execute.context import Context
from mainspring.execute.exact import words
from mainspring.execute.results import result_decoder
from mainspring.execute.targets import check_target

ErrorTypes = tuple[type[BaseException], ...]


class Pool(StrEnum):
    """Where a function runs."""

    ASYNC = "async"  # a task in the worker's event loop
    THREAD = "thread"
    PROCESS = "process"


class Kind:
    """One registered function, where it runs, and after which errors it is tried again."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        pool: str | None = None,
        retry_on: ErrorTypes | None = None,
        give_up_on: ErrorTypes = (),
    ) -> None:
        """`retry_on`: only these are tried again (None: all). `give_up_on`: these never are."""
        self.name = check_name("kind", name)
        self.function = _check_function(name, function)
        self.is_async = inspect.iscoroutinefunction(function)
        self.pool = _choose_pool(name, pool, self.is_async)
        self.retry_on = None if retry_on is None else _check_errors("retry_on", retry_on)
        self.give_up_on = _check_errors("give_up_on", give_up_on)
        self.context_name: str | None = None
        self._parameters = _check_parameters(name, function)
        self._arguments: Arguments | None = None
        self._read_result: Callable[[bytes], Any] | None = None
        if self.pool is Pool.PROCESS:
            check_target(name, function, (*(self.retry_on or ()), *self.give_up_on))
        self._resolve(final=False)

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """The arguments of a call as JSON; InvalidError if the call would not fit the function."""
        return (self._arguments or self._resolved()).encode(args, kwargs)

    def decode(self, data: bytes) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments again, checked against the function as it is now."""
        return (self._arguments or self._resolved()).decode(data)

    def decode_result(self, data: bytes | None) -> Any:
        """A stored result as the function's return annotation says; None for no result."""
        self._resolved()
        if data is None or self._read_result is None:
            return None
        try:
            return self._read_result(data)
        except Exception as error:
            raise InvalidError("result", words(error)) from None

    @property
    def takes_context(self) -> bool:
        self._resolved()
        return self.context_name is not None

    def may_retry(self, error: BaseException) -> bool:
        """Is trying again of use after this error?"""
        return not isinstance(error, self.give_up_on) and (self.retry_on is None or isinstance(error, self.retry_on))

    def _resolved(self) -> Arguments:
        if self._arguments is None:
            self._resolve(final=True)
        assert self._arguments is not None
        return self._arguments

    def _resolve(self, *, final: bool) -> None:
        hints = _hints(self.name, self.function, final=final)
        if hints is None:
            return
        takers = [parameter.name for parameter in self._parameters if hints.get(parameter.name) is Context]
        if len(takers) > 1:
            raise InvalidError(f"{self.name}.{takers[1]}", "is a second parameter of type Context; one is enough")
        parameters = [parameter for parameter in self._parameters if parameter.name not in takers]
        self.context_name = takers[0] if takers else None
        self._read_result = result_decoder(hints.get("return", Any))
        self._arguments = Arguments(self.name, parameters, hints, by_name=bool(takers))


class Registry:
    """Kinds by name."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}

    def add(self, kind: Kind) -> Kind:
        known = self._kinds.get(kind.name)
        if known is not None and known.function is not kind.function:
            where = f"{known.function.__module__}.{known.function.__qualname__}"
            raise InvalidError("kind", f"{kind.name!r} is the name of {where} already; give one of them name=…")
        self._kinds[kind.name] = kind
        return kind

    def get(self, name: str) -> Kind | None:
        return self._kinds.get(name)

    def names(self) -> frozenset[str]:
        return frozenset(self._kinds)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def __len__(self) -> int:
        return len(self._kinds)


def _check_function(name: str, function: object) -> Callable[..., Any]:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise InvalidError(name, f"expected a function made with def or async def, got {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidError(name, "a function that yields cannot be a job; return a list instead")
    return function


def _choose_pool(name: str, pool: str | None, is_async: bool) -> Pool:
    if pool is None:
        return Pool.ASYNC if is_async else Pool.THREAD
    try:
        chosen = Pool(pool)
    except ValueError:
        raise InvalidError("pool", f"{pool!r} is none of {', '.join(Pool)}") from None
    if chosen is Pool.ASYNC and not is_async:
        raise InvalidError("pool", f"{name} is not async, it would block every other job; use 'thread' or 'process'")
    if chosen is Pool.THREAD and is_async:
        raise InvalidError("pool", f"{name} is async and runs in the event loop; use 'async' or 'process'")
    return chosen


def _check_errors(field: str, errors: object) -> ErrorTypes:
    listed = errors if isinstance(errors, tuple) else (errors,)
    for error in listed:
        if not (isinstance(error, type) and issubclass(error, BaseException)):
            raise InvalidError(field, f"expected exception types, got {error!r}")
    return listed


def _check_parameters(name: str, function: Callable[..., Any]) -> list[Parameter]:
    refused = {
        Parameter.VAR_POSITIONAL: "*{} has no name in stored arguments; take a list instead",
        Parameter.VAR_KEYWORD: "**{} cannot be checked; name the parameters, or take a dict",
        Parameter.POSITIONAL_ONLY: "{} is positional-only, and arguments are stored by name; remove the '/'",
    }
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters:
        if parameter.kind in refused:
            raise InvalidError(f"{name}.{parameter.name}", refused[parameter.kind].format(parameter.name))
    return parameters


def _hints(name: str, function: Callable[..., Any], *, final: bool) -> dict[str, Any] | None:
    """The annotations as types; None where a name is not defined yet and the last word is not asked for."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        if not final:
            return None
        hint = "import it outside `if TYPE_CHECKING`, because workers need the type"
        raise InvalidError(name, f"the annotation {error.name!r} is not defined; {hint}") from None
    except Exception as error:
        raise InvalidError(name, f"its annotations cannot be read: {error}") from None
