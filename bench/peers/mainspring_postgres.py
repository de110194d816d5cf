"""Mainspring on PostgreSQL: full durability, history kept."""

from collections.abc import Sequence

from bench.peers.mainspring_app import SETTINGS, Submitting, worker_command
from bench.peers.on_postgres import OnPostgres
from bench.peers.postgres_server import SETTINGS as SERVER_SETTINGS
from mainspring.core.job import DEFAULT_QUEUE, DEFAULT_TENANT, Limit
from mainspring.store.contract import QueueRecord


class MainspringPostgres(Submitting, OnPostgres):
    """Mainspring behind the verbs of the bench."""

    name = "mainspring-postgres"
    settings = f"{SETTINGS}; {SERVER_SETTINGS}"
    submit_jobs = 2_000
    drain_jobs = 200_000
    nodes = 1

    def open(self) -> None:
        self.open_app(self.url)

    def close(self) -> None:
        self.close_app()

    def worker_commands(self) -> Sequence[Sequence[str]]:
        return [worker_command(self.url)] * self.nodes

    def pause(self, paused: bool) -> None:
        """Hold all jobs back, or let them go."""
        assert self._app is not None
        queue = QueueRecord(DEFAULT_TENANT, DEFAULT_QUEUE, paused, Limit())
        self._app.sync.call(self._app.store.put_queue(queue))

    def owned_partitions(self) -> list[int]:
        """How many partitions each node has."""
        assert self._app is not None
        return [node.partitions for node in self._app.sync.call(self._app.store.list_nodes())]
