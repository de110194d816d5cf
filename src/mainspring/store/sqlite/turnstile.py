"""Taking turns at the one write lock of a file.

SQLite's lock is not fair: a process that commits without a pause takes it again before anybody who waits has woken up, and a single
submit from another process may wait for seconds. So a writer holds this turnstile while it waits for the lock, and lets go of it
when it has it: whoever comes back from a commit finds it held, and lets the other one through first.

A process that is stopped while it holds the turnstile must not stop the others, so nobody waits for it longer than `PATIENCE_S`.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "turn"
PATIENCE_S = 0.1
_LOOK_S = 0.0005


class Turnstile:
    """One lock file in the folder where the processes of a store meet."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Around the wait for the write lock."""
        passed = self._pass()
        try:
            yield
        finally:
            if passed:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)

    def _pass(self) -> bool:
        deadline_s = None
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                now_s = time.monotonic()
                deadline_s = deadline_s or now_s + PATIENCE_S
                if now_s > deadline_s:
                    return False
                time.sleep(_LOOK_S)
