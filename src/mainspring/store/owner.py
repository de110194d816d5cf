"""The process a store belongs to."""

import os

from mainspring.errors import StoreError


class Owner:
    """Remembers the process a store was opened in, and refuses use in a forked child."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def check(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError("a store cannot be used after fork: open the app in the child process")
