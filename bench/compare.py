"""Measure every system in one run: `python -m bench.compare --out FILE.json [--only WORD,...] [--quick]`.

A word of `--only` is a system's name, the store of a family (sqlite, redis, postgres), http (Mainspring through its API), or types
(what job types, logs and the measuring of attempts cost).
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.measure import Plan, Run, quick
from bench.peers import redis_server
from bench.peers.protocol import Figures
from bench.systems import ENTRIES, Entry, chosen, versions

_TABLE_WIDTH = 150
_SCALED = "mainspring-postgres"
_HTTP, _TYPES = "http", "types"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    families = ", ".join(dict.fromkeys(entry.family for entry in ENTRIES))
    names = ", ".join(entry.name for entry in ENTRIES)
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--only", default="", help=f"comma between; families: {families}; systems: {names}")
    parser.add_argument(
        "--quick", action="store_true", help="small numbers: shows that it works, the figures mean little"
    )
    parser.add_argument("--seed", type=int, default=1, help="of gaps and due times (default: 1)")
    parser.add_argument("--workdir", type=Path, help="where the databases live (default: the system's temp folder)")
    parser.add_argument(
        "--redis-appendfsync",
        choices=("off", "everysec", "always"),
        default="off",
        help="append-only file of the Redis server (default: off, as the server's own default)",
    )
    return parser.parse_args(argv)


def machine(workdir: Path) -> dict[str, object]:
    """The facts about this machine that the figures depend on."""
    return {
        "cpus": os.cpu_count(),
        "cpu": cpu_model(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "filesystem": filesystem(workdir),
        "load_before": os.getloadavg()[0],
    }


def cpu_model() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def filesystem(folder: Path) -> str:
    """The type of the file system that holds `folder`: a tmpfs would make every fsync free."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    best = ("", "unknown")
    for line in mounts.read_text().splitlines():
        _, place, kind, *_ = line.split()
        if folder.resolve().is_relative_to(place) and len(place) >= len(best[0]):
            best = (place, kind)
    return best[1]


def rate(value: float | None) -> str:
    """Jobs per second for the table."""
    return "-" if value is None else f"{value:,.0f}"


def ms(value: float | None) -> str:
    """Milliseconds for the table."""
    return "-" if value is None else f"{value:,.1f}"


def lost(figures: Figures) -> str:
    """Lost jobs for the table."""
    return "-" if figures.lost is None else f"{figures.lost} of {figures.lost_of}"


def table(results: Sequence[Figures]) -> Table:
    """All figures, one row for each system."""
    shown = Table(title="jobs/s: more is better; ms: less is better")
    for title in ("system", "one/s", "bulk/s", "drain/s", "idle p50", "p99 ms", "timer p50", "p99", "max ms", "early"):
        shown.add_column(title, justify="left" if title == "system" else "right")
    shown.add_column("lost", justify="right")
    shown.add_column("ran twice", justify="right")
    for each in results:
        shown.add_row(
            each.system,
            *map(rate, (each.submit_one_per_s, each.submit_bulk_per_s, each.drain_per_s)),
            *map(ms, (each.idle_p50_ms, each.idle_p99_ms, each.timer_p50_ms, each.timer_p99_ms, each.timer_max_ms)),
            "-" if each.timers_early is None else str(each.timers_early),
            lost(each),
            "-" if each.ran_twice is None else str(each.ran_twice),
        )
    return shown


def installed(entries: Sequence[Entry], console: Console) -> list[Entry]:
    """The systems that can be measured here; one line for each thing that another would need."""
    wanting = {entry.name: entry.wanting() for entry in entries}
    for advice in dict.fromkeys(advice for advice in wanting.values() if advice):
        console.print(advice, markup=False, soft_wrap=True)
    return [entry for entry in entries if not wanting[entry.name]]


def measure(entry: Entry, plan: Plan, workdir: Path, console: Console) -> Figures:
    """Measure one system and show how far it is."""
    began = time.monotonic()

    def say(text: str) -> None:
        line = f"{entry.name} {time.monotonic() - began:6.1f}s {text}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    return Run(entry.load(), plan, say, workdir).all()


def report(results: Sequence[Figures], console: Console) -> None:
    """The table, then what a reader must know beside it."""
    console.print(table(results))
    for each in results:
        console.print(f"{each.system}: {each.settings}", markup=False, highlight=False, soft_wrap=True)
        for note in each.notes:
            console.print(f"  note: {note}", markup=False, highlight=False, soft_wrap=True)


def scale(plan: Plan, workdir: Path, console: Console) -> list[dict[str, object]]:
    """How the system that can have many nodes does with more of them."""
    from bench import scale  # needs what only the systems on PostgreSQL need

    return [asdict(each) for each in scale.measure_all(scale.NODES, plan.scaled(scale.JOBS), workdir, console)]


def http(small: bool, workdir: Path, console: Console) -> list[dict[str, object]]:
    """The same system through its API."""
    from bench import http  # needs what only servers and clients need

    return [
        asdict(each) for each in http.measure_all(http.STORES, http.SMALL if small else http.Sizes(), workdir, console)
    ]


def types(small: bool, console: Console) -> dict[str, object]:
    """What comes with job types."""
    from bench import types

    return types.measure_all(small, console)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the file."""
    options = arguments(argv)
    os.environ[redis_server.ENV_APPENDFSYNC] = options.redis_appendfsync
    words = [word.strip() for word in options.only.split(",") if word.strip()]
    rest = [word for word in words if word not in (_HTTP, _TYPES)]
    entries = chosen(",".join(rest)) if rest or not words else []
    workdir: Path = options.workdir or Path(tempfile.gettempdir())
    plan = quick(options.seed) if options.quick else Plan(options.seed)
    console = Console(width=max(Console().width, _TABLE_WIDTH))
    facts = machine(workdir)
    present = installed(entries, console)
    results = [measure(entry, plan, workdir, console) for entry in present]
    if results:
        report(results, console)
    scaled = scale(plan, workdir, console) if any(entry.name == _SCALED for entry in present) else []
    through_http = http(options.quick, workdir, console) if not words or _HTTP in words else []
    about_types = types(options.quick, console) if not words or _TYPES in words else {}
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": options.seed,
        "quick": options.quick,
        "plan": {key: str(value) if value == float("inf") else value for key, value in asdict(plan).items()},
        "machine": facts,
        "versions": versions(),
        "skipped": [entry.name for entry in entries if entry not in present],
        "figures": [asdict(each) for each in results],
        "scale": scaled,
        "http": through_http,
        "types": about_types,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
