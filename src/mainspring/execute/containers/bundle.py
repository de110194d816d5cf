"""The lowest runtimes, crun and runc: the description of a container that they read (the OCI's `config.json`), and their commands.

They run root folders only. Where the worker is not root they get a namespace of users with one user in it: it is called root, and
outside it is the worker's own, without any rights of root. Limits of memory and processes need a writable cgroup, which such a
worker seldom has: then each process is limited, and the whole is watched.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import json

from mainspring.execute.containers.plan import OPEN_FILES, SHARES, WORK, Plan
from mainspring.execute.sandbox.folder import Folder
from mainspring.execute.sandbox.limits import kernel_limits
from mainspring.execute.sandbox.seccomp import NAMESPACES, REFUSED, TERMINAL

_MB = 1024 * 1024
_LOW_HALF = 0xFFFFFFFF
_NAMESPACES = ("pid", "ipc", "uts", "mount", "cgroup")
_HIDDEN = ("acpi", "asound", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats")
_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")


class Bundles:
    """One of the two. `place`: where it keeps what it knows of containers."""

    takes = frozenset({"root"})

    def __init__(self, name: str, program: str, place: Path) -> None:
        self.name = name
        self.limits_itself = os.geteuid() == 0
        self.program = program
        self.place = place

    def start(self, plan: Plan, folder: Folder) -> list[str]:
        """The command that runs it, in the foreground, and ends as it does."""
        file = folder.etc / "config.json"
        file.touch(mode=0o600)  # secrets of the job are in it
        file.write_bytes(json.encode(description(plan, folder, owner=os.geteuid())))
        return [*self._call(), "run", "--bundle", str(folder.etc), plan.name]

    def remove(self, name: str) -> list[str]:
        """The command that leaves nothing of it; one that is gone already is no error."""
        return [*self._call(), "delete", "--force", name]

    def forget(self, plan: Plan) -> list[str] | None:
        """Secrets are gone with the folder."""
        return None

    def _call(self) -> list[str]:
        return [self.program, "--root", str(self.place)]


def description(plan: Plan, folder: Folder, *, owner: int) -> dict[str, Any]:
    """`owner`: the user that the worker is."""
    return {
        "ociVersion": "1.0.2",
        "hostname": "job",
        "root": {"path": str(plan.root), "readonly": True},
        "process": _process(plan, plan.uid if owner == 0 else 0),
        "mounts": list(_mounts(plan, folder)),
        "linux": _linux(plan, owner),
    }


def _process(plan: Plan, uid: int) -> dict[str, Any]:
    return {
        "user": {"uid": uid, "gid": uid},
        "args": plan.command,
        "env": [f"{name}={value}" for name, value in (plan.env | plan.secrets).items()],
        "cwd": WORK,
        "noNewPrivileges": True,
        "capabilities": {},
        "rlimits": [{"type": name, "soft": limit, "hard": limit} for name, limit in _rlimits(plan).items()],
    }


def _rlimits(plan: Plan) -> dict[str, int]:
    """Without root there is no cgroup: each process is limited instead."""
    return kernel_limits(plan.limits, memory=os.geteuid() != 0, processes=False) | {"RLIMIT_NOFILE": OPEN_FILES}


def _mounts(plan: Plan, folder: Folder) -> Iterator[dict[str, Any]]:
    yield _mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev")
    yield _mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k")
    yield _mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620")
    yield _mount("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k")
    for place, own in ((WORK, folder.work), ("/tmp", folder.tmp)):
        yield _mount(place, "bind", str(own), "bind", "rw", "nosuid", "nodev")
    for shown in plan.shown:
        yield _mount(shown, "bind", shown, "rbind", "ro")
    if plan.network:
        for file in ("/etc/resolv.conf", "/etc/hosts"):
            if os.path.exists(file):
                yield _mount(file, "bind", os.path.realpath(file), "bind", "ro", "nosuid", "nodev")


def _mount(place: str, kind: str, source: str, *options: str) -> dict[str, Any]:
    return {"destination": place, "type": kind, "source": source, "options": list(options)}


def _linux(plan: Plan, owner: int) -> dict[str, Any]:
    spaces = [*_NAMESPACES, *([] if plan.network else ["network"]), *([] if owner == 0 else ["user"])]
    said: dict[str, Any] = {
        "namespaces": [{"type": space} for space in spaces],
        "maskedPaths": [f"/proc/{name}" for name in _HIDDEN],
        "readonlyPaths": [f"/proc/{name}" for name in _READ_ONLY],
        "seccomp": _seccomp(),
    }
    if owner != 0:
        own, group = ({"containerID": 0, "hostID": number, "size": 1} for number in (owner, os.getegid()))
        return said | {"uidMappings": [own], "gidMappings": [group]}
    return said | {"cgroupsPath": f"mainspring/{plan.name}", "resources": _resources(plan)}


def _resources(plan: Plan) -> dict[str, Any]:
    return {
        "memory": {"limit": plan.limits.memory_mb * _MB},
        "pids": {"limit": plan.limits.processes},
        "cpu": {"shares": SHARES},
    }


def _seccomp() -> dict[str, Any]:
    """The same as for sandboxed programs, in the words of the OCI."""
    refused = [_refusal(*REFUSED), _refusal("clone3", number=errno.ENOSYS)]
    refused += [_refusal("clone", argument=(0, flag, flag)) for flag in NAMESPACES]
    refused += [_refusal("ioctl", argument=(1, _LOW_HALF, request)) for request in TERMINAL]
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": refused}


def _refusal(*names: str, number: int = errno.EPERM, argument: tuple[int, int, int] | None = None) -> dict[str, Any]:
    """`argument`: only if it, masked, is this."""
    said: dict[str, Any] = {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": number}
    if argument is not None:
        index, mask, value = argument
        said["args"] = [{"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}]
    return said
