"""What poison does to its neighbours: `python -m bench.poison [--seconds N] [--rounds N] [--out FILE.json]`.

One worker on a SQLite file runs a no-op job every 20 ms, timed from its submit to its result: for a while alone, then beside
scripts that eat memory, fork without end, spin and crash, each started again a moment after it has failed, sooner than any
backoff would. The two take turns, so that whatever else the machine does meets both; on a busy machine the ratio still says little.
Target: the no-op jobs' p99 beside poison is at most 1.2 times that without.
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

SECONDS, ROUNDS = 10.0, 3
TARGET = 1.2
_EVERY_S = 0.02
_AGAIN_S = 0.25
_LIMITS = Limits(memory_mb=64, processes=32)
_POISON = {
    "memory": "import os\nheld = [bytearray(os.urandom(1) * 1_000_000) for _ in range(10_000)]",
    "forks": "import os, time\nwhile True:\n    try:\n        os.fork()\n    except BlockingIOError:\n        time.sleep(0.1)",
    "spin": "while True: pass",
    "crash": "import os; os.abort()",
}


@dataclass(frozen=True, slots=True)
class Poisoned:
    """Of the no-op jobs, in milliseconds; `poison`: scripts that failed meanwhile."""

    jobs: int
    poison: int
    alone_p50_ms: float
    alone_p99_ms: float
    beside_p50_ms: float
    beside_p99_ms: float

    @property
    def ratio(self) -> float:
        return self.beside_p99_ms / self.alone_p99_ms


def measure(seconds: float, rounds: int, console: Console, workdir: Path | None = None) -> Poisoned:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with (
        tempfile.TemporaryDirectory(prefix="poison-", dir=workdir) as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        found = runner.run(_measure(seconds, rounds, Path(folder)))
    console.print(
        f"no-op jobs alone p50 {found.alone_p50_ms:.1f}, p99 {found.alone_p99_ms:.1f} ms; beside {found.poison} poison scripts "
        f"p50 {found.beside_p50_ms:.1f}, p99 {found.beside_p99_ms:.1f} ms: {found.ratio:.2f} times (target: {TARGET:g})",
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
        alone: list[float] = []
        beside: list[float] = []
        failed = 0
        await _latencies(noop, 1.0)  # the first ones are not like the others
        for _ in range(rounds):
            alone += await _latencies(noop, seconds)
            poisoning = [asyncio.ensure_future(_poison(app, code, seconds)) for code in _POISON.values()]
            beside += await _latencies(noop, seconds)
            failed += sum(await asyncio.gather(*poisoning))
    finally:
        app.stop()
        await running
    both = [percentile(waits, share) for waits in (alone, beside) for share in (50, 99)]
    return Poisoned(len(alone) + len(beside), failed, *both)


async def _latencies(noop: "JobFunction[[], None]", seconds: float) -> list[float]:
    waits: list[float] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        began = time.perf_counter()
        await (await noop.submit()).result(timeout=60)
        waits.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(_EVERY_S)
    return waits


async def _poison(app: App, code: str, seconds: float) -> int:
    failed = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        job = await app.script.options(retries=0, timeout="2s").submit(["python3", "-c", code], limits=_LIMITS)
        try:
            await job.result(timeout=60)
        except JobFailedError:
            failed += 1
        await asyncio.sleep(_AGAIN_S)
    return failed


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.poison", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--workdir", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    found = measure(options.seconds, options.rounds, Console(), options.workdir)
    if options.out is not None:
        options.out.write_text(json.dumps({**asdict(found), "ratio": found.ratio}, indent=2) + "\n")


if __name__ == "__main__":
    main()
