"""A server and its workers for `bench.http`: real processes, with keys, on a SQLite store of their own."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from bench.cpu import cpu_s
from bench.peers.ports import free_port
from bench.peers.processes import Group, child_env, module_argv, tail

_COMMAND = "import sys; from mainspring.cli import main; sys.exit(main())"
_READY_WITHIN_S = 30.0
_APP = "bench.http_app:app"


class Server:
    """Started when it is made. `key` is an administrator's, `worker_key` a worker's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "server.log"
        self._groups: list[Group] = []
        self.store = f"sqlite:///{folder}/jobs.db"
        self.url = f"http://127.0.0.1:{free_port()}"
        _command(folder, "migrate", "--store", self.store)
        self.key, self.worker_key = (self._make_key(role) for role in ("admin", "worker"))
        port = self.url.rpartition(":")[2]
        self._server = self._start(command("server", "--store", self.store, "--port", port), {})
        self._await_ready()

    @property
    def cpu_s(self) -> float:
        """What the server has used so far."""
        return cpu_s(self._server.pid)

    def start_workers(self, count: int, slots: int = 100) -> None:
        environ = {"MAINSPRING_KEY": self.worker_key}
        for _ in range(count):
            self._start(command("worker", _APP, "--server", self.url, "--slots", str(slots)), environ)

    def start_idle(self, count: int) -> None:
        """So many idle workers; returns when all of them are there."""
        argv = module_argv("bench.http_idle", self.url, str(count))
        group = self._start(argv, {"MAINSPRING_KEY": self.worker_key}, pipes=True)
        if not group.pipes[1].readline():
            raise RuntimeError(f"the idle workers said: {self.log_tail()}")

    def stop_idle(self) -> None:
        """They go without a word, as workers do whose machine is switched off."""
        self._groups.pop().kill()

    def log_tail(self) -> str:
        return tail(self._log)

    def close(self) -> None:
        for group in reversed(self._groups):
            group.stop(grace_s=2.0)

    def _start(self, argv: Sequence[str], environ: dict[str, str], *, pipes: bool = False) -> Group:
        group = Group(argv, cwd=self._folder, log=self._log, env=environ, pipes=pipes)
        self._groups.append(group)
        return group

    def _make_key(self, role: str) -> str:
        made = _command(
            self._folder, "keys", "create", role, "--role", role, "--tenant", "*", "--store", self.store, "--json"
        )
        key: str = json.loads(made)["key"]
        return key

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _READY_WITHIN_S
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/v1/health/ready", timeout=2):
                    return
            except OSError:
                if time.monotonic() > deadline or not self._server.alive:
                    raise RuntimeError(f"the server said: {self.log_tail() or 'nothing'}") from None
            time.sleep(0.05)


def command(*arguments: str) -> list[str]:
    """A command of the installed Mainspring."""
    return [sys.executable, "-c", _COMMAND, *arguments]


def _command(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        command(*arguments), cwd=folder, env=child_env(dict(os.environ)), capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"mainspring {' '.join(arguments[:2])}: {ran.stderr}")
    return ran.stdout
