"""Folders for what an attempt writes while it runs: one per attempt that asks, private, empty, gone when the attempt has ended.

Their names are given by the worker and not made before somebody asks, also in a process of its pool; the worker removes them, also
those of a process that was killed. What a worker that was killed itself has left, another one removes a day later.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path

from mainspring.core.partition import format_id
from mainspring.wire import Assignment

_PREFIX = "mainspring-scratch-"
_LEFT_S = 86_400.0


class Scratch:
    """Of one worker; `close` it."""

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        _sweep(place)
        self._root = place / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"

    def of(self, assignment: Assignment) -> Path:
        return self._root / f"{format_id(assignment.job)}-{assignment.attempt}"

    async def remove(self, folder: Path) -> None:
        if _exists(folder):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)


def made(folder: Path) -> Path:
    """The folder, which nobody else may look into."""
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _exists(folder: Path) -> bool:
    return folder.exists()


def _sweep(place: Path) -> None:
    """What is left of workers that are gone; processes of a container beside this one may only seem to be."""
    for left in place.glob(f"{_PREFIX}*-*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if not Path("/proc", owner).exists() and left.stat().st_mtime < time.time() - _LEFT_S:
                shutil.rmtree(left, ignore_errors=True)
