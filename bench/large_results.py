"""A large file from a function to a reader, and what memory that takes: `python -m bench.large_results [--mb N] [--out FILE.json]`.

A server over a folder, a worker that reaches it by HTTP, and a reader that downloads by HTTP, each a process of its own: the
function writes the file into its scratch folder and stores it, the reader brings it to a disk with its checksum checked. Told are
the time of each half, and by how much the peak of memory of each process is above what it had before. Target: 100 MB at most.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog
from rich.console import Console

from mainspring import App, Context
from mainspring.app.serving import Serving
from mainspring.config import ServeSettings
from mainspring.runtime.loop import new_event_loop

MB = 1_000
_MEGABYTE = 1_000_000
_BOUND_S = 600.0


@dataclass(frozen=True, slots=True)
class Large:
    """Memory: MB above what the process had before. `direct_mb`: of one process that is node, worker and reader at once."""

    mb: int
    store_s: float
    download_s: float
    server_mb: float
    worker_mb: float
    reader_mb: float
    direct_mb: float


def measure(mb: int, console: Console, workdir: Path | None = None) -> Large:
    with tempfile.TemporaryDirectory(prefix="large-", dir=workdir) as folder:
        store = f"sqlite:///{folder}/jobs.db"
        with _child("server", store) as (server, address), _child("worker", address) as (worker, _):
            read = _answer(["--role", "reader", "--where", address, "--mb", str(mb), "--to", folder])
            worker_mb, server_mb = _end(worker), _end(server)
        direct = _answer(
            ["--role", "direct", "--where", f"sqlite:///{folder}/direct.db", "--mb", str(mb), "--to", folder]
        )
    found = Large(mb, read["store_s"], read["download_s"], server_mb, worker_mb, read["grown_mb"], direct["grown_mb"])
    console.print(
        f"{mb:,} MB from a function to a reader: stored in {found.store_s:.1f} s, downloaded in {found.download_s:.1f} s",
        highlight=False,
    )
    console.print(
        f"peak memory above the start: worker {found.worker_mb:.0f} MB, server {found.server_mb:.0f} MB, reader "
        f"{found.reader_mb:.0f} MB; in one process {found.direct_mb:.0f} MB (target: at most 100 MB)",
        highlight=False,
    )
    return found


@contextmanager
def _child(role: str, where: str) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """A process that runs until its input ends; the first line that it says."""
    command = [sys.executable, "-m", "bench.large_results", "--role", role, "--where", where]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield child, child.stdout.readline().strip()
    finally:
        child.kill()
        child.wait()


def _end(child: "subprocess.Popen[str]") -> float:
    """Let it go; by how many MB it has grown."""
    answer, _ = child.communicate(timeout=60)
    grown: float = json.loads(answer.splitlines()[-1])["grown_mb"]
    return grown


def _answer(arguments: list[str]) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.large_results", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=_BOUND_S)
    said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return said


# in a process of its own


def make(where: str) -> tuple[App, Any]:
    app = App(where)

    @app.job(timeout="10m")
    async def film(ctx: Context, mb: int) -> int:
        path = ctx.scratch / "film"
        await asyncio.to_thread(_write, path, mb)
        await ctx.output(path)
        return mb

    return app, film


def _write(path: Path, mb: int) -> None:
    with path.open("wb") as file:
        for number in range(mb):
            file.write(number.to_bytes(8) * (_MEGABYTE // 8))


async def serve(where: str) -> None:
    app = App(where)  # executes nothing itself
    serving = Serving(ServeSettings(port=0, keys=False))
    await _until_told(app, app.run(signals=False, serving=serving, ready=lambda: print(serving.address, flush=True)))


async def work(where: str) -> None:
    app, _ = make(where)
    await _until_told(app, app.run(signals=False, ready=lambda: print("ready", flush=True)))


async def _until_told(app: App, running: Any) -> None:
    task = asyncio.ensure_future(running)
    told = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    await asyncio.sleep(0.5)  # whatever is loaded at the start is there
    before = _memory()
    await asyncio.wait((task, told), return_when=asyncio.FIRST_COMPLETED)
    print(json.dumps({"grown_mb": _peak() - before}), flush=True)
    app.stop()
    await task


async def read(where: str, mb: int, folder: Path) -> dict[str, float]:
    app, film = make(where)
    async with app:
        before, began = _memory(), time.perf_counter()
        job = await film.submit(mb)
        assert await job.result(timeout=_BOUND_S) == mb
        stored = time.perf_counter()
        path = await job.download("film", folder)
        ended = time.perf_counter()
        assert path.stat().st_size == mb * _MEGABYTE
        os.unlink(path)
    return {"store_s": stored - began, "download_s": ended - stored, "grown_mb": _peak() - before}


async def direct(where: str, mb: int, folder: Path) -> dict[str, float]:
    """Node, worker and reader at once."""
    app, film = make(where)
    ready = asyncio.Event()
    running = asyncio.create_task(app.run(signals=False, ready=ready.set))
    await ready.wait()
    before = _memory()
    async with app:
        job = await film.submit(mb)
        await job.result(timeout=_BOUND_S)
        await job.download("film", folder / "film")
    app.stop()
    await running
    return {"grown_mb": _peak() - before}


def _memory() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / _MEGABYTE


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MEGABYTE


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.large_results", description=__doc__)
    parser.add_argument("--mb", type=int, default=MB)
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    for name in ("--role", "--where", "--to"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.role is None:
        found = measure(options.mb, Console())
        if options.out is not None:
            options.out.write_text(json.dumps(asdict(found), indent=2) + "\n")
        return
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    with asyncio.Runner(loop_factory=new_event_loop) as running:
        match options.role:
            case "server":
                running.run(serve(options.where))
            case "worker":
                running.run(work(options.where))
            case "reader":
                print(json.dumps(running.run(read(options.where, options.mb, Path(options.to)))))
            case _:
                print(json.dumps(running.run(direct(options.where, options.mb, Path(options.to)))))


if __name__ == "__main__":
    main()
