"""A small process that kills what the bench leaves behind, however the bench ends.

It reads lines `add PGID` and `drop PGID`. Its input ends when the bench ends, even by SIGKILL; then every process group
still on the list is killed. A parent-death signal alone would reach only the direct children, not the processes that
the workers themselves fork.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Follow the list until the input ends, then kill the groups left on it."""
    groups: set[int] = set()
    for line in sys.stdin:
        verb, group = line.split()
        if verb == "add":
            groups.add(int(group))
        else:
            groups.discard(int(group))
    for group_id in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group_id, signal.SIGKILL)


if __name__ == "__main__":
    main()
