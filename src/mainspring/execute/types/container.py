"""The type `container`: a program in an image or a root folder, through podman, docker, crun or runc.

How that is done is the matter of `execute.containers`; everything else is as for scripts: files in and out, secrets as environment,
the log, a checkpoint, the verdict. The program is not root, has no capabilities, cannot write but to its own folders, and has no
network unless the job asks for it and the worker's owner allows it.

The worker's policy: MAINSPRING_CONTAINER_ROOTS is the folder that root folders are in (else there are none), and
MAINSPRING_CONTAINER_PULL=missing lets images be got from registries (else only those that are here can run).
"""

import os
import re
from pathlib import Path

from msgspec import Struct

from mainspring.errors import InvalidError
from mainspring.execute.ceilings import bounded, check_network, problem
from mainspring.execute.ceilings import describe as describe_ceilings
from mainspring.execute.containers.ability import Runtime, ability
from mainspring.execute.containers.leftovers import name_for
from mainspring.execute.containers.plan import WORK, Plan
from mainspring.execute.containers.run import Container, NoImageError, started
from mainspring.execute.context import Context
from mainspring.execute.sandbox.bubblewrap import PATH
from mainspring.execute.sandbox.launch import LaunchError
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.sandbox.users import Users
from mainspring.execute.types import JobType, ProgramError
from mainspring.execute.types.files import CHECKPOINT, VARIABLE
from mainspring.execute.types.programs import check_program, follow, given_files, last_output

DEFAULT_LIMITS = Limits()

_NAME = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?"
_IMAGE = re.compile(rf"(?:{_HOST}/)?{_NAME}(?:/{_NAME})*(?::\w[\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?")
_TRANSPORTS = ("containers-storage", "dir", "docker-archive", "docker-daemon", "oci", "oci-archive", "ostree", "sif")
_LONGEST = 512
_ROOTS = "MAINSPRING_CONTAINER_ROOTS"
_USERS = Users()


class ContainerResult(Struct, frozen=True):
    """`stdout`: the last 16 KiB of it; the job's log has everything. `runtime`: what ran it."""

    exit_code: int
    stdout: str
    runtime: str


async def container(
    ctx: Context,
    image: str | None = None,
    *,
    root: str | None = None,
    command: list[str] = [],  # noqa: B006  (nobody changes it)
    env: dict[str, str] = {},  # noqa: B006
    files: dict[str, str] = {},  # noqa: B006
    outputs: list[str] = [],  # noqa: B006
    network: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> ContainerResult:
    """Run a program in a container; its exit code decides.

    image: such as `docker.io/library/python:3.12`; root: instead, the name of a root folder on the worker. command: the program
    and its arguments, for an image else what it says itself. files, outputs, limits, `$MAINSPRING_CHECKPOINT`: as for scripts; the
    working folder is /work.
    """
    _check(image, root, command, env, files, outputs)
    check_network(network)
    allowed = bounded(limits)
    runtime, folder = _runtime(image, root)
    plan = Plan(
        name=name_for(ctx.job_id, ctx.attempt),
        image=image,
        root=folder,
        command=command,
        env=_environment(env, image),
        secrets={name: value for name, value in ctx._services.secrets.items() if name != VARIABLE},
        network=network,
        limits=allowed,
        uid=_USERS.take() or os.geteuid(),
    )
    running: Container | None = None
    try:
        async with started(runtime, plan, given_files(ctx, files)) as running:
            ended = await follow(ctx, running, outputs)
    except NoImageError:
        raise ProgramError(
            f"this worker has no image {image!r}, and its owner does not let it fetch any: get it there with"
            f" `{runtime.name} pull`, or set MAINSPRING_CONTAINER_PULL=missing"
        ) from None
    except LaunchError as error:
        raise ProgramError(f"{runtime.name} could not be started: {error}") from None
    finally:
        if running is not None:
            ctx._services.use(running.usage)
    return ContainerResult(ended.exit_code, last_output(ended), runtime.name)


def _environment(env: dict[str, str], image: str | None) -> dict[str, str]:
    """An image says itself where its programs are."""
    base = {"HOME": WORK} if image is not None else {"HOME": WORK, "PATH": PATH, "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
    return base | env | {VARIABLE: f"{WORK}/{CHECKPOINT}"}


def _runtime(image: str | None, root: str | None) -> tuple[Runtime, Path | None]:
    """What runs it here, and the root folder. What is not here may be elsewhere, so the job may be tried again."""
    found = ability()
    runtime = found.image if root is None else found.root
    if runtime is None:
        needed = "images need podman or docker" if root is None else "root folders need podman, crun or runc"
        raise ProgramError(f"{needed}, and this worker has none of them{_why(found.problems)}")
    return runtime, None if root is None else _root_folder(root)


def _why(problems: list[str]) -> str:
    return f" ({'; '.join(problems)})" if problems else ""


def _roots() -> Path | None:
    said = os.environ.get(_ROOTS)
    return None if not said else Path(said).resolve()


def _root_folder(root: str) -> Path:
    roots = _roots()
    if roots is None:
        raise ProgramError(f"this worker has no root folders: {_ROOTS} is not set there")
    folder = (roots / root).resolve()
    if folder == roots or not folder.is_relative_to(roots) or not folder.is_dir():
        raise ProgramError(f"this worker has no root folder {root!r}")
    return folder


def _missing() -> str | None:
    found = ability()
    if found.image is None and found.root is None:
        why = _why(found.problems)
        return f"none of podman, docker, crun and runc works here{why}: install podman"
    roots = _roots()
    if roots is not None and not roots.is_dir():
        return f"{_ROOTS} names {roots}, which is no folder"
    if found.image is None and roots is None:
        assert found.root is not None
        return f"{found.root.name} runs root folders only: set {_ROOTS} to the folder they are in, or install podman"
    return problem()


def _about() -> str:
    found = ability()
    kept = [
        f"{what} by {runtime.name}"
        for what, runtime in (("images", found.image), ("root folders", found.root))
        if runtime
    ]
    return f"{', '.join(kept)}{_why(found.problems)}; {describe_ceilings()}"


def _check(
    image: str | None = None,
    root: str | None = None,
    command: list[str] | None = None,
    env: dict[str, str] | None = None,
    files: dict[str, str] | None = None,
    outputs: list[str] | None = None,
    **_: object,
) -> None:
    if (image is None) == (root is None):
        raise InvalidError("arguments.image", "give an image, or the name of a root folder as root: one of the two")
    if image is not None and not _is_image(image):
        raise InvalidError(
            "arguments.image", f"{image[:200]!r} is no name of an image such as docker.io/library/python:3.12"
        )
    if root is not None and not command:
        raise InvalidError("arguments.command", "names no program, and a root folder says none: give a list")
    check_program(command or ["of the image"], env, files, outputs)


def _is_image(image: str) -> bool:
    return len(image) <= _LONGEST and bool(_IMAGE.fullmatch(image)) and image.partition(":")[0] not in _TRANSPORTS


TYPE = JobType("container", container, _missing, check=_check, give_up_on=(InvalidError,), about=_about)
