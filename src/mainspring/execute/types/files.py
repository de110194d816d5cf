"""Files of a program that a job keeps: its outputs, and its checkpoint. For the types whose programs have a `Folder`."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from mainspring.core.objects import MAX_OUTPUTS
from mainspring.errors import InvalidError, SessionEndedError
from mainspring.execute.checkpoints import save
from mainspring.execute.context import Context
from mainspring.execute.sandbox.folder import Folder
from mainspring.execute.sandbox.threads import in_thread

CHECKPOINT = "checkpoint"  # the file in the working folder,
VARIABLE = "MAINSPRING_CHECKPOINT"  # and what tells the program where it is

_EVERY_S = 5.0
_LAST_SAVE_S = 5.0  # no outcome waits longer for what would only save work
_MAX_CHECKPOINT = 64 * 1024 * 1024


async def store_outputs(ctx: Context, folder: Folder, patterns: Sequence[str]) -> None:
    """By the names that they have in the folder. Each is opened through no link, and what is stored is what was opened."""
    if not patterns:
        return
    names = await in_thread(folder.find, patterns)
    if len(names) > MAX_OUTPUTS:
        raise InvalidError("outputs", f"the program has left {len(names)} files of them; {MAX_OUTPUTS} are allowed")
    for name in names:
        fd = await in_thread(folder.open, name)
        if fd is None:
            raise InvalidError("outputs", f"{name} is not a plain file that can be read")
        try:
            await ctx.output(Path(f"/proc/self/fd/{fd}"), name=name)
        finally:
            os.close(fd)


@asynccontextmanager
async def keep_checkpoint(ctx: Context, folder: Folder) -> AsyncIterator[None]:
    """While the program runs, and once more at its end: its checkpoint is stored whenever it has changed."""
    keeper = _Keeper(ctx, folder)
    keeping = asyncio.ensure_future(keeper.keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        with contextlib.suppress(SessionEndedError, TimeoutError):
            async with asyncio.timeout(_LAST_SAVE_S):
                await keeper.look()


class _Keeper:
    def __init__(self, ctx: Context, folder: Folder) -> None:
        self._ctx = ctx
        self._folder = folder
        self._seen: tuple[int, int] | None = None

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.look()

    async def look(self) -> None:
        found = await in_thread(_read, self._folder, self._seen)
        if found is not None:
            self._seen, data = found
            await save(self._ctx._services, data)


def _read(folder: Folder, seen: tuple[int, int] | None) -> tuple[tuple[int, int], bytes] | None:
    """Its content, and by what it will be known again; None: it is not there, has not changed, or is being written."""
    fd = folder.open(CHECKPOINT)
    if fd is None:
        return None
    with open(fd, "rb") as file:
        before = _state(fd)
        if before == seen or before[1] > _MAX_CHECKPOINT:
            return None
        data = file.read()
        return (before, data) if _state(fd) == before else None


def _state(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_mtime_ns, status.st_size
