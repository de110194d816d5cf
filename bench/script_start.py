"""How long a script takes to begin: `python -m bench.script_start [--runs N] [--out FILE.json]`.

From the call of the sandbox to the first byte that the program writes, one program after the other on an idle worker: `echo` and
Python, each bare and in the sandbox; and Python kept warm in it, after a moment in which the next one gets ready. After that byte
the program's end and the removal of its folder and group are not counted.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from bench.measure import percentile
from mainspring.execute.sandbox.ability import ability
from mainspring.execute.sandbox.launch import Order
from mainspring.execute.sandbox.run import started
from mainspring.runtime.loop import new_event_loop

RUNS = 200
_WARM_S = 0.3  # is more than Python needs to be ready
_ECHO = ["echo", "x"]
_PYTHON = ["python3", "-c", "print('x')"]
_COLD_PYTHON = ["/usr/bin/env", *_PYTHON]


@dataclass(frozen=True, slots=True)
class Start:
    """How one way of starting did."""

    way: str
    runs: int
    p50_ms: float
    p99_ms: float


def measure(runs: int, console: Console) -> list[Start]:
    """All ways that this machine has."""
    if (why_not := ability().why_not) is not None:
        console.print(f"only bare: {why_not}", markup=False, highlight=False)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_measure(runs, console))


async def _measure(runs: int, console: Console) -> list[Start]:
    found = [await _way("bare", _ECHO, runs, bare=True)]
    if ability().binary is not None:
        found.append(await _way("sandbox", _ECHO, runs))
        found.append(await _way("bare Python", _COLD_PYTHON, runs, bare=True))
        found.append(await _way("sandbox, Python", _COLD_PYTHON, runs))
        found.append(await _way("sandbox, warm Python", _PYTHON, runs, warm=True))
    for each in found:
        line = f"start of a script, {each.way:22} p50 {each.p50_ms:6.1f} ms, p99 {each.p99_ms:6.1f} ms"
        console.print(line, highlight=False)
    return found


async def _way(way: str, command: list[str], runs: int, *, bare: bool = False, warm: bool = False) -> Start:
    await _start(command, bare)  # the first one is not like the others
    waits = []
    for _ in range(runs):
        if warm:
            await asyncio.sleep(_WARM_S)
        waits.append(await _start(command, bare))
    return Start(way, runs, percentile(waits, 50), percentile(waits, 99))


async def _start(command: list[str], bare: bool) -> float:
    """Milliseconds to the first byte."""
    here = ability()
    order = Order(command=command, binary=None if bare else here.binary, uid=here.users.take(), tree=here.tree)
    first: list[float] = []

    async def write(_stream: int, _data: bytes) -> None:
        first.append(time.perf_counter())

    began = time.perf_counter()
    async with started(order) as running:
        ended = await running.finish(write)
    if ended.exit_code != 0 or not first:
        raise RuntimeError(f"{command} ended with {ended.exit_code}: {ended.stderr.decode(errors='replace')}")
    return (first[0] - began) * 1000


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.script_start", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    found = measure(options.runs, Console())
    if options.out is not None:
        options.out.write_text(json.dumps({"starts": [asdict(each) for each in found]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
