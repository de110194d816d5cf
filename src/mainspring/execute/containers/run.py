"""One container from its start to its end, in the way of `sandbox.run`: a context whose end is the container's end too.

The runtime's program is started bare, under the keeper: if the worker is killed, the keeper ends it and all that it started, which
for all but docker is the container. Whatever ended it otherwise than by itself, it is removed by its name afterwards.
"""

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from msgspec import structs

from mainspring.execute.containers.ability import Runtime
from mainspring.execute.containers.plan import Plan
from mainspring.execute.sandbox.folder import Folder
from mainspring.execute.sandbox.launch import Order, launch
from mainspring.execute.sandbox.run import Ended, Running, Write, begun, in_thread, new_folder, remove_folder
from mainspring.runtime.log import get_logger

_log = get_logger("mainspring.types")

_UNWATCHED = 2**30
_ENGINES_OWN = 125  # exit codes from here on are not the program's, or not for certain
_REMOVE_S = 60.0

Planned = Callable[[Folder], Plan]


class Container:
    """One that has been started."""

    def __init__(self, running: Running) -> None:
        self.folder = running.folder
        self.process = running.process
        self._running = running
        self.is_gone = False

    async def finish(self, write: Write) -> Ended:
        ended = await self._running.finish(write)
        self.is_gone = ended.killed is None and ended.exit_code < _ENGINES_OWN
        return ended


@asynccontextmanager
async def started(
    runtime: Runtime, name: str, planned: Planned, files: Mapping[str, bytes], uid: int
) -> AsyncIterator[Container]:
    """In a new folder with these files in it, for which `planned` says what to run there."""
    container: Container | None = None
    try:
        async with begun(partial(_start, runtime, planned, files, uid)) as running:
            container = Container(running)
            yield container
    finally:
        if container is None or not container.is_gone:
            await in_thread(_remove, runtime, name)


def _start(runtime: Runtime, planned: Planned, files: Mapping[str, bytes], uid: int) -> Running:
    folder = new_folder(uid)
    try:
        folder.put(files, uid)
        plan = planned(folder)
        limits = plan.limits
        if runtime.limits_itself:
            limits = structs.replace(limits, memory_mb=_UNWATCHED, processes=_UNWATCHED)
        order = Order(
            command=runtime.start(plan),
            env=_environment(),
            limits=limits,
            binary=None,
            uid=None,
            tree=None,
            trusted=True,
        )
        return Running(order, folder, launch(order, folder))
    except BaseException:
        remove_folder(folder)
        raise


def _environment() -> dict[str, str]:
    """The runtime's program is the machine's own, and may be told where its engine is; but nothing of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}


def _remove(runtime: Runtime, name: str) -> None:
    try:
        subprocess.run(
            runtime.remove(name), capture_output=True, stdin=subprocess.DEVNULL, timeout=_REMOVE_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        _log.warning("a container may be left behind; the next worker here tries again", name=name, error=str(error))
