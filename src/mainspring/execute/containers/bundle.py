"""The lowest runtimes, crun and runc: the description of a container that they read (`config.json`, of the OCI), and how to call them.

They run root folders only. Where the worker is not root they get a namespace of users, in which the one user stands for the
worker's; limits of memory and processes need a writable cgroup, which such a worker seldom has.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import json

from mainspring.execute.containers.plan import OPEN_FILES, SHARES, WORK, Plan
from mainspring.execute.sandbox.limits import kernel_limits
from mainspring.execute.sandbox.seccomp import REFUSED

_MB = 1024 * 1024
_NAMESPACES = ("pid", "ipc", "uts", "mount", "cgroup")
_HIDDEN = """
    /proc/acpi /proc/asound /proc/kcore /proc/keys /proc/latency_stats /proc/sched_debug /proc/scsi /proc/timer_list
    /proc/timer_stats /sys/firmware
""".split()
_READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


class Bundles:
    """One of the two. `place`: where it keeps what it knows of containers."""

    takes = frozenset({"root"})

    def __init__(self, name: str, program: str, place: Path) -> None:
        self.name = name
        self._program = program
        self.place = place

    def start(self, plan: Plan) -> list[str]:
        """The command that runs it, in the foreground, and ends as it does."""
        file = plan.folder / "config.json"
        file.touch(mode=0o600)  # secrets of the job are in it
        file.write_bytes(json.encode(description(plan, owner=os.geteuid())))
        return [*self._call(), "run", "--bundle", str(plan.folder), plan.name]

    def remove(self, name: str) -> list[str]:
        """The command that leaves nothing of it; one that is gone already is no error."""
        return [*self._call(), "delete", "--force", name]

    def _call(self) -> list[str]:
        return [self._program, "--root", str(self.place)]


def description(plan: Plan, *, owner: int) -> dict[str, Any]:
    """`owner`: the user that the worker is."""
    return {
        "ociVersion": "1.0.2",
        "hostname": "job",
        "root": {"path": str(plan.root), "readonly": True},
        "process": _process(plan),
        "mounts": list(_mounts(plan)),
        "linux": _linux(plan, owner),
    }


def _process(plan: Plan) -> dict[str, Any]:
    return {
        "user": {"uid": plan.uid, "gid": plan.uid},
        "args": plan.command,
        "env": [f"{name}={value}" for name, value in plan.env.items()],
        "cwd": WORK,
        "noNewPrivileges": True,
        "capabilities": {},
        "rlimits": [{"type": name, "soft": limit, "hard": limit} for name, limit in _rlimits(plan).items()],
    }


def _rlimits(plan: Plan) -> dict[str, int]:
    """Without root there is no cgroup: each process is limited instead."""
    return kernel_limits(plan.limits, memory=os.geteuid() != 0, processes=False) | {"RLIMIT_NOFILE": OPEN_FILES}


def _mounts(plan: Plan) -> Iterator[dict[str, Any]]:
    yield _mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev")
    yield _mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k")
    yield _mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620")
    yield _mount("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k")
    yield _mount("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777", f"size={plan.limits.disk_mb}m")
    yield _mount(WORK, "bind", str(plan.work), "bind", "rw", "nosuid", "nodev")
    for folder in plan.shown:
        yield _mount(folder, "bind", folder, "rbind", "ro")
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
        "maskedPaths": _HIDDEN,
        "readonlyPaths": _READ_ONLY,
        "seccomp": _seccomp(),
    }
    if owner != 0:
        alone = [{"containerID": plan.uid, "hostID": owner, "size": 1}]
        return said | {"uidMappings": alone, "gidMappings": [{**alone[0], "hostID": os.getegid()}]}
    return said | {"cgroupsPath": f"mainspring/{plan.name}", "resources": _resources(plan)}


def _resources(plan: Plan) -> dict[str, Any]:
    return {
        "memory": {"limit": plan.limits.memory_mb * _MB},
        "pids": {"limit": plan.limits.processes},
        "cpu": {"shares": SHARES},
    }


def _seccomp() -> dict[str, Any]:
    refused = {"names": list(REFUSED), "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused]}
