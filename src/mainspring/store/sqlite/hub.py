"""Hints between the parts of a process, and between the processes on one file.

Each process that opens a file listens on a datagram socket in a private folder named after the file; whoever commits sends its
hints to all the others there. A lost hint costs latency only: every part also looks by itself, slowly. A process that is
stopped or gone costs its senders nothing: a full socket is skipped, a dead one is removed.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import socket
import tempfile
import time
from pathlib import Path

from msgspec import DecodeError, ValidationError, json

from mainspring.runtime.log import get_logger
from mainspring.store.contract import Hint
from mainspring.store.hints import Listeners, shortened
from mainspring.store.sqlite.turnstile import NAME as TURNSTILE

_log = get_logger("mainspring.store")

_MAX_DATAGRAM = 65_536
_COARSE_NS = 1_000_000_000

_decode = json.Decoder(list[Hint]).decode


class Hub(Listeners):
    """Listeners in this process, sockets to the others."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._address = _bind(self._socket, path)
        self.folder = self._address.parent
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._receive)
        self._peers: list[str] = []
        self._peers_seen_ns = 0

    def publish(self, hints: list[Hint]) -> None:
        """In the event loop, after a commit."""
        self.tell(hints)
        peers = self._find_peers()
        if peers:
            payload = json.encode([shortened(hint) for hint in hints])
            for peer in peers:
                self._send(peer, payload)

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._address.unlink(missing_ok=True)
        if os.listdir(self.folder) == [TURNSTILE]:
            with contextlib.suppress(OSError):
                (self.folder / TURNSTILE).unlink()
                self.folder.rmdir()

    def _find_peers(self) -> list[str]:
        """Listing the folder is cheap, but asking whether it changed is cheaper."""
        changed_ns = self.folder.stat().st_mtime_ns
        if changed_ns != self._peers_seen_ns:
            # A folder's time is coarse: one that changed just now may change again without showing it.
            self._peers_seen_ns = changed_ns if time.time_ns() - changed_ns > _COARSE_NS else 0
            self._peers = [name for name in os.listdir(self.folder) if name not in (self._address.name, TURNSTILE)]
        return self._peers

    def _send(self, peer: str, payload: bytes) -> None:
        target = self.folder / peer
        try:
            self._socket.sendto(payload, str(target))
        except BlockingIOError:
            pass  # it has hints enough to look at
        except (ConnectionRefusedError, FileNotFoundError):
            target.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("cannot wake another process", peer=peer, error=str(error))

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                payload = self._socket.recv(_MAX_DATAGRAM)
                try:
                    self.tell(_decode(payload))
                except (DecodeError, ValidationError) as error:
                    _log.warning("ignored a hint that cannot be read", error=str(error))


def _bind(listener: socket.socket, path: Path) -> Path:
    """An address in the file's folder; again if the last one there took the folder away with it."""
    while True:
        address = _folder_for(path) / f"{os.getpid()}-{secrets.token_hex(4)}"
        with contextlib.suppress(FileNotFoundError):
            listener.bind(str(address))
            return address


def _folder_for(path: Path) -> Path:
    """Short, because socket addresses are limited to 107 bytes; private to the user."""
    name = hashlib.blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()
    folder = Path(tempfile.gettempdir()) / f"mainspring-{os.getuid()}" / name
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
