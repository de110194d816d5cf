"""What the bench asks of a system, and what it reports about it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol


@dataclass(slots=True)
class Figures:
    """All that was measured of one system; None where nothing could be measured (`notes` say why)."""

    system: str
    settings: str
    submit_one_per_s: float | None = None
    submit_bulk_per_s: float | None = None
    drain_per_s: float | None = None
    idle_p50_ms: float | None = None
    idle_p99_ms: float | None = None
    timer_p50_ms: float | None = None
    timer_p99_ms: float | None = None
    timer_max_ms: float | None = None
    timers_early: int | None = None
    lost: int | None = None
    lost_of: int | None = None
    ran_twice: int | None = None
    recovered_s: float | None = None
    notes: list[str] = field(default_factory=list)


class Timer(NamedTuple):
    """A job to run at a time, in whole milliseconds since the epoch so that no system has to round it."""

    due_ms: int
    payload: str


class Peer(Protocol):
    """One system. The driver calls `setup`, then the other verbs, then `teardown`; several times over.

    Every job calls `effects.run` with its payload as the one argument. Workers live in processes of their own.
    """

    @property
    def name(self) -> str:
        """The system's name in the table."""

    @property
    def settings(self) -> str:
        """Concurrency, prefetch, acknowledgement, durability: whatever a reader needs to judge the figures."""

    @property
    def submit_jobs(self) -> int:
        """How many jobs to submit when the rate of submitting one by one is measured."""

    @property
    def drain_jobs(self) -> int:
        """How many jobs to queue before the drain; enough for more than two seconds of work."""

    @property
    def quiet_s(self) -> float:
        """After a kill: how long nothing may happen before what is missing counts as lost."""

    def setup(self, workdir: Path, stamps: Path) -> None:
        """Make an empty system in the empty folder `workdir`; job stamps go to the file `stamps`."""

    def submit(self, payloads: Sequence[str]) -> None:
        """Submit jobs to run at once, one call of the system for each, one after the other."""

    def submit_bulk(self, payloads: Sequence[str]) -> None:
        """Submit jobs to run at once in the fastest way that the system documents."""

    def submit_at(self, timers: Sequence[Timer]) -> None:
        """Submit jobs that run at their times."""

    def start_workers(self) -> None:
        """Start the worker processes; need not wait until they are ready."""

    def kill_workers(self) -> None:
        """Send SIGKILL to every worker process at once and wait until they are gone."""

    def stop_workers(self) -> None:
        """Stop the worker processes in an orderly way; no error if none runs."""

    def teardown(self) -> None:
        """Stop everything that `setup` started. Must work after a failure at any point."""

    def log_tail(self) -> str:
        """The last lines that the workers wrote, to explain a failure."""
