"""Names of containers, and what workers that were killed have left behind.

A name says whose it is and what for: the machine as this worker sees it, the worker's process, the job, the attempt. So a worker
that starts can tell which containers nobody waits for any more, among those of others that are alive; on an engine that several
machines share it leaves those of other machines alone.
"""

import contextlib
import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

from mainspring.errors import MainspringError
from mainspring.execute.containers.plan import PREFIX


def name_for(job: str, attempt: int) -> str:
    return f"{PREFIX}{_machine()}-{_life(os.getpid())}-{job}-{attempt}"


def shortened(name: str) -> str:
    """Whose a container is, and a mark for the job and the attempt: for what may not have a name as long as a container's."""
    mark = hashlib.blake2s(name.encode(), digest_size=6).hexdigest()
    return "-".join([*name.split("-")[:4], mark])


def is_left(name: str) -> bool:
    """Is it the container, or the secret, of a worker of this machine that is gone?"""
    if not name.startswith(f"{PREFIX}{_machine()}-"):
        return False
    pid, _, rest = name.removeprefix(f"{PREFIX}{_machine()}-").partition("-")
    return pid.isdigit() and _life(int(pid)) != f"{pid}-{rest.partition('-')[0]}"


def place() -> Path:
    """Where crun and runc keep what they know of this machine's containers: only for this user, and gone after a restart."""
    folder = Path(tempfile.gettempdir(), f"mainspring-containers-{os.geteuid()}-{_machine()}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077 or not folder.is_dir():
        raise MainspringError(f"{folder} is somebody else's, or open to others: remove it")
    return folder


@cache
def _machine() -> str:
    """This machine since it started, and where in it process numbers mean what they mean here."""
    started = Path("/proc/sys/kernel/random/boot_id").read_text()
    return hashlib.blake2s(f"{started}{os.readlink('/proc/self/ns/pid')}".encode(), digest_size=4).hexdigest()


def _life(pid: int) -> str | None:
    """A process and when it began, because numbers are used again; None where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return f"{pid}-{fields[19]}"
