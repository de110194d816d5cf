"""A real pgbouncer in transaction mode in front of a server: what most hosted PostgreSQL puts between.

Two transactions of one client may run in two sessions of the server, so whatever leans on a session breaks here: prepared
statements, LISTEN, advisory locks of a session, settings. The server connections are few and taken in turn, so that it breaks
at once.

The binary is the one on the path, else what `get-packages.sh` has put into `.tools`.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit, urlunsplit

from postgres.server import PATIENCE_S, NoServerError, free_port
from postgres.unprivileged import hand_over, unprivileged

_OURS = Path(__file__).parents[2] / ".tools" / "pgbouncer"
_SETTINGS = {
    "pool_mode": "transaction",
    "listen_addr": "127.0.0.1",
    "unix_socket_dir": "",
    "auth_type": "plain",
    "default_pool_size": "5",
    "max_client_conn": "200",
    "server_round_robin": "1",
    "server_login_retry": "1",
}


def find_pgbouncer() -> tuple[Path, list[str]]:
    """The binary, and the folders of the libraries that came with it."""
    if found := shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
        return Path(found), []
    binary = _OURS / "usr" / "sbin" / "pgbouncer"
    if not binary.is_file():
        raise NoServerError("pgbouncer is neither on the path nor in .tools: `make test` fetches it where apt-get can")
    return binary, sorted({str(library.parent) for library in _OURS.rglob("lib*.so.*")})


class Pooler:
    """One pgbouncer; `url` is the server's url through it."""

    def __init__(self, url: str, settings: dict[str, str]) -> None:
        self._binary, self._libraries = find_pgbouncer()
        self.port = free_port()
        parts = urlsplit(url)
        self.url = urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{self.port}"))
        self.folder = Path(tempfile.mkdtemp(prefix="mainspring-pgbouncer-"))
        hand_over(self.folder)
        self._log = self.folder / "log"
        self._config = self.folder / "pgbouncer.ini"
        users = self.folder / "users"
        users.write_text(f'"{unquote(parts.username or "")}" "{unquote(parts.password or "")}"\n')
        lines = [f"{name} = {value}" for name, value in (_SETTINGS | settings).items()]
        self._config.write_text(
            f"[databases]\n* = host={parts.hostname} port={parts.port or 5432}\n"
            f"[pgbouncer]\nauth_file = {users}\nlisten_port = {self.port}\n" + "\n".join(lines) + "\n"
        )
        self._child: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, url: str, **settings: str) -> Self:
        pooler = cls(url, settings)
        try:
            pooler._run()
        except BaseException:
            pooler.close()
            raise
        return pooler

    def _run(self) -> None:
        environ = os.environ | ({"LD_LIBRARY_PATH": ":".join(self._libraries)} if self._libraries else {})
        command = unprivileged([str(self._binary), "--quiet", str(self._config)], last_signal="TERM")
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                command, env=environ, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._listens():
            if self._child.poll() is not None or time.monotonic() > deadline:
                raise NoServerError(f"pgbouncer did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.01)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self) -> None:
        if self._child is not None:
            self._child.terminate()
            self._child.wait(PATIENCE_S)
        shutil.rmtree(self.folder, ignore_errors=True)
