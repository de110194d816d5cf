"""What poison does to its neighbours: `python -m bench.poison [--seconds N] [--rounds N] [--workdir DIR] [--out FILE.json]`.

One worker on a SQLite file runs a no-op job every 20 ms, timed from its submit to its result: for a while alone, then beside
poison: scripts that crash, eat memory, fork without end and hang. They are jobs as any other, tried again with the usual backoff
until they are given up; then the next of their kind comes. Then once more, but each is back a quarter of a second after it has
failed, sooner than any backoff would have it: a storm of starts, four times as many. The three take turns, so that whatever
else the machine does meets them all; on a disk with a mind of its own, say `--workdir /dev/shm`.

Target: beside poison the no-op jobs' p99 is at most 1.2 times that alone. The storm has none.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog
from rich.console import Console

from bench.measure import percentile
from mainspring import App, JobFailedError
from mainspring.app.function import JobFunction
from mainspring.execute.sandbox.limits import Limits
from mainspring.runtime.loop import new_event_loop

SECONDS, ROUNDS = 20.0, 4
TARGET = 1.2
_EVERY_S = 0.02
_AGAIN_S = 0.25
_LIMITS = Limits(memory_mb=64, processes=32)
_TIMEOUT_S = 2.0
_USUAL = 3  # retries, with the usual backoff: up to 2, 4 and 8 s
_SCRIPTS = (
    "import os; os.abort()",
    "import os; held = [bytearray(os.urandom(1) * 1_000_000) for _ in range(10_000)]",
    "import os, time\nwhile True:\n    try:\n        os.fork()\n    except BlockingIOError:\n        time.sleep(0.1)",
    "import threading; threading.Event().wait()",
)


@dataclass(frozen=True, slots=True)
class Poisoned:
    """Of the no-op jobs, in milliseconds; `poison`, `storm`: attempts that failed meanwhile."""

    jobs: int
    poison: int
    storm: int
    alone_p50_ms: float
    alone_p99_ms: float
    poison_p50_ms: float
    poison_p99_ms: float
    storm_p50_ms: float
    storm_p99_ms: float

    @property
    def ratio(self) -> float:
        return self.poison_p99_ms / self.alone_p99_ms

    @property
    def storm_ratio(self) -> float:
        return self.storm_p99_ms / self.alone_p99_ms


def measure(seconds: float, rounds: int, console: Console, workdir: Path | None = None) -> Poisoned:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with (
        tempfile.TemporaryDirectory(prefix="poison-", dir=workdir) as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        found = runner.run(_measure(seconds, rounds, Path(folder)))
    console.print(
        f"no-op jobs alone p50 {found.alone_p50_ms:.1f}, p99 {found.alone_p99_ms:.1f} ms; beside {found.poison} attempts of poison "
        f"p50 {found.poison_p50_ms:.1f}, p99 {found.poison_p99_ms:.1f} ms: {found.ratio:.2f} times (target: {TARGET:g}); "
        f"in a storm of {found.storm} p50 {found.storm_p50_ms:.1f}, p99 {found.storm_p99_ms:.1f} ms: {found.storm_ratio:.2f} times",
        highlight=False,
        soft_wrap=True,
    )
    return found


async def _measure(seconds: float, rounds: int, folder: Path) -> Poisoned:
    app = App(f"sqlite:///{folder}/jobs.db")

    @app.job(name="noop")
    async def noop() -> None:
        pass

    ready = asyncio.Event()
    running = asyncio.create_task(app.run(signals=False, ready=ready.set, types=["script"]))
    try:
        await ready.wait()
        await _latencies(noop, 1.0)  # the first ones are not like the others
        waits: list[list[float]] = [[], [], []]
        ended = [0, 0, 0]
        for _ in range(rounds):
            for place, (scripts, retries) in enumerate((((), 0), (_SCRIPTS, _USUAL), (_SCRIPTS, 0))):
                feeding = [asyncio.ensure_future(_feed(app, code, retries, seconds)) for code in scripts]
                waits[place] += await _latencies(noop, seconds)
                ended[place] += sum(await asyncio.gather(*feeding))
    finally:
        app.stop()
        await running
    figures = [percentile(each, share) for each in waits for share in (50, 99)]
    return Poisoned(sum(map(len, waits)), *ended[1:], *figures)


async def _latencies(noop: "JobFunction[[], None]", seconds: float) -> list[float]:
    waits: list[float] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        began = time.perf_counter()
        await (await noop.submit()).result(timeout=60)
        waits.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(_EVERY_S)
    return waits


async def _feed(app: App, code: str, retries: int, seconds: float) -> int:
    """One job after the other, each until it is given up or the time is over. How many attempts there were."""
    attempts = 0
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0:
        options = app.script.options(retries=retries, timeout=_TIMEOUT_S)
        job = await options.submit(["python3", "-c", code], limits=_LIMITS)
        try:
            await job.result(timeout=left_s)
        except TimeoutError:
            await job.cancel()
        except JobFailedError:
            await asyncio.sleep(_AGAIN_S)
        attempts += (await job.status()).attempt
    return attempts


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.poison", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--workdir", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    found = measure(options.seconds, options.rounds, Console(), options.workdir)
    if options.out is not None:
        said = {**asdict(found), "ratio": found.ratio, "storm_ratio": found.storm_ratio}
        options.out.write_text(json.dumps(said, indent=2) + "\n")


if __name__ == "__main__":
    main()
