"""What wears a queue on PostgreSQL down, measured on Mainspring: `python -m bench.bloat --out FILE.json [--minutes N]`.

1. snapshot: the rate of continuous load with and without an old REPEATABLE READ snapshot held open, behind which nothing
   dead can be removed (target: at least 70 %).
2. steady: continuous load for some minutes; dead rows and sizes of the tables show whether vacuum keeps up.
3. retention: continuous load while what ended 20 s ago is dropped; how many jobs are overdue, and what it costs.
4. takeover: a node is killed; how long its jobs take to start again elsewhere (target: p99 at most 12 s).
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console

from bench.continuous import Continuous, continuous
from bench.measure import percentile
from bench.takeover import takeovers

PARTS = ("snapshot", "steady", "retention", "takeover")
_NARROW = ("ready", "live", "timer")  # as large as what waits and runs, so they must stop growing
_TABLES = (*_NARROW, "job")
_TELL_EVERY_S = 10.0
_STEADY_EVERY_S = 30.0
_KEEP_S = 20
_MB = 1_048_576
_SIZES = """
    SELECT relname, n_dead_tup, pg_total_relation_size(relid), autovacuum_count
    FROM pg_stat_user_tables WHERE relname = ANY(%s)
"""
_OVERDUE = """
    SELECT count(*), count(*) FILTER (WHERE finished_at < extract(epoch FROM clock_timestamp() - %s * interval '1 s') * 1e6)
    FROM mainspring.finished
"""


class Bloat:
    """The measuring, with its options."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._workdir: Path = options.workdir
        self._console = Console()

    def say(self, text: str) -> None:
        """One line of text."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def snapshot(self) -> dict[str, Any]:
        """Continuous load without and with an old snapshot, each on a new database."""
        rates = {}
        for name, hold in (("without", None), ("with", _old_snapshot)):
            with continuous(self._workdir) as load, hold(load.peer.url) if hold else nullcontext():
                self.say(f"{name} an old snapshot, {self._options.seconds:g} s")
                rates[name] = load.run(
                    self._options.seconds, _TELL_EVERY_S, lambda at, rate: self.say(f"{at:6.0f} s {rate:10,.0f}/s")
                )
        share = rates["with"] / rates["without"]
        self.say(f"without {rates['without']:,.0f}/s, with {rates['with']:,.0f}/s: {share:.0%} (target: at least 70 %)")
        return {**rates, "share": share}

    def steady(self) -> dict[str, Any]:
        """Continuous load; a line of sizes each half minute."""
        seconds = self._options.minutes * 60
        lines: list[dict[str, Any]] = []
        with continuous(self._workdir) as load, psycopg.connect(load.peer.url, autocommit=True) as connection:
            self.say(f"full speed for {self._options.minutes:g} minutes; dead rows, MB and vacuums of each table")

            def tell(at: float, rate: float) -> None:
                lines.append(self._line(load, connection, at, rate))

            rate = load.run(seconds, min(_STEADY_EVERY_S, seconds / 4), tell)
        half_mb, end_mb = _narrow_mb(lines[len(lines) // 2]), _narrow_mb(lines[-1])
        self.say(
            f"{rate:,.0f}/s; {', '.join(_NARROW)} together: {half_mb:,.0f} MB at half time, {end_mb:,.0f} at the end"
        )
        return {"rate": rate, "lines": lines}

    def _line(self, load: Continuous, connection: psycopg.Connection[Any], at: float, rate: float) -> dict[str, Any]:
        found = {name: rest for name, *rest in connection.execute(_SIZES, [list(_TABLES)])}
        shown = [f"{name} {found[name][0]:,} {found[name][1] / _MB:,.0f} MB {found[name][2]}" for name in _TABLES]
        self.say(f"{at:6.0f} s {rate:8,.0f}/s  backlog {load.submitted - load.ended:,}  {' | '.join(shown)}")
        return {"at_s": at, "per_s": rate, "tables": found}

    def retention(self) -> dict[str, Any]:
        """Continuous load with a short retention; a line each ten seconds of what is kept and what should be gone."""
        lines: list[dict[str, Any]] = []
        with (
            _retention(_KEEP_S),
            continuous(self._workdir) as load,
            psycopg.connect(load.peer.url, autocommit=True) as connection,
        ):
            self.say(f"full speed for {self._options.seconds:g} s; what ended {_KEEP_S} s ago is dropped")

            def tell(at: float, rate: float) -> None:
                ((kept, overdue),) = connection.execute(_OVERDUE, [_KEEP_S])
                self.say(f"{at:6.0f} s {rate:8,.0f}/s  ended jobs kept {kept:,}, of them overdue {overdue:,}")
                lines.append({"at_s": at, "per_s": rate, "kept": kept, "overdue": overdue})

            rate = load.run(self._options.seconds, _TELL_EVERY_S, tell)
        worst = max(line["overdue"] / line["per_s"] for line in lines)
        self.say(f"{rate:,.0f}/s; at worst {worst:.1f} s behind")
        return {"rate": rate, "worst_s": worst, "lines": lines}

    def takeover(self) -> dict[str, Any]:
        """Nodes killed at random moments."""
        waits = takeovers(self._options.kills, self._options.seed, self._workdir, self.say)
        p50, p99 = percentile(waits, 50), percentile(waits, 99)
        self.say(f"{len(waits)} jobs of killed nodes: p50 {p50:.1f} s, p99 {p99:.1f} s (target: at most 12)")
        return {"jobs": len(waits), "p50_s": p50, "p99_s": p99}


def _narrow_mb(line: dict[str, Any]) -> float:
    size: int = sum(line["tables"][name][1] for name in _NARROW)
    return size / _MB


@contextmanager
def _retention(keep_s: float) -> Iterator[None]:
    """For the processes started meanwhile."""
    os.environ["MAINSPRING_RETENTION"] = f"{keep_s}s"
    try:
        yield
    finally:
        del os.environ["MAINSPRING_RETENTION"]


@contextmanager
def _old_snapshot(url: str) -> Iterator[None]:
    """Hold a snapshot open, as a long report or a forgotten session does."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pg_class")  # the first statement takes the snapshot
        yield
        connection.rollback()


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m bench.bloat", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--only", choices=PARTS, help="one part (default: all)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=60,
        help="of each load of snapshot and retention (default: 60)",
    )
    parser.add_argument("--minutes", type=float, default=10, help="of the steady load (default: 10)")
    parser.add_argument("--kills", type=int, default=5, help="of nodes, in the takeover part (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills (default: 1)")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()), help="where the database lives")
    options = parser.parse_args(argv)
    measuring = Bloat(options)
    results = {part: getattr(measuring, part)() for part in PARTS if options.only in (None, part)}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
