"""A PostgreSQL server of the bench's own, on a free loopback port, gone when the bench is gone.

Its settings are the server's defaults, so every commit is synced; only more connections are allowed. One server serves a
whole run, as in real life: its log files have been written before. Every measured phase gets a database of its own on
it, and a checkpoint before, so that it does not pay the debts of the phase before.
"""

import atexit
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql

from bench.peers import postgres_binaries
from bench.peers.ports import free_port
from bench.peers.processes import Group, tail

SETTINGS = "PostgreSQL: server defaults (fsync on, synchronous_commit on)"
_USER = "postgres"
_CONNECTIONS = 300
_READY_WITHIN_S = 30.0
_STOP_WITHIN_S = 60.0
_UNSHARE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_NOBODY = 65534


@cache
def shared_server(workdir: Path) -> "PostgresServer":
    """The one server of this run, started at the first call; its data is below `workdir`."""
    server = PostgresServer(workdir)
    atexit.register(server.stop)
    return server


class PostgresServer:
    """A running server."""

    def __init__(self, workdir: Path) -> None:
        """Make a new cluster, start the server and wait until it answers."""
        self._folder = Path(tempfile.mkdtemp(prefix="bench-postgres-", dir=workdir))
        self._log = self._folder / "postgres.log"
        self._numbers = itertools.count(1)
        self._port = free_port()
        self._group: Group | None = None
        try:
            self._group = self._start()
            self._await_ready(self._group)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The server's first process, the parent of all others."""
        assert self._group is not None
        return self._group.pid

    def url(self, database: str) -> str:
        """The address of a database."""
        return f"postgresql://{_USER}@127.0.0.1:{self._port}/{database}"

    def create_database(self) -> str:
        """Make an empty database and return its address."""
        name = f"bench{next(self._numbers)}"
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        self._execute(sql.SQL("CHECKPOINT"))
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, with whoever is still connected to it."""
        name = sql.Identifier(url.rpartition("/")[2])
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def stop(self) -> None:
        """Stop the server, if it runs, and remove its files."""
        if self._group is not None:
            self._group.stop(_STOP_WITHIN_S, number=signal.SIGINT)  # the server's signal for a quick, clean end
            self._group = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _execute(self, statement: sql.SQL | sql.Composed) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _start(self) -> Group:
        binaries, data = postgres_binaries.folder(), self._folder / "data"
        prefix = _without_root(self._folder)
        identity = [f"--username={_USER}", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [*prefix, str(binaries / "initdb"), "-D", str(data), *identity], capture_output=True, text=True
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed:\n{made.stderr}")
        # the wish to hear of the parent's death is lost with a change of user, so it comes after that
        death = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
        place = ["-D", str(data), "-k", str(self._folder), "-h", "127.0.0.1", "-p", str(self._port)]
        place += ["-N", str(_CONNECTIONS)]
        command = [*prefix, *death, str(binaries / "postgres"), *place]
        return Group(command, cwd=self._folder, log=self._log)

    def _await_ready(self, group: Group) -> None:
        deadline = time.monotonic() + _READY_WITHIN_S
        while group.alive and time.monotonic() < deadline:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError(f"the PostgreSQL server did not start:\n{tail(self._log)}")


def _without_root(folder: Path) -> tuple[str, ...]:
    """The words before a command that let root start the server, which refuses to run as root."""
    if os.geteuid() != 0:
        return ()
    if subprocess.run([*_UNSHARE, "true"], capture_output=True).returncode == 0:
        return _UNSHARE
    os.chown(folder, _NOBODY, _NOBODY)  # no user namespaces here: another user, who must own the data
    return ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
