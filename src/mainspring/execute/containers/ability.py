"""Which runtimes this machine really has: each is tried out once, by running something.

In the order of preference: podman, docker for images; podman, crun, runc for root folders. Whoever starts a worker also removes
what killed workers have left. A program that is there but does not work (no daemon, no rights, a kernel that it cannot use) is
as good as absent, and `problems` says why.
"""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from msgspec import Struct

from mainspring.errors import InvalidError
from mainspring.execute.containers.bundle import Bundles
from mainspring.execute.containers.clients import environment
from mainspring.execute.containers.engines import Engine
from mainspring.execute.containers.keeping import forgetting, listing
from mainspring.execute.containers.leftovers import is_left, name_for, place
from mainspring.execute.containers.plan import Plan
from mainspring.execute.sandbox.folder import new_folder
from mainspring.execute.sandbox.users import Users

Runtime = Engine | Bundles

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_TRIAL_S = 30.0
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64")


class Ability(Struct, frozen=True):
    """What runs images, and what runs root folders. `problems`: of runtimes that are here and do not work."""

    image: Runtime | None
    root: Runtime | None
    problems: list[str]


@cache
def ability() -> Ability:
    """May take a second or two, once."""
    works: dict[str, Runtime] = {}
    problems: list[str] = []
    for runtime in present():
        why = problem_of(runtime)
        if why is None:
            works[runtime.name] = runtime
        else:
            problems.append(f"{runtime.name}: {why}")
    for runtime in works.values():
        sweep(runtime)
    root = next((runtime for runtime in works.values() if "root" in runtime.takes), None)
    return Ability(next((r for r in works.values() if "image" in r.takes), None), root, problems)


def present() -> list[Runtime]:
    """Those whose programs are here."""
    found = {name: shutil.which(name, path=f"{os.environ.get('PATH', '')}:{PATH}") for name in _NAMES}
    pull = may_pull()
    engines: list[Runtime] = [Engine(name, path, pull=pull) for name in ("podman", "docker") if (path := found[name])]
    return engines + [Bundles(name, path, place()) for name in ("crun", "runc") if (path := found[name])]


_NAMES = ("podman", "docker", "crun", "runc")


def may_pull() -> bool:
    said = os.environ.get("MAINSPRING_CONTAINER_PULL", "never")
    if said not in ("never", "missing"):
        raise InvalidError("MAINSPRING_CONTAINER_PULL", f"expected never or missing, got {said!r}")
    return said == "missing"


def problem_of(runtime: Runtime) -> str | None:
    """Why it does not work; None where it does."""
    if "root" in runtime.takes:
        return _tried(runtime)
    assert isinstance(runtime, Engine)
    return _failure(runtime.version())


def sweep(runtime: Runtime) -> None:
    """Remove what workers of this machine that are gone have left."""
    for name in filter(is_left, names(runtime)):
        # Where conmon was killed too, podman first waits for it in vain, and removes the container when it is asked again.
        _ = _failure(runtime.remove(name)) and _failure(runtime.remove(name))
    if left := list(filter(is_left, secret_names(runtime))):
        _failure(forgetting(runtime.program, left))


def names(runtime: Runtime) -> list[str]:
    """Of all containers that workers have made with it."""
    return os.listdir(runtime.place) if isinstance(runtime, Bundles) else _printed(runtime.names())


def secret_names(runtime: Runtime) -> list[str]:
    """Of all secrets that workers have given it to keep."""
    return _printed(listing(runtime.program)) if runtime.name == "podman" else []


def _printed(command: list[str]) -> list[str]:
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=_TRIAL_S).stdout.split()


def _tried(runtime: Runtime) -> str | None:
    """Run `true`, in a folder that shows the machine's own programs."""
    uid = Users().take() or os.geteuid()
    shown = tuple(place for place in _SYSTEM if os.path.isdir(place))
    with tempfile.TemporaryDirectory(prefix="mainspring-trial-") as root:
        os.chmod(root, 0o755)
        plan = Plan(name=name_for("trial", 1), root=Path(root), command=["/bin/true"], uid=uid, shown=shown)
        folder = new_folder(uid)
        try:
            return _failure(runtime.start(plan, folder))
        finally:
            _failure(runtime.remove(plan.name))
            folder.remove()


def _failure(command: list[str]) -> str | None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            env=environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TRIAL_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = (done.stderr or done.stdout).strip().splitlines()
    return None if done.returncode == 0 else (said[-1] if said else f"it ended with {done.returncode}")[:300]
