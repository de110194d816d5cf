"""What measuring attempts costs where it weighs most: `python -m bench.usage_cost [--jobs N] [--out FILE.json]`.

Functions that do nothing are drained from a SQLite file by one process. Of each two windows of 2,000 jobs it measures in one; which
of them, the dice say. The middle of the differences of all pairs is told: two processes, and two seconds of one process, differ
from one another by more than the figure. Target: at most 5 %.
"""

import argparse
import asyncio
import json
import random
import resource
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog
from rich.console import Console

from mainspring import App
from mainspring.execute.metering import StepMeter
from mainspring.runtime.loop import new_event_loop

JOBS = 600_000
_WINDOW = 2_000
_CHUNK = 10_000
_measure = StepMeter.enter


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU time of a job, in microseconds."""

    jobs: int
    with_cpu_us: float
    without_cpu_us: float
    cost_percent: float


def measure(jobs: int, console: Console, workdir: Path | None = None) -> Cost:
    with (
        tempfile.TemporaryDirectory(prefix="usage-", dir=workdir) as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        windows = runner.run(drain(f"sqlite:///{folder}/usage.db", jobs))
    pairs = list(zip(windows[True], windows[False], strict=False))
    without_us = 1e6 / _WINDOW * statistics.median(without for _, without in pairs)
    with_us = without_us + 1e6 / _WINDOW * statistics.median(with_ - without for with_, without in pairs)
    cost = 100 * (with_us / without_us - 1)
    console.print(
        f"{with_us:.2f} us of CPU a job with measuring, {without_us:.2f} without: measuring attempts costs {cost:.1f} % of a job "
        "that does nothing (target: at most 5 %)",
        highlight=False,
        soft_wrap=True,
    )
    return Cost(jobs, with_us, without_us, cost)


async def drain(store: str, jobs: int) -> dict[bool, list[float]]:
    """The CPU seconds of each window, with measuring and without."""
    app = App(store)
    done, measured, began_s = 0, True, 0.0
    windows: dict[bool, list[float]] = {True: [], False: []}
    dice = random.Random(jobs)

    @app.job()
    async def noop() -> None:
        nonlocal done, measured, began_s
        done += 1
        if done % _WINDOW == 0:
            now_s = _cpu_s()
            windows[measured].append(now_s - began_s)
            measured, began_s = _next(windows, dice), now_s
            StepMeter.enter = _measure if measured else _await  # type: ignore[method-assign,assignment]
        if done == jobs:
            app.stop()

    async with app:
        for start in range(0, jobs, _CHUNK):
            await app.submit_many(noop.job() for _ in range(min(_CHUNK, jobs - start)))
    began_s = _cpu_s()
    try:
        await app.run(slots=1000)
    finally:
        StepMeter.enter = _measure  # type: ignore[method-assign]
    return windows


def _next(windows: dict[bool, list[float]], dice: random.Random) -> bool:
    """The other one of a pair, or the first of the next."""
    with_, without = len(windows[True]), len(windows[False])
    return dice.random() < 0.5 if with_ == without else with_ < without


def _await(_self: StepMeter, call: Any, _metered: object) -> tuple[object, Any]:
    """As if attempts were not measured: the coroutine is awaited."""
    return None, call


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.usage_cost", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"at least {2 * _WINDOW} (default: {JOBS})")
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    options = parser.parse_args(argv)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    cost = measure(options.jobs, Console())
    if options.out is not None:
        options.out.write_text(json.dumps(asdict(cost), indent=2) + "\n")


if __name__ == "__main__":
    main()
