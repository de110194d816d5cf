"""Continuous load on Mainspring on PostgreSQL: jobs are submitted and drained at the same time, with a bounded backlog.

All jobs carry the same index, so the one worker process counts their ends in one stamp, however many there are.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.peers.effects import Effects, payload
from bench.peers.mainspring_postgres import MainspringPostgres

BACKLOG = 20_000
_CHUNK = 2_000
_POLL_S = 0.005
_WARM_S = 5.0
_STALLED_S = 60.0


@dataclass(slots=True)
class Continuous:
    """A system under continuous load."""

    peer: MainspringPostgres
    effects: Effects
    submitted: int = 0

    @property
    def ended(self) -> int:
        """How many jobs have run to their end."""
        return self.effects.runs(0)

    def run(self, seconds: float, every_s: float, tell: Callable[[float, float], None]) -> float:
        """Keep it busy; `tell` gets the time so far and the rate since it was last called. Returns jobs per second."""
        began = last = time.monotonic()
        before = told = self.ended
        while (now := time.monotonic()) - began < seconds:
            if now - last >= every_s:
                ended = self.ended
                tell(now - began, (ended - told) / (now - last))
                last, told = now, ended
            self.feed()
        return (self.ended - before) / (time.monotonic() - began)

    def feed(self) -> None:
        """Submit a little if the backlog has room, else wait a moment."""
        if self.submitted - self.ended < BACKLOG:
            self.peer.submit_bulk([payload(0)] * _CHUNK)
            self.submitted += _CHUNK
        else:
            time.sleep(_POLL_S)


@contextmanager
def continuous(workdir: Path) -> Iterator[Continuous]:
    """A new database under load, warm."""
    peer = MainspringPostgres()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=workdir, ignore_cleanup_errors=True) as name:
        effects = Effects(Path(name) / "stamps", 1)
        try:
            peer.setup(Path(name), effects.path)
            peer.start_workers()
            load = Continuous(peer, effects)
            _warm(load)
            yield load
        finally:
            peer.teardown()
            effects.close()


def _warm(load: Continuous) -> None:
    deadline = time.monotonic() + _STALLED_S
    while not load.ended:
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing runs; the worker said: {load.peer.log_tail() or 'nothing'}")
        load.feed()
    load.run(_WARM_S, _WARM_S, lambda _at, _rate: None)
