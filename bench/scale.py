"""How Mainspring on PostgreSQL scales: 1, 2 and 4 nodes drain the same backlog (`python -m bench.scale --out FILE.json`).

The backlog waits in a paused queue until every node has its share of the partitions, so all begin at once. What a job
costs is told for the nodes and for the server apart: on one machine they share the cores, on several they do not.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.cpu import cpu_s, tree_cpu_s
from bench.measure import Plan, Run, Say
from bench.peers.effects import payloads
from bench.peers.mainspring_postgres import MainspringPostgres

NODES = (1, 2, 4)
JOBS = 200_000
ROUNDS = 5
_CHUNK = 10_000
_READY_WITHIN_S = 60.0
_POLL_S = 0.05
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Scaled:
    """What so many nodes did: jobs per second, and CPU seconds for 1,000 jobs."""

    nodes: int
    drain_per_s: float
    nodes_cpu_s: float
    server_cpu_s: float


def measure(nodes: int, jobs: int, workdir: Path, say: Say) -> Scaled:
    """Drain a new backlog with so many nodes."""
    peer = MainspringPostgres()
    peer.nodes = nodes
    run = Run(peer, Plan(seed=1), say, workdir)
    with run.session(jobs) as effects:
        peer.pause(True)
        arguments = payloads(0, jobs)
        for start in range(0, jobs, _CHUNK):
            peer.submit_bulk(arguments[start : start + _CHUNK])
        peer.start_workers()
        _await_shares(peer)
        say(f"{nodes} nodes drain {jobs}")
        nodes_s, server_s = _cpu(peer)
        peer.pause(False)
        if not run.await_ended(effects, range(jobs), run.plan.drain_bound_s, "drain"):
            raise RuntimeError(f"the nodes said: {peer.log_tail() or 'nothing'}")
        nodes_after_s, server_after_s = _cpu(peer)
        ends = [effects.ended_at(index) for index in range(jobs)]
    thousands = jobs / 1000
    return Scaled(
        nodes,
        (jobs - 1) * _NS / (max(ends) - min(ends)),
        (nodes_after_s - nodes_s) / thousands,
        (server_after_s - server_s) / thousands,
    )


def _await_shares(peer: MainspringPostgres) -> None:
    """Wait until every node is there and none has more partitions than its share, rounded up."""
    deadline = time.monotonic() + _READY_WITHIN_S
    while True:
        owned = peer.owned_partitions()
        if len(owned) == peer.nodes and max(owned) - min(owned) <= 1:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"partitions are not shared: {owned}; the nodes said: {peer.log_tail() or 'nothing'}")
        time.sleep(_POLL_S)


def _cpu(peer: MainspringPostgres) -> tuple[float, float]:
    return sum(map(cpu_s, peer.worker_pids)), tree_cpu_s(peer.server_pid)


def table(results: Sequence[Scaled]) -> Table:
    """All figures, one row for each number of nodes."""
    shown = Table(title="Mainspring on PostgreSQL: nodes on one backlog; CPU seconds for 1,000 jobs")
    for title in ("nodes", "drain/s", "nodes' CPU s", "server's CPU s"):
        shown.add_column(title, justify="right")
    for each in results:
        shown.add_row(
            str(each.nodes), f"{each.drain_per_s:,.0f}", f"{each.nodes_cpu_s:.3f}", f"{each.server_cpu_s:.3f}"
        )
    return shown


def measure_all(nodes: Sequence[int], jobs: int, workdir: Path, console: Console) -> list[Scaled]:
    """Measure each number of nodes in turn, several times, because one drain is as much as a tenth off; show the middle."""

    def say(text: str) -> None:
        console.print(f"scale: {text}", markup=False, highlight=False, soft_wrap=True)

    rounds = [[measure(count, jobs, workdir, say) for count in nodes] for _ in range(ROUNDS)]
    results = [median(each) for each in zip(*rounds, strict=True)]
    console.print(table(results))
    return results


def median(measured: Sequence[Scaled]) -> Scaled:
    """Of several rounds with the same number of nodes: the middle of each figure."""
    return Scaled(
        measured[0].nodes,
        statistics.median(each.drain_per_s for each in measured),
        statistics.median(each.nodes_cpu_s for each in measured),
        statistics.median(each.server_cpu_s for each in measured),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"in the backlog (default: {JOBS})")
    parser.add_argument("--nodes", default=",".join(map(str, NODES)), help="numbers of nodes, comma between")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()), help="where the database lives")
    options = parser.parse_args(argv)
    nodes = [int(word) for word in options.nodes.split(",")]
    results = measure_all(nodes, options.jobs, options.workdir, Console())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps([asdict(each) for each in results], indent=2) + "\n")


if __name__ == "__main__":
    main()
