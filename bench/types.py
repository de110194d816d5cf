"""What job types and what comes with them cost: `python -m bench.types [--out FILE.json] [--only PART,...] [--quick]`.

Each part is a measurement of its own (`python -m bench.PART`), run in a process of its own, one after the other. The table has each
figure beside its target; the file has all that the parts say.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_BOUND_S = 900.0
_TABLE_WIDTH = 150

Said = Any  # what a part has written


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; `good`: does it reach the target?"""

    what: str
    figure: str
    target: str
    good: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A measurement. `small`: its arguments for a run that only shows that it works."""

    name: str
    small: tuple[str, ...]
    rows: Callable[[Said], Iterator[Row]]


def _usage(said: Said) -> Iterator[Row]:
    cost = said["cost_percent"]
    yield Row("measuring every attempt, of a job that does nothing", f"{cost:.1f} %", "at most 5 %", cost <= 5)


def _logs(said: Said) -> Iterator[Row]:
    for each in said:
        kept, read = each["mb_per_s"], each["read_mb_per_s"]
        figure = f"{kept:.0f} and {read:.0f} MB/s"
        yield Row(f"log lines kept and read back, from a {each['source']}", figure, "kept at least 50 MB/s", kept >= 50)


def _containers(said: Said) -> Iterator[Row]:
    what = f"a container's first byte, {said['runtime']}, p50 and p99"
    start = said["start_p50_ms"]
    yield Row(what, f"{start:.0f} and {said['start_p99_ms']:.0f} ms", "p50 at most 100 ms", start <= 100)
    alone, job = said["runtime_alone_p50_ms"], said["job_p50_ms"]
    yield Row("the runtime alone, and a whole job, p50", f"{alone:.0f} and {job:.0f} ms", "", True)


def _scripts(said: Said) -> Iterator[Row]:
    for start in said["starts"]:
        figure = f"{start['p50_ms']:.1f} and {start['p99_ms']:.1f} ms"
        yield Row(f"a script's first byte, {start['way']}, p50 and p99", figure, "", True)


def _poison(said: Said) -> Iterator[Row]:
    ratio = said["ratio"]
    yield Row("p99 of other jobs beside poison, against alone", f"{ratio:.2f} times", "at most 1.2 times", ratio <= 1.2)
    yield Row("the same in a storm of it", f"{said['storm_ratio']:.2f} times", "", True)


def _large(said: Said) -> Iterator[Row]:
    worst = max(said["worker_mb"], said["reader_mb"])
    what = f"memory of worker and reader for a file of {said['mb']:,} MB"
    yield Row(what, f"{said['worker_mb']:.0f} and {said['reader_mb']:.0f} MB", "at most 100 MB each", worst <= 100)
    rates = f"{said['mb'] / said['store_s']:,.0f} and {said['mb'] / said['download_s']:,.0f} MB/s"
    yield Row("written and stored, and downloaded, over HTTP", rates, "", True)


PARTS = (
    Part("usage_cost", ("--jobs", "10000"), _usage),
    Part("script_start", ("--runs", "5"), _scripts),
    Part("poison", ("--seconds", "2", "--rounds", "1"), _poison),
    Part("log_throughput", ("--mb", "16", "--rounds", "1"), _logs),
    Part("container_start", ("--runs", "3"), _containers),
    Part("large_results", ("--mb", "50"), _large),
)


def measure_all(small: bool, console: Console, only: Sequence[str] = ()) -> dict[str, Said]:
    """What each part says; one that could not be measured here says nothing."""
    said: dict[str, Said] = {}
    for part in PARTS:
        if only and part.name not in only:
            continue
        console.print(f"types: {part.name}", highlight=False)
        found = _measure(part, small)
        if found is not None:
            said[part.name] = found
    console.print(_table(said))
    return said


def _measure(part: Part, small: bool) -> Said | None:
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder:
        out = Path(folder, "said.json")
        command = [sys.executable, "-m", f"bench.{part.name}", "--out", str(out), *(part.small if small else ())]
        subprocess.run(command, check=True, timeout=_BOUND_S)
        found: Said | None = json.loads(out.read_text()) if out.exists() else None
        return found


def _table(said: dict[str, Said]) -> Table:
    shown = Table(title="job types")
    for title in ("part", "what", "figure", "target", ""):
        shown.add_column(title)
    for part in PARTS:
        for row in part.rows(said[part.name]) if part.name in said else ():
            shown.add_row(part.name, row.what, row.figure, row.target, "" if row.good else "missed")
    return shown


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.types", description=__doc__)
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    parser.add_argument("--only", default="", help=f"comma between: {', '.join(part.name for part in PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small numbers: shows that it works")
    options = parser.parse_args(argv)
    only = [word.strip() for word in options.only.split(",") if word.strip()]
    if unknown := set(only) - {part.name for part in PARTS}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    said = measure_all(options.quick, Console(width=max(Console().width, _TABLE_WIDTH)), only)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(said, indent=2) + "\n")


if __name__ == "__main__":
    main()
