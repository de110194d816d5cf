"""Functions of the user's that run around jobs and around the worker's life: `Hooks`.

`on_start` and `on_stop` frame the worker (connection pools, say); `on_success` and `on_failure` follow an attempt.
Each may be sync or async and runs in the event loop, so a sync one should be short. A failing `on_start` keeps the
worker from starting; every other failing hook is logged and forgotten.
"""

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, structs

from mainspring.errors import InvalidError
from mainspring.execute.registry import Kind
from mainspring.runtime.log import get_logger
from mainspring.wire import Assignment, Outcome, OutcomeType

_log = get_logger("mainspring.worker")

Hook = Callable[..., Any]


class Hooks(Struct, kw_only=True):
    """`on_success(assignment, result)` gets the result as a caller will read it; `on_failure(assignment, failure)`."""

    on_start: list[Hook] = []
    on_stop: list[Hook] = []
    on_success: list[Hook] = []
    on_failure: list[Hook] = []

    async def started(self) -> None:
        for hook in self.on_start:
            await _call(hook)

    async def stopped(self) -> None:
        for hook in reversed(self.on_stop):
            await _call_safely(hook)

    async def ended(self, assignment: Assignment, kind: Kind | None, outcome: Outcome, data: bytes | None) -> None:
        """`data`: the result as JSON, also where that is too large to be part of the outcome."""
        if assignment.secrets:  # what hooks write is not masked
            assignment = structs.replace(assignment, secrets={})
        if outcome.type is OutcomeType.COMPLETED and self.on_success and kind is not None:
            result = _result(kind, data)
            for hook in self.on_success:
                await _call_safely(hook, assignment, result)
        elif outcome.type is OutcomeType.FAILED:
            for hook in self.on_failure:
                await _call_safely(hook, assignment, outcome.failure)


def _result(kind: Kind, data: bytes | None) -> object:
    try:
        return kind.decode_result(data)
    except InvalidError:  # the function returned something other than it is annotated with
        return msgspec.json.decode(data or b"null")


async def _call(hook: Hook, *args: object) -> None:
    result = hook(*args)
    if inspect.isawaitable(result):
        await result


async def _call_safely(hook: Hook, *args: object) -> None:
    try:
        await _call(hook, *args)
    except Exception:
        _log.exception("hook failed", hook=getattr(hook, "__qualname__", repr(hook)))
