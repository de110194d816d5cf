"""How long the jobs of a killed node take to start again on another one.

Two nodes share sleeping jobs; one is killed. Each has a file of stamps of its own, so it shows who began a job when.
"""

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.peers import effects
from bench.peers.effects import Effects, payloads
from bench.peers.mainspring_app import worker_command
from bench.peers.mainspring_postgres import MainspringPostgres
from bench.peers.processes import Group, tail

_JOBS = 48  # of both nodes: fewer than the threads of one, so that none of them has to wait
_NAP_MS = 9_000
_HEARTBEAT_S = 3.0
_WITHIN_S = 60.0
_POLL_S = 0.02
_NS = 1_000_000_000


def takeovers(trials: int, seed: int, workdir: Path, say: Callable[[str], None]) -> list[float]:
    """Seconds from the kill to the new start of each job that the killed node had begun."""
    offsets = random.Random(seed)
    waits: list[float] = []
    for trial in range(trials):
        with tempfile.TemporaryDirectory(prefix="bench-", dir=workdir, ignore_cleanup_errors=True) as name:
            found = _trial(Path(name), offsets.uniform(0, _HEARTBEAT_S))
        say(f"kill {trial + 1}: {len(found)} jobs began again after {min(found):.1f} to {max(found):.1f} s")
        waits += found
    return waits


def _trial(folder: Path, offset_s: float) -> list[float]:
    peer = MainspringPostgres()
    stamps = [Effects(folder / f"stamps-{number}", _JOBS) for number in range(2)]
    nodes: list[Group] = []
    log = folder / "nodes.log"
    try:
        peer.setup(folder, stamps[0].path)
        nodes += [
            Group(worker_command(peer.url), cwd=folder, log=log, env={effects.ENV: str(each.path)}) for each in stamps
        ]
        _until(lambda: len(owned := peer.owned_partitions()) == 2 and max(owned) - min(owned) <= 1, "shares", log)
        peer.submit_bulk(payloads(0, _JOBS, _NAP_MS))
        _until(lambda: sum(map(_begun, stamps)) >= _JOBS, "all jobs to begin", log)
        time.sleep(offset_s)  # at any point between two heartbeats
        killed_ns = time.time_ns()
        nodes[0].kill()
        cut_off = [index for index in range(_JOBS) if stamps[0].started_at(index) and not stamps[0].ended_at(index)]
        _until(lambda: all(stamps[1].started_at(index) for index in cut_off), "the jobs of the killed node", log)
        return [(stamps[1].started_at(index) - killed_ns) / _NS for index in cut_off]
    finally:
        for node in nodes:
            node.kill()
        peer.teardown()
        for each in stamps:
            each.close()


def _begun(stamps: Effects) -> int:
    return sum(1 for index in range(_JOBS) if stamps.started_at(index))


def _until(done: Callable[[], bool], what: str, log: Path) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited in vain for {what}; the nodes said: {tail(log) or 'nothing'}")
        time.sleep(_POLL_S)
