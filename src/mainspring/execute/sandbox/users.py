"""As whom a program runs. A worker of root gives each a user of its own, any other worker can only give it itself.

Bubblewrap started by root acts as root on the files that it binds, so root lets go before. The user needs no account: a
number is enough to own nothing but its own folder. The numbers are in a range that Linux distributions leave unused and that is
mapped inside containers too.
"""

import itertools
import os
import random

_FIRST, _COUNT = 60_706, 478  # up to where systemd's dynamic users begin


class Users:
    """Of one worker. Two workers on a machine seldom take the same number, and it is no harm if they do."""

    def __init__(self) -> None:
        first = random.randrange(_COUNT)
        self._next = itertools.count(first)

    def take(self) -> int | None:
        """The next in turn; None: there is nobody else to be."""
        return _FIRST + next(self._next) % _COUNT if os.geteuid() == 0 else None
