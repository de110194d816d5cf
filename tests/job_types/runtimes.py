"""A container runtime for tests, and a root folder to run: runc on the path, else what `get-packages.sh` has put into `.tools`."""

import os
import shutil
from pathlib import Path

from mainspring.execute.containers.bundle import Bundles

_OURS = Path(__file__).parents[2] / ".tools" / "containers"
_PROGRAMS = ("sh", "cat", "dd", "echo", "id", "ls", "mkdir", "sleep", "touch")


class NoRuntimeError(Exception):
    """Why there is none."""


def find_runc(place: Path) -> Bundles:
    """`place`: where it keeps what it knows."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    if found := shutil.which("runc", path=path):
        return Bundles("runc", found, place)
    binary = _OURS / "usr/sbin/runc"
    if not binary.is_file():
        raise NoRuntimeError("runc is neither on the path nor in .tools: `make test` fetches it where apt-get can")
    return Bundles("runc", str(_with_libraries(binary, place)), place)


def _with_libraries(binary: Path, place: Path) -> Path:
    """A program that finds the libraries that came with it, whatever its environment."""
    libraries = ":".join(sorted({str(library.parent) for library in _OURS.rglob("lib*.so.*")}))
    made = place.parent / "runc"
    made.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {binary} "$@"\n')
    made.chmod(0o755)
    return made


def make_root(folder: Path) -> Path:
    """A root folder with a shell and little else."""
    found = shutil.which("busybox", path=str(_OURS / "bin"))
    if found is None:
        raise NoRuntimeError("busybox is not in .tools: `make test` fetches it where apt-get can")
    folder.joinpath("bin").mkdir(parents=True)
    shutil.copy(found, folder / "bin/busybox")
    for name in _PROGRAMS:
        folder.joinpath("bin", name).symlink_to("busybox")
    return folder
