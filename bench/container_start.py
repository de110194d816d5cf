"""How long a container takes to start: `python -m bench.container_start [--runs N] [--out FILE.json]`.

A container in a root folder, through whatever runs those here (podman, crun, runc), one after the other: from the order to the
first byte that the program writes, and from the submit of a job to its result. Beside them the runtime's own program from start to
end, which nothing here can be faster than. Target: 100 ms to the first byte in the middle.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from bench.measure import percentile
from mainspring import App
from mainspring.execute.containers.ability import Runtime, ability
from mainspring.execute.containers.leftovers import name_for
from mainspring.execute.containers.plan import Plan
from mainspring.execute.containers.run import started
from mainspring.execute.sandbox.folder import new_folder
from mainspring.execute.sandbox.users import Users
from mainspring.runtime.loop import new_event_loop

RUNS = 100
TARGET_MS = 100.0
_TOOLS = Path(__file__).parents[1] / ".tools" / "containers"
_COMMAND = ["sh", "-c", "echo begun"]


@dataclass(frozen=True, slots=True)
class Starts:
    """Milliseconds."""

    runtime: str
    runs: int
    start_p50_ms: float
    start_p99_ms: float
    job_p50_ms: float
    job_p99_ms: float
    runtime_alone_p50_ms: float


async def measure(runs: int, roots: Path, console: Console) -> Starts | None:
    """None where there is no runtime."""
    runtime = ability().root
    if runtime is None:
        console.print(f"containers: no runtime for root folders works here {ability().problems}", markup=False)
        return None
    uid = Users().take() or os.geteuid()
    plans = [
        Plan(name=name_for("bench", n), root=roots / "small", command=_COMMAND, env=_ENV, uid=uid) for n in range(runs)
    ]
    first = [await _first_byte(runtime, plan) for plan in plans]
    jobs = await _as_jobs(runs)
    alone = [_alone(runtime, plan) for plan in plans]
    return Starts(
        runtime.name,
        runs,
        *(percentile(first, 50), percentile(first, 99)),
        *(percentile(jobs, 50), percentile(jobs, 99)),
        percentile(alone, 50),
    )


_ENV = {"PATH": "/bin"}


async def _first_byte(runtime: Runtime, plan: Plan) -> float:
    began, heard = time.perf_counter(), 0.0

    async def write(_stream: int, _data: bytes) -> None:
        nonlocal heard
        heard = heard or time.perf_counter()

    async with started(runtime, plan, {}) as container:
        await container.finish(write)
    return 1000 * (heard - began)


def _alone(runtime: Runtime, plan: Plan) -> float:
    folder = new_folder(plan.uid)
    try:
        command = runtime.start(plan, folder)
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return 1000 * (time.perf_counter() - began)
    finally:
        folder.remove()


async def _as_jobs(runs: int) -> list[float]:
    """On a SQLite file, with a worker in this process."""
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder:
        app = App(f"sqlite:///{folder}/jobs.db")
        ready = asyncio.Event()
        running = asyncio.create_task(app.run(types=["container"], signals=False, ready=ready.set))
        await asyncio.wait((running, asyncio.ensure_future(ready.wait())), return_when=asyncio.FIRST_COMPLETED)
        took = []
        for _ in range(runs):
            began = time.perf_counter()
            await (await app.container.submit(root="small", command=_COMMAND)).result()
            took.append(1000 * (time.perf_counter() - began))
        app.stop()
        await running
        return took


def _make_root(folder: Path) -> bool:
    """A shell and nothing else."""
    found = shutil.which("busybox", path=f"{_TOOLS / 'bin'}:{os.environ.get('PATH', '')}")
    if found is None:
        return False
    folder.joinpath("bin").mkdir(parents=True)
    shutil.copy(found, folder / "bin/busybox")
    folder.joinpath("bin/sh").symlink_to("busybox")
    return True


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.container_start", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    options = parser.parse_args(argv)
    console = Console()
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{_TOOLS / 'usr/sbin'}"
    with tempfile.TemporaryDirectory(prefix="mainspring-roots-") as roots:
        os.chmod(roots, 0o755)
        os.environ["MAINSPRING_CONTAINER_ROOTS"] = roots
        if not _make_root(Path(roots, "small")):
            console.print(
                "containers: there is no busybox; `tests/get-packages.sh containers runc busybox-static` gets it"
            )
            return
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            figures = runner.run(measure(options.runs, Path(roots), console))
    if figures is not None:
        console.print(asdict(figures))
        if options.out is not None:
            options.out.write_text(json.dumps(asdict(figures), indent=2) + "\n")


if __name__ == "__main__":
    main()
