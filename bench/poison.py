"""What poison does to its neighbours: `python -m bench.poison [--seconds N] [--rounds N] [--out FILE.json]`.

One worker on a SQLite file runs a no-op job every 20 ms, timed from its submit to its result: for a while alone, then beside
scripts that are well, then beside poison: scripts that crash, eat memory, fork without end and hang, each started again a moment
after it has failed, sooner than any backoff would. Any program at all takes CPU and disk from those beside it, so each poison has a
twin that does much the same and ends well: what poison itself does to others is the ratio to its twins. The three take turns, so
that whatever else the machine does meets them all; on a disk with a mind of its own, say `--workdir /dev/shm`. Target: beside
poison the no-op jobs' p99 is at most 1.2 times that alone; how much of it poison adds, the twins say.
"""

import argparse
import asyncio
import contextlib
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

SECONDS, ROUNDS = 8.0, 4
TARGET = 1.2
_EVERY_S = 0.02
_AGAIN_S = 0.25
_LIMITS = Limits(memory_mb=64, processes=32)
_TIMEOUT_S, _NEARLY_S = 2.0, 1.8
#: What it does, and what its twin does.
_SCRIPTS = {
    "crash": ("import os; os.abort()", "pass"),
    "memory": (
        "import os; held = [bytearray(os.urandom(1) * 1_000_000) for _ in range(10_000)]",
        "import os; held = [bytearray(os.urandom(1) * 1_000_000) for _ in range(40)]",
    ),
    "forks": (
        "import os, time\nwhile True:\n    try:\n        os.fork()\n    except BlockingIOError:\n        time.sleep(0.1)",
        f"import os, time\nfor _ in range(4):\n    os.fork()\ntime.sleep({_NEARLY_S})",
    ),
    "hang": ("import threading; threading.Event().wait()", f"import time; time.sleep({_NEARLY_S})"),
}


@dataclass(frozen=True, slots=True)
class Poisoned:
    """Of the no-op jobs, in milliseconds; `twins`, `poison`: scripts that ended meanwhile, well or not."""

    jobs: int
    twins: int
    poison: int
    alone_p50_ms: float
    alone_p99_ms: float
    twins_p50_ms: float
    twins_p99_ms: float
    poison_p50_ms: float
    poison_p99_ms: float

    @property
    def ratio(self) -> float:
        return self.poison_p99_ms / self.alone_p99_ms

    @property
    def added(self) -> float:
        return self.poison_p99_ms / self.twins_p99_ms


def measure(seconds: float, rounds: int, console: Console, workdir: Path | None = None) -> Poisoned:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with (
        tempfile.TemporaryDirectory(prefix="poison-", dir=workdir) as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        found = runner.run(_measure(seconds, rounds, Path(folder)))
    console.print(
        f"no-op jobs alone p50 {found.alone_p50_ms:.1f}, p99 {found.alone_p99_ms:.1f} ms; beside {found.twins} scripts that are "
        f"well p50 {found.twins_p50_ms:.1f}, p99 {found.twins_p99_ms:.1f} ms; beside {found.poison} that are poison p50 "
        f"{found.poison_p50_ms:.1f}, p99 {found.poison_p99_ms:.1f} ms: {found.ratio:.2f} times that alone "
        f"(target: {TARGET:g}), {found.added:.2f} times that beside the others",
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
            for place, scripts in enumerate(((), *zip(*_SCRIPTS.values(), strict=True))):
                running_on = [asyncio.ensure_future(_repeat(app, code, seconds)) for code in scripts]
                waits[place] += await _latencies(noop, seconds)
                ended[place] += sum(await asyncio.gather(*running_on))
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


async def _repeat(app: App, code: str, seconds: float) -> int:
    ended = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        job = await app.script.options(retries=0, timeout=_TIMEOUT_S).submit(["python3", "-c", code], limits=_LIMITS)
        with contextlib.suppress(JobFailedError):
            await job.result(timeout=60)
        ended += 1
        await asyncio.sleep(_AGAIN_S)
    return ended


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.poison", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--workdir", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    found = measure(options.seconds, options.rounds, Console(), options.workdir)
    if options.out is not None:
        options.out.write_text(
            json.dumps({**asdict(found), "ratio": found.ratio, "added": found.added}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
