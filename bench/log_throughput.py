"""How fast one worker keeps what jobs write: `python -m bench.log_throughput [--mb N] [--rounds N] [--out FILE.json]`.

Numbered lines of 100 bytes, through a worker on a SQLite file with its objects in a folder beside it, from the submit to the
result: written by a function through the same call that pipes use, and by a real script. Afterwards everything is read back, and
every line has to be there, once and in its place. Target: 50 MB/s.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog
from rich.console import Console

from mainspring import App, Context, Job
from mainspring.core.draft import Draft
from mainspring.core.segments import OUT
from mainspring.runtime.loop import new_event_loop

MB, ROUNDS = 256, 3
SMALL = (16, 1)
TARGET_MB_S = 50.0
_BOUND_S = 300.0
_LINE = 100
_BLOCK = 5_000  # lines that a writer makes at once
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Throughput:
    """The middle of all rounds. `source`: function or script."""

    source: str
    mb: int
    rounds: int
    mb_per_s: float
    read_mb_per_s: float
    lines: int


def measure(mb: int, rounds: int, console: Console, workdir: Path | None = None) -> list[Throughput]:
    """Both, where scripts can run."""
    lines = mb * 1_000_000 // _LINE // _BLOCK * _BLOCK
    found = []
    for source in ("function", "script"):
        runs = [_in_new_loop(source, lines, workdir) for _ in range(rounds)]
        wrote, read = (statistics.median(rates) for rates in zip(*runs, strict=True))
        console.print(
            f"log of a {source:8} {wrote:7.1f} MB/s kept, {read:7.1f} MB/s read, {lines:,} lines, none lost "
            f"(target: {TARGET_MB_S:g} MB/s)",
            highlight=False,
        )
        found.append(Throughput(source, mb, rounds, wrote, read, lines))
    return found


def _in_new_loop(source: str, lines: int, workdir: Path | None) -> tuple[float, float]:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with (
        tempfile.TemporaryDirectory(prefix="logs-", dir=workdir) as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        return runner.run(_run(source, lines, Path(folder)))


async def _run(source: str, lines: int, folder: Path) -> tuple[float, float]:
    """MB/s that were kept, and MB/s that were read."""
    app = App(f"sqlite:///{folder}/jobs.db")

    @app.job(name="write", retries=0)
    async def write(ctx: Context, lines: int) -> None:
        for first in range(0, lines, _BLOCK):
            block = "".join(f"{number:099}\n" for number in range(first, first + _BLOCK)).encode()
            for begin in range(0, len(block), _CHUNK):
                await ctx._services.write(OUT, block[begin : begin + _CHUNK])

    ready = asyncio.Event()
    types = ["script"] if source == "script" else []
    running = asyncio.create_task(app.run(signals=False, ready=ready.set, log_limit=1_048_576, types=types))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    try:
        if running.done():
            await running
        async with app:
            script = app.script.options(retries=0).job(["seq", "-f", f"%0{_LINE - 1}.0f", "0", str(lines - 1)])
            return await _measured(app, script if source == "script" else write.job(lines), lines)
    finally:
        app.stop()
        with suppress(Exception):
            await running


async def _measured(app: App, draft: Draft, lines: int) -> tuple[float, float]:
    size_mb = lines * _LINE / 1e6
    began_s = time.perf_counter()
    (job,) = await app.submit_many([draft])
    await job.result(timeout=_BOUND_S)
    kept_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    await _check(job, lines)
    return size_mb / kept_s, size_mb / (time.perf_counter() - began_s)


async def _check(job: Job[Any], lines: int) -> None:
    """Every line, once and in its place."""
    expected, rest = 0, ""
    async for part in job.logs():
        if part.stream != "stdout":
            raise AssertionError(f"the log says: {part.text}")
        *whole, rest = (rest + part.text).split("\n")
        for line in whole:
            if len(line) != _LINE - 1 or int(line) != expected:
                raise AssertionError(f"line {expected} is {line[:200]!r}")
            expected += 1
    if expected != lines or rest:
        raise AssertionError(f"{expected:,} lines instead of {lines:,}, and {rest[:200]!r}")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.log_throughput", description=__doc__)
    parser.add_argument("--mb", type=int, default=MB)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--workdir", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    found = measure(options.mb, options.rounds, Console(), options.workdir)
    if options.out is not None:
        options.out.write_text(json.dumps([asdict(each) for each in found], indent=2) + "\n")


if __name__ == "__main__":
    main()
