"""Descriptors for a process that is about to be started: closed at the end of the `with`, except those that are kept."""

import fcntl
import os
import socket

_SEALED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Descriptors:
    def __init__(self) -> None:
        self._open: set[int] = set()

    def __enter__(self) -> "Descriptors":
        return self

    def __exit__(self, *_: object) -> None:
        self.close(*self._open)

    def pipe(self) -> tuple[int, int]:
        """To read from, to write to."""
        ends = os.pipe()
        self._open.update(ends)
        return ends

    def connection(self) -> tuple[int, int]:
        """Two ends that both read and write."""
        ends = [each.detach() for each in socket.socketpair()]
        self._open.update(ends)
        return ends[0], ends[1]

    def memory(self, data: bytes) -> int:
        """A file with this in it, that needs nobody at its other end and that nobody can change."""
        fd = os.memfd_create("mainspring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._open.add(fd)
        with open(fd, "wb", buffering=0, closefd=False) as file:
            file.write(data)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALED)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def input(self, data: bytes) -> int:
        if data:
            return self.memory(data)
        fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._open.add(fd)
        return fd

    def keep(self, *fds: int) -> None:
        self._open.difference_update(fds)

    def close(self, *fds: int) -> None:
        for fd in fds:
            self._open.discard(fd)
            os.close(fd)
