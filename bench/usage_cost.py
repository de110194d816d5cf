"""What measuring attempts costs where it weighs most: `python -m bench.usage_cost [--jobs N] [--rounds N] [--out FILE.json]`.

Functions that do nothing are drained from a SQLite file, with the measuring and without, in turns, each time in a new process. Both
are told: the rate, and the CPU time of the process per job. Whatever else the machine does can only add to that, so the least of
all rounds is compared. Target: at most 5 %.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog
from rich.console import Console

from mainspring import App
from mainspring.execute.metering import StepMeter
from mainspring.runtime.loop import new_event_loop

JOBS, ROUNDS = 50_000, 12
SMALL = (2_000, 1)
_CHUNK = 10_000
_BOUND_S = 120.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The best of all rounds."""

    jobs: int
    rounds: int
    with_per_s: float
    without_per_s: float
    with_cpu_us: float
    without_cpu_us: float
    cost_percent: float  # of CPU time


def measure(jobs: int, rounds: int, console: Console, workdir: Path | None = None) -> Cost:
    """With and without in turns."""
    found: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for number in range(rounds):
        for measured in (True, False) if number % 2 else (False, True):
            ran = _run(jobs, measured, workdir)
            found[measured].append(ran)
            how = "with" if measured else "without"
            console.print(
                f"usage {how:7} {ran['per_s']:>8,.0f} jobs/s {ran['cpu_us']:6.2f} us of CPU a job", highlight=False
            )
    cpu = {measured: min(ran["cpu_us"] for ran in runs) for measured, runs in found.items()}
    rate = {measured: max(ran["per_s"] for ran in runs) for measured, runs in found.items()}
    cost = 100 * (cpu[True] / cpu[False] - 1)
    console.print(
        f"measuring attempts costs {cost:.1f} % of a job that does nothing (target: at most 5 %)", highlight=False
    )
    return Cost(jobs, rounds, rate[True], rate[False], cpu[True], cpu[False], cost)


def _run(jobs: int, measured: bool, workdir: Path | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="usage-", dir=workdir) as folder:
        command = [
            sys.executable,
            "-m",
            "bench.usage_cost",
            "--drain",
            str(Path(folder) / "usage.db"),
            "--jobs",
            str(jobs),
        ]
        if not measured:
            command.append("--unmeasured")
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_BOUND_S)
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures


def _measure_nothing() -> None:
    """As it was before attempts were measured: the coroutine is awaited."""

    def enter(_self: StepMeter, call: Any, _metered: object) -> tuple[object, Any]:
        return None, call

    StepMeter.enter = enter  # type: ignore[method-assign,assignment]


async def drain(store: str, jobs: int) -> dict[str, float]:
    """In a process of its own: fill a new store, then work it off."""
    app = App(f"sqlite:///{store}")
    left = jobs
    ended: tuple[float, float] = (0.0, 0.0)

    @app.job()
    async def noop() -> None:
        nonlocal left, ended
        left -= 1
        if not left:
            ended = _clocks()
            app.stop()

    async with app:
        for start in range(0, jobs, _CHUNK):
            await app.submit_many(noop.job() for _ in range(min(_CHUNK, jobs - start)))
    began = _clocks()
    await app.run(slots=1000)
    return {"per_s": jobs / (ended[0] - began[0]), "cpu_us": 1e6 * (ended[1] - began[1]) / jobs}


def _clocks() -> tuple[float, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), usage.ru_utime + usage.ru_stime


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.usage_cost", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    parser.add_argument("--drain", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--unmeasured", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.drain is None:
        cost = measure(options.jobs, options.rounds, Console())
        if options.out is not None:
            options.out.write_text(json.dumps(asdict(cost), indent=2) + "\n")
        return
    if options.unmeasured:
        _measure_nothing()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    with asyncio.Runner(loop_factory=new_event_loop) as running:
        print(json.dumps(running.run(drain(options.drain, options.jobs))))


if __name__ == "__main__":
    main()
