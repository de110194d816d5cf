"""How long a script takes to begin: `python -m bench.script_start [--runs N] [--out FILE.json]`.

From the call of the sandbox to the first byte that the program writes, one program after the other on an idle worker: `echo` bare,
in bubblewrap without rules for system calls, and in the sandbox as it is; Python bare, in the sandbox, and kept warm in it. After
that byte the program's end and the removal of its folder and group are not counted.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from bench.measure import percentile
from mainspring.execute.sandbox import launch
from mainspring.execute.sandbox.ability import ability
from mainspring.execute.sandbox.launch import Order
from mainspring.execute.sandbox.run import started
from mainspring.execute.sandbox.warm import warmed
from mainspring.runtime.loop import new_event_loop

RUNS = 200
_ALLOW_ALL = bytes((6, 0, 0, 0, 0, 0, 0xFF, 0x7F))  # one instruction: return "allowed"
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
        with patch.object(launch, "filter_program", lambda: _ALLOW_ALL):
            found.append(await _way("bubblewrap", _ECHO, runs))
        found.append(await _way("sandbox", _ECHO, runs))
        found.append(await _way("bare Python", _COLD_PYTHON, runs, bare=True))
        found.append(await _way("sandbox, Python", _COLD_PYTHON, runs))
        found.append(await _way("sandbox, warm Python", _PYTHON, runs, warm=True))
    for each in found:
        line = f"start of a script, {each.way:22} p50 {each.p50_ms:6.1f} ms, p99 {each.p99_ms:6.1f} ms"
        console.print(line, highlight=False)
    return found


async def _way(way: str, command: list[str], runs: int, *, bare: bool = False, warm: bool = False) -> Start:
    waits = []
    for _ in range(runs):
        if warm:
            await _until_warm(command)
        waits.append(await _start(command, bare))
    await asyncio.to_thread(warmed().clear)
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


async def _until_warm(command: list[str]) -> None:
    here = ability()
    order = Order(command=command, binary=here.binary, uid=here.users.take(), tree=here.tree)
    await asyncio.to_thread(warmed().fill, order)
    deadline = time.monotonic() + 10
    while not any(warm.is_ready() for warm in warmed()._waiting):
        if time.monotonic() > deadline:
            raise RuntimeError("no Python became warm")
        await asyncio.sleep(0.002)


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
