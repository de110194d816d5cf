"""Job types that need no application's code: a script, an HTTP call, a container, an SQL step. One file each.

A type is a kind with a reserved name whose function is ours: `async def script(ctx: Context, ...) -> ...`. So everything a kind has
it has too: arguments checked at submit and again at run, options, schedules, templates, limits, retries, cancelling (the
function is cancelled, and leaves nothing behind), timeouts, results. A worker runs the types that it was told to
(`app.run(types=...)`, `mainspring worker --types`), if it has what they need, and advertises their names as kinds.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from mainspring.errors import MainspringError


class JobType(Struct, frozen=True):
    """What a type's module has as `TYPE`; `catalogue` knows the modules.

    `missing`: why it cannot run on this machine, and what to do about it; None where it can. `check`: what the annotations of the
    function cannot say about its arguments, which it gets by name; it raises `InvalidError("arguments.…", …)`. `give_up_on`: the
    errors after which trying again is of no use. `about`: how it runs on this machine, in words.
    """

    name: str
    function: Callable[..., Awaitable[Any]]
    missing: Callable[[], str | None]
    check: Callable[..., None] | None = None
    give_up_on: tuple[type[BaseException], ...] = ()
    about: Callable[[], str] | None = None


class ProgramError(MainspringError):
    """A program that ran for a job did not do its work; the message has its exit code and its last words."""


class KilledError(ProgramError):
    """It was killed: by a signal of its own making, for its memory, at a limit. The job's reason is `killed`."""
