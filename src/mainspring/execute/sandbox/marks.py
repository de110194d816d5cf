"""Finds what a bare program has left where its keeper was killed: by a mark in the environment, which processes inherit.

Each bare program has a mark of its own, that nobody can guess. One that takes it out of the environment of what it starts, and
kills its keeper, is not found: that is one of the reasons why bare programs must be trusted (docs/concepts/sandbox.md).
"""

import contextlib
import os
import secrets
import signal
import time
from pathlib import Path

VARIABLE = "MAINSPRING_MARK"

_GONE_S = 2.0


def new_mark() -> str:
    return secrets.token_hex(16)


def end_marked(mark: str) -> None:
    """In a thread. They may start others meanwhile, so until there is none; within bounds."""
    deadline = time.monotonic() + _GONE_S
    while (found := _marked(mark)) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def _marked(mark: str) -> list[int]:
    wanted = f"{VARIABLE}={mark}".encode()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if wanted in _environment(pid)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is none of ours
        return []
