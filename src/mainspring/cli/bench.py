"""`mainspring bench`: what this machine does with Mainspring, each figure with the bound the project promises.

Works on stores of its own: files in a temporary folder, or databases on the PostgreSQL server that `--store` names. The
comparison with other systems is in the repository's `bench/`.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct, json
from rich.console import Console
from rich.table import Table

from mainspring.cli.bench_child import Load
from mainspring.cli.bench_load import (
    Say,
    backlogs,
    behind,
    child,
    concurrent_submits,
    drain_rate,
    fill,
    fill_future,
    idle_share,
    quantile,
    urgent,
)
from mainspring.cli.bench_place import Place, place_of
from mainspring.cli.failures import UsageError
from mainspring.runtime.loop import new_event_loop

bench_app = typer.Typer(help="Measure this machine.", invoke_without_command=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Server = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="A PostgreSQL server, where databases are made for this and removed again; else SQLite files.",
        show_default=False,
    ),
]


class Figure(Struct, frozen=True):
    name: str
    value: float
    unit: str
    bound: str = ""


Scenario = Callable[[Place, Say], Awaitable[list[Figure]]]


@bench_app.callback()
def quick(
    context: typer.Context,
    jobs: Annotated[int, typer.Option(help="Jobs to drain.")] = 100_000,
    store: Server = None,
    as_json: AsJson = False,
) -> None:
    """Bulk submit, drain, concurrent submits, start latency and idle cost."""
    if context.invoked_subcommand is None:
        _run(lambda place, say: _throughput(place, say, jobs), store, as_json)
    elif store is not None:
        raise UsageError(f"--store belongs after `{context.invoked_subcommand}`")


@bench_app.command()
def depth(
    future: Annotated[int, typer.Option(help="Jobs due later.")] = 10_000_000,
    ready: Annotated[int, typer.Option(help="Jobs due now.")] = 1_000_000,
    store: Server = None,
    as_json: AsJson = False,
) -> None:
    """Does a deep backlog slow anything down? Compares with an almost empty store."""
    _run(lambda place, say: _depth(place, say, future, ready), store, as_json)


@bench_app.command()
def fairness(
    jobs: Annotated[int, typer.Option(help="Jobs in the way.")] = 1_000_000,
    store: Server = None,
    as_json: AsJson = False,
) -> None:
    """Does another job start soon behind a million that are in its way?"""
    _run(lambda place, say: _fairness(place, say, jobs), store, as_json)


async def _throughput(place: Place, say: Say, jobs: int) -> list[Figure]:
    figures = []
    for slots, size in ((1000, 100), (100, 100), (1000, 4096)):
        async with place.store(f"drain_{slots}_{size}") as store:
            load = Load(store.url)
            async with load.app:
                text = "x" * size
                say(f"{jobs:,} jobs with {size} bytes, {slots} slots")
                bulk = await _timed_fill(load, jobs, text)
            async with child(store.url, slots) as running:
                drained = await drain_rate(running, jobs)
        where = f"slots={slots}, {size} B arguments"
        figures += [Figure(f"bulk submit ({where})", bulk, "jobs/s"), Figure(f"drain ({where})", drained, "jobs/s")]
    async with place.store("single") as store, (load := Load(store.url)).app:
        say("100 callers submit one by one")
        figures.append(
            Figure("100 concurrent single submits", await concurrent_submits(load, 100, 100), "jobs/s", ">= 5,000")
        )
    async with place.store("idle") as store:
        load = Load(store.url)
        async with load.app, child(store.url, 100) as running:
            say("single jobs while idle")
            late = await urgent(load, running, 200, 0.04)
        figures.append(Figure("start latency when idle, p50", 1000 * quantile(late, 0.5), "ms", "<= 5"))
        figures.append(Figure("start latency when idle, p99", 1000 * quantile(late, 0.99), "ms", "<= 20"))
        say("nothing to do for 10 s")
        figures.append(Figure("idle process", 100 * await idle_share(store.url, 10), "% of a core", "< 1"))
    return figures


async def _timed_fill(load: Load, jobs: int, text: str) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    for start in range(0, jobs, 50_000):
        await load.app.submit_many(load.noop.job(text) for _ in range(min(50_000, jobs - start)))
    return jobs / (loop.time() - began)


async def _depth(place: Place, say: Say, future: int, ready: int) -> list[Figure]:
    say("an almost empty store, for comparison")
    shallow = await _draining(place, say, 0, ready)
    say(f"{future:,} future and {ready:,} ready jobs")
    deep = await _draining(place, say, future, ready)
    figures = [
        Figure("store", deep["size_mb"], "MB"),
        Figure("bulk submit of future jobs", deep["future_rate"], "jobs/s"),
        Figure("start-up", deep["start_s"], "s", "< 5"),
        Figure("memory of the node", deep["rss_mb"], "MB", "< 300"),
    ]
    for name, label, unit in (
        ("drain", "drain", "jobs/s"),
        ("urgent_p50_ms", "start of a priority-10 job meanwhile, p50", "ms"),
    ):
        figures.append(Figure(f"{label}, empty", shallow[name], unit))
        figures.append(Figure(f"{label}, deep", deep[name], unit))
        figures.append(Figure(f"{label}, deep / empty", deep[name] / shallow[name], "x", "within 0.8-1.2, or better"))
    return figures


async def _draining(place: Place, say: Say, future: int, ready: int) -> dict[str, float]:
    async with place.store(f"depth_{future}") as store, (load := Load(store.url)).app:
        future_rate = await fill_future(load, future, say) if future else 0.0
        await fill(load, ready, say, "ready jobs")
        async with child(store.url, 1000) as running:
            drain = await drain_rate(running, ready // 4)
            late = await urgent(load, running, 40, 0.02, priority=10)
        return {
            "size_mb": await store.size_mb(),
            "future_rate": future_rate,
            "start_s": running.ready_s or 0.0,
            "rss_mb": running.rss_mb,
            "drain": drain,
            "urgent_p50_ms": 1000 * quantile(late, 0.5),
        }


async def _fairness(place: Place, say: Say, jobs: int) -> list[Figure]:
    figures = []
    for number, (name, prepare) in enumerate(backlogs(jobs, say).items()):
        say(f"behind {name}")
        async with place.store(f"fair_{number}") as store:
            late = await behind(store.url, prepare)
        figures.append(Figure(f"start behind {name}, p50", 1000 * quantile(late, 0.5), "ms"))
        figures.append(Figure(f"start behind {name}, worst", 1000 * max(late), "ms", "<= 100"))
    return figures


def _run(scenario: Scenario, store: str | None, as_json: bool) -> None:
    console = Console(stderr=True)
    with (
        tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        place = place_of(store, Path(folder))
        figures = runner.run(_bounded(scenario(place, lambda text: console.print(text, style="dim"))))
    if as_json:
        print(json.encode(figures).decode())
        return
    table = Table("figure", "value", "unit", "promised")
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:,.2f}",
            figure.unit,
            figure.bound,
        )
    Console().print(table)


async def _bounded(work: Awaitable[list[Figure]]) -> list[Figure]:
    async with asyncio.timeout(3600):
        return await work
