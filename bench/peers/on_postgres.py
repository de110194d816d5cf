"""What every system on PostgreSQL shares: a database of its own for each phase, and worker processes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.peers import effects
from bench.peers.postgres_server import PostgresServer, shared_server
from bench.peers.processes import Group, kill_all, tail


class OnPostgres:
    """A system on PostgreSQL; a subclass says how it is opened, how its workers start and how jobs are submitted."""

    quiet_s = 20.0

    def __init__(self) -> None:
        self._server: PostgresServer | None = None
        self._workers: list[Group] = []
        self.url = ""

    def open(self) -> None:
        """Make the tables at `self.url`, and whatever the bench submits through."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what `open` made; also after it has failed halfway."""
        raise NotImplementedError

    def worker_commands(self) -> Sequence[Sequence[str]]:
        """The commands of all worker processes."""
        raise NotImplementedError

    def worker_env(self) -> Mapping[str, str]:
        """More of the workers' environment."""
        return {}

    def setup(self, workdir: Path, stamps: Path) -> None:
        self._workdir, self._stamps, self._log = workdir, stamps, workdir / "worker.log"
        self._server = shared_server(workdir.parent)
        self.url = self._server.create_database()
        self.open()

    def start_workers(self) -> None:
        env = {effects.ENV: str(self._stamps), **self.worker_env()}
        for command in self.worker_commands():
            self._workers.append(Group(command, cwd=self._workdir, log=self._log, env=env))

    @property
    def worker_pids(self) -> list[int]:
        """The worker processes that run."""
        return [group.pid for group in self._workers]

    @property
    def server_pid(self) -> int:
        """The server's first process, the parent of all others."""
        assert self._server is not None
        return self._server.pid

    def kill_workers(self) -> None:
        kill_all(self._workers)
        self._workers.clear()

    def stop_workers(self) -> None:
        while self._workers:
            self._workers.pop().stop()

    def teardown(self) -> None:
        self.stop_workers()
        self.close()
        if self._server is not None and self.url:
            self._server.drop_database(self.url)
            self.url = ""

    def log_tail(self) -> str:
        return tail(self._log)
