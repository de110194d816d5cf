"""`ctx.sync`: what a `Context` has to await, for functions that are not async."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from mainspring.core.options import Duration
from mainspring.errors import InvalidError
from mainspring.execute.remembering import Step
from mainspring.wire import Stored

if TYPE_CHECKING:
    from mainspring.execute.context import Context

_T = TypeVar("_T")
_P = ParamSpec("_P")


class SyncContext:
    """The calls of the same names on `Context`; each returns when it is done, in the thread that calls."""

    def __init__(self, context: "Context") -> None:
        self._context = context

    def checkpoint(self, state: object, every: Duration | None = None) -> None:
        run_here(self._context.checkpoint(state, every))

    def emit(self, value: object) -> None:
        run_here(self._context.emit(value))

    def output(
        self, source: str | os.PathLike[str] | bytes, name: str | None = None, media: str | None = None
    ) -> Stored:
        return run_here(self._context.output(source, name, media))

    def step(self, name: str, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The function runs in this thread."""
        memory, step = self._context._memory, Step(name, function, args, kwargs)
        result = run_here(memory.recall(step))
        if result is None:
            try:
                value = step.run_here()
            except BaseException:
                memory.forget(step)
                raise
            result = run_here(memory.remember(step, value))
        value_: _T = step.decode(result)
        return value_


def run_here(call: Coroutine[Any, Any, _T]) -> _T:
    """In an event loop that lives as long as the call."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(call)
    call.close()
    raise InvalidError(
        "ctx.sync", "is for functions that are not async, and would block this event loop; await ctx.… instead"
    )
