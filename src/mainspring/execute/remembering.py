"""Steps that are done once in the life of a job, whatever number of attempts it takes: `Memory`.

Called through `Context.step`. Guarantees: a step's result is durable before the caller gets it, and then the step is not done
again: the next attempt is given what was remembered. A step that was under way when its attempt ended, or that raised, is done
again. Every attempt sees a result as it comes back from JSON, also the one that did the step.
"""

import asyncio
import hashlib
import inspect
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from mainspring.core.objects import STEPS, attempt_of, name_of, step
from mainspring.errors import ConflictError, InvalidError
from mainspring.execute.exact import exact_json, words
from mainspring.execute.results import result_decoder
from mainspring.execute.services import Services


class _Remembered(Struct, frozen=True):
    arguments: str  # a digest of them
    result: Raw


_read = msgspec.json.Decoder(_Remembered).decode
# What has no JSON form, such as a connection, counts by its type: two attempts never share the object itself.
_encode = msgspec.json.Encoder(enc_hook=lambda value: type(value).__qualname__, order="deterministic").encode


class Step:
    """One call of a function under a name."""

    def __init__(
        self, name: str, function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        step(1, name)  # can it be kept under that? Once the function was called it is too late
        self.name = name
        self.digest = _digest(name, args, kwargs)
        self._function = function
        self._call = partial(function, *args, **kwargs)

    async def run(self) -> object:
        """A function that is not async runs in a thread."""
        if inspect.iscoroutinefunction(self._function):
            return await self._call()
        value = await asyncio.to_thread(self._call)
        return await value if inspect.isawaitable(value) else value

    def run_here(self) -> object:
        value = self._call()
        if inspect.iscoroutine(value):
            value.close()
            raise InvalidError("function", f"step {self.name!r} is async: await ctx.step(…) in an async function")
        return value

    def decode(self, result: bytes) -> Any:
        try:
            return result_decoder(_return_hint(self._function))(result)
        except Exception as error:
            raise InvalidError(f"result of step {self.name!r}", words(error)) from None


class Memory:
    """The steps of one job, as one attempt meets them."""

    __slots__ = ("_met", "_places", "_services")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._met: set[str] = set()
        self._places: dict[str, str] | None = None if services.assignment.attempt > 1 else {}

    async def recall(self, step: Step) -> bytes | None:
        """What it returned in an earlier attempt; None: it is to be done now."""
        if step.name in self._met:
            raise InvalidError(
                "name", f"step {step.name!r} was done in this attempt already; give each a name of its own"
            )
        self._met.add(step.name)
        try:
            return await self._recall(step)
        except BaseException:
            self.forget(step)
            raise

    async def remember(self, made: Step, value: object) -> bytes:
        result = exact_json(f"result of step {made.name!r}", value)
        data = msgspec.json.encode(_Remembered(made.digest, Raw(result)))
        await self._services.put(step(self._services.assignment.attempt, made.name), data)
        return result

    def forget(self, step: Step) -> None:
        """It was not done: it may be tried again."""
        self._met.discard(step.name)

    async def _recall(self, step: Step) -> bytes | None:
        if self._places is None:
            found = sorted((each.name for each in await self._services.find(STEPS)), key=attempt_of)
            self._places = {
                name_of(place): place for place in found
            }  # of two attempts that did the same the later counts
        place = self._places.get(step.name)
        data = None if place is None else await self._services.read(place)
        if data is None:
            return None
        remembered = _read(data)
        if remembered.arguments != step.digest:
            raise ConflictError(
                f"step {step.name!r} was done with other arguments in an earlier attempt;"
                " call it with the same ones, or give it another name"
            )
        return bytes(remembered.result)


def _digest(name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    try:
        data = _encode((args, kwargs))
    except Exception as error:
        raise InvalidError(f"arguments of step {name!r}", words(error)) from None
    return hashlib.sha256(data).hexdigest()


def _return_hint(function: Callable[..., Any]) -> Any:
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True).get("return", Any)
    except Exception:  # what cannot be resolved is read as plain JSON
        return Any
