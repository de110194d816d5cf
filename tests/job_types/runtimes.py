"""Container runtimes for tests, and what they run: those on the path, else what `get-packages.sh` has put into `.tools`.

podman gets a place of its own for all that it keeps, so the machine's own images and containers, if there are any, stay alone. It
stores in the simplest way (vfs), which works on every file system, and its default network is the machine's: that is its owner's
to say, and a bridge would need rights and programs that a machine for tests may not have.
"""

import os
import shutil
import subprocess
from pathlib import Path

from mainspring.execute.containers.bundle import Bundles
from mainspring.execute.containers.engines import Engine

_TOOLS = Path(__file__).parents[2] / ".tools"
_PROGRAMS = ("sh", "cat", "dd", "echo", "id", "ls", "mkdir", "setsid", "sleep", "touch")
_OPEN_TO_ALL = ("data", "run", "var/tmp")
IMAGE = "localhost/mainspring-small:1"
OCI = "oci"  # where podman's runc keeps what it knows, below podman's place


class NoRuntimeError(Exception):
    """Why there is none."""


def find_runc(place: Path) -> Bundles:
    """`place`: where it keeps what it knows."""
    return Bundles("runc", _program("runc", place.parent), place)


def find_podman(place: Path) -> Engine:
    """`place`: where it keeps everything."""
    podman, conmon, bare_runc = (_program(name, place) for name in ("podman", "conmon", "runc"))
    runc = _script(place / "settled-runc", ":", f"{bare_runc} --root {place / OCI}")
    place.joinpath("containers.conf").write_text(
        f"""
        [containers]
        netns = "host"
        [network]
        network_config_dir = "{place}/networks"
        [engine]
        cgroup_manager = "cgroupfs"
        conmon_path = ["{conmon}"]
        events_logger = "none"
        helper_binaries_dir = ["{_TOOLS}/podman/usr/lib/podman", "/usr/libexec/podman", "/usr/lib/podman"]
        lock_type = "file"
        runtime = "runc"
        tmp_dir = "{place}/now"
        volume_path = "{place}/volumes"
        [engine.runtimes]
        runc = ["{runc}"]
        """
    )
    place.joinpath("storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{place}/kept"\nrunroot = "{place}/run"\n'
    )
    settings = place / "home/.config/containers"
    settings.mkdir(parents=True)
    settings.joinpath("policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    made = _script(
        place / "settled-podman",
        f"export HOME={place}/home CONTAINERS_CONF={place}/containers.conf CONTAINERS_STORAGE_CONF={place}/storage.conf",
        podman,
    )
    return Engine("podman", made, pull=False)


def _program(name: str, place: Path) -> str:
    """One that finds the libraries that came with it, whatever its environment."""
    if found := shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
        return found
    ours = next((path for path in _TOOLS.glob(f"*/usr/*bin/{name}") if path.resolve().is_file()), None)
    if ours is None:
        raise NoRuntimeError(f"{name} is neither on the path nor in .tools: `make test` fetches it where apt-get can")
    libraries = ":".join(sorted({str(library.parent) for library in _TOOLS.rglob("lib*.so.*")}))
    return _script(place / name, f"export LD_LIBRARY_PATH={libraries}", str(ours))


def _script(made: Path, first: str, program: str) -> str:
    made.write_text(f'#!/bin/sh\n{first}\nexec {program} "$@"\n')
    made.chmod(0o755)
    return str(made)


def make_root(folder: Path) -> Path:
    """A root folder with a shell, folders that only a read-only file system protects, and little else."""
    found = shutil.which("busybox", path=str(_TOOLS / "containers/bin"))
    if found is None:
        raise NoRuntimeError("busybox is not in .tools: `make test` fetches it where apt-get can")
    folder.joinpath("bin").mkdir(parents=True)
    shutil.copy(found, folder / "bin/busybox")
    for name in _PROGRAMS:
        folder.joinpath("bin", name).symlink_to("busybox")
    for name in _OPEN_TO_ALL:
        folder.joinpath(name).mkdir(parents=True)
        folder.joinpath(name).chmod(0o777)
    return folder


def make_image(podman: Engine, root: Path, *changes: str, name: str = IMAGE) -> None:
    """`IMAGE`, of a root folder. `changes`: in the words of a Dockerfile."""
    packed = subprocess.run(
        ["tar", "--create", "--directory", str(root), "."], stdout=subprocess.PIPE, check=True
    ).stdout
    command = [podman.program, "import", "--quiet"] + [word for change in changes for word in ("--change", change)]
    subprocess.run([*command, "-", name], input=packed, stdout=subprocess.DEVNULL, check=True)
