"""Mainspring on PostgreSQL: full durability, history kept."""

from collections.abc import Sequence

from bench.peers.mainspring_app import SETTINGS, Submitting, worker_command
from bench.peers.on_postgres import OnPostgres
from bench.peers.postgres_server import SETTINGS as SERVER_SETTINGS


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
