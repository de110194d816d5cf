"""Commands that refuse to run as root, run by root: PostgreSQL and pgbouncer do.

In a user namespace of its own a process of root is somebody else to itself, with the same rights to the same files, so that
neither a user nor the mode of a folder changes. Where namespaces are not allowed, the process becomes `nobody`.
"""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

NOBODY = 65534
_NAMESPACE = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]


@cache
def _namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


def unprivileged(command: list[str], *, last_signal: str) -> list[str]:
    """The command as somebody who is not root. It gets the signal when the thread that started it ends, killed or not."""
    if shutil.which("setpriv") is None:
        return command
    as_nobody = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    root, namespaces = os.geteuid() == 0, _namespaces()
    command = ["setpriv", *(as_nobody if root and not namespaces else []), "--pdeathsig", last_signal, "--", *command]
    return [*_NAMESPACE, *command] if root and namespaces else command


def hand_over(folder: Path) -> None:
    """Let the commands above write into a folder that we made."""
    if os.geteuid() == 0 and not _namespaces():
        os.chown(folder, NOBODY, NOBODY)
