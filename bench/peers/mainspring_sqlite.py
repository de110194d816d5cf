"""Mainspring on SQLite: full durability, history kept."""

from pathlib import Path

from bench.peers import effects
from bench.peers.mainspring_app import SETTINGS, Submitting, worker_command
from bench.peers.processes import Group, tail


class MainspringSqlite(Submitting):
    """Mainspring behind the verbs of the bench."""

    name = "mainspring-sqlite"
    settings = f"{SETTINGS}; SQLite: WAL, synchronous FULL"
    submit_jobs = 2_000
    drain_jobs = 200_000
    quiet_s = 20.0

    def __init__(self) -> None:
        self._workers: Group | None = None

    def setup(self, workdir: Path, stamps: Path) -> None:
        self._workdir, self._stamps, self._log = workdir, stamps, workdir / "worker.log"
        self._store = f"sqlite:///{workdir}/mainspring.db"
        self.open_app(self._store)

    def start_workers(self) -> None:
        self._workers = Group(
            worker_command(self._store),
            cwd=self._workdir,
            log=self._log,
            env={effects.ENV: str(self._stamps)},
        )

    def kill_workers(self) -> None:
        if self._workers is not None:
            self._workers.kill()
            self._workers = None

    def stop_workers(self) -> None:
        if self._workers is not None:
            self._workers.stop()
            self._workers = None

    def teardown(self) -> None:
        self.stop_workers()
        self.close_app()

    def log_tail(self) -> str:
        return tail(self._log)
