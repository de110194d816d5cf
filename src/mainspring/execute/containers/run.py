"""One container from its start to its end, in the way of `sandbox.run`: a context whose end is the container's end too.

The runtime's program is started bare, under the keeper: if the worker is killed, the keeper ends the container, which for all but
docker is below it, and then whatever is left. Whatever ended it otherwise than by itself, it is removed by its name afterwards.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from msgspec import structs

from mainspring.execute.containers.ability import Runtime
from mainspring.execute.containers.clients import environment
from mainspring.execute.containers.engines import Engine
from mainspring.execute.containers.plan import Plan
from mainspring.execute.masking import NO_MASK, Mask
from mainspring.execute.sandbox.folder import Folder, new_folder
from mainspring.execute.sandbox.launch import Order, launcher
from mainspring.execute.sandbox.run import Ended, Running, Write
from mainspring.execute.sandbox.run import started as started_program
from mainspring.execute.sandbox.threads import in_thread, surely
from mainspring.runtime.log import get_logger
from mainspring.wire import Usage

_log = get_logger("mainspring.types")

_UNWATCHED = 2**30
_ENGINES_OWN = 125  # exit codes from here on are not the program's, or not for certain
_REMOVE_S = 60.0
_TIDY_S = 4.0  # twice this is less than a worker waits for the end of what it has killed
_NEARLY = 0.9  # clocks differ


class NoImageError(Exception):
    """The image is not here, and the engine may not fetch it."""


class Container:
    """One that has been started."""

    def __init__(self, running: Running, runtime: Runtime, plan: Plan) -> None:
        self.folder = running.folder
        self._running = running
        self._runtime = runtime
        self._plan = plan
        self.is_gone = False

    @property
    def usage(self) -> Usage:
        return self._running.usage

    async def finish(self, write: Write, mask: Mask = NO_MASK) -> Ended:
        ended = await self._running.finish(write, mask)
        self.is_gone = ended.killed is None and ended.exit_code < _ENGINES_OWN
        if ended.exit_code == _ENGINES_OWN and await in_thread(_lacks_image, self._runtime, self._plan):
            raise NoImageError
        return structs.replace(ended, killed=self._cause()) if ended.killed == "SIGKILL" else ended

    def _cause(self) -> str:
        """Nobody but the kernel kills so, and it does not say why."""
        limits = self._plan.limits
        if limits.cpu_s is not None and (self.usage.cpu_s or 0) >= _NEARLY * limits.cpu_s:
            return f"CPU limit of {limits.cpu_s:g} s"
        return f"SIGKILL, as for a memory limit of {limits.memory_mb} MB"


@asynccontextmanager
async def started(runtime: Runtime, plan: Plan, files: Mapping[str, bytes]) -> AsyncIterator[Container]:
    """In a new folder with these files in it."""
    made: list[Folder] = []
    container: Container | None = None
    try:
        preparing = partial(_prepare, runtime, plan, files, made.append)
        order = await surely(asyncio.get_running_loop().run_in_executor(launcher(), preparing))
        async with started_program(order, folder=made[0]) as running:
            container = Container(running, runtime, plan)
            yield container
    finally:
        await surely(in_thread(_clear_away, runtime, plan, container is not None and container.is_gone, made))


def _prepare(runtime: Runtime, plan: Plan, files: Mapping[str, bytes], made: Callable[[Folder], None]) -> Order:
    folder = new_folder(plan.uid)
    made(folder)
    folder.put(files, plan.uid)
    return _order(runtime, plan, folder)


def _order(runtime: Runtime, plan: Plan, folder: Folder) -> Order:
    """The runtime's program. What the runtime limits itself is not watched as well."""
    limits = plan.limits
    if runtime.limits_itself:
        limits = structs.replace(limits, memory_mb=_UNWATCHED, processes=_UNWATCHED)
    command = runtime.start(plan, folder)
    tidy_s = 0.0 if runtime.name == "docker" else _TIDY_S  # its container is not below its program
    return Order(
        command=command, env=environment(), limits=limits, binary=None, uid=None, tree=None, trusted=True, tidy_s=tidy_s
    )


def _clear_away(runtime: Runtime, plan: Plan, is_gone: bool, folders: Iterable[Folder]) -> None:
    if not is_gone:
        _remove(runtime.remove(plan.name), plan.name)
    if (command := runtime.forget(plan)) is not None:
        _remove(command, plan.name)
    for folder in folders:
        folder.remove()


def _remove(command: list[str], name: str) -> None:
    try:
        subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=environment(),
            timeout=_REMOVE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        _log.warning("a container may be left behind; the next worker here tries again", name=name, error=str(error))


def _lacks_image(runtime: Runtime, plan: Plan) -> bool:
    """Rather than guess it from the words of an engine."""
    if plan.image is None or not isinstance(runtime, Engine) or runtime.pull:
        return False
    asked = subprocess.run(
        runtime.has(plan.image), capture_output=True, stdin=subprocess.DEVNULL, env=environment(), timeout=_REMOVE_S
    )
    return asked.returncode != 0
