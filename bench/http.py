"""Mainspring over HTTP: `python -m bench.http --out FILE.json [--quick]`; also `make bench ONLY=http`.

One server process with keys on a SQLite store, one client process (this one), and remote workers: all on this machine, so the
client's and the workers' share of the cores is in each figure.
"""

import argparse
import asyncio
import json as standard
import random
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from msgspec import json, msgpack
from rich.console import Console
from rich.table import Table

from bench.http_app import app, nothing, stamp
from bench.http_server import Server
from bench.measure import Say, percentile
from mainspring.client.settings import ServerSettings
from mainspring.client.submitting import CHUNK, IN_FLIGHT
from mainspring.client.transport import Transport
from mainspring.runtime.loop import new_event_loop
from mainspring.verbs.declarations import declarations_of

_FILES = 8192
_POLL_S = 0.1
_DRAIN_WITHIN_S = 300.0
_NS_PER_MS = 1e6
_PATH = "/v1/jobs/batch"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    bulk: int = 100_000
    single: int = 4_000
    drain: int = 100_000
    idle_workers: int = 2_000
    idle_s: float = 20.0
    latency: int = 500


QUICK = Sizes(bulk=8_000, single=400, drain=4_000, idle_workers=100, idle_s=4.0, latency=40)


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure. `most`: less is better, and this much is wanted; else at least `least`."""

    what: str
    unit: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def target(self) -> str:
        return f">= {self.least:,.0f}" if self.least is not None else f"<= {self.most:,.0f}"

    @property
    def met(self) -> bool:
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)


class Bench:
    """The measurements of one server."""

    def __init__(self, server: Server, sizes: Sizes, say: Say) -> None:
        self._server = server
        self._sizes = sizes
        self._say = say
        app.settings = ServerSettings(server.url, server.key)
        self._transport = Transport(server.url, server.key, connections=32)

    async def run(self) -> list[Measured]:
        found: list[Measured] = []
        async with app:
            await self._declare()
            for phase in (self._bulk_lines, self._bulk_msgpack, self._single, self._idle, self._drain, self._latency):
                self._say(phase.__name__.strip("_"))
                found += await phase()
        await self._transport.close()
        return found

    async def _declare(self) -> None:
        """What a worker would declare when it starts."""
        verbs = app.own_verbs()
        await verbs.system.declare(declarations_of(*app.declared))
        for queue in ("bench", "quick"):
            await verbs.queues.pause(queue)

    async def _bulk_lines(self) -> list[Measured]:
        drafts = [nothing.job(number) for number in range(self._sizes.bulk)]
        before_s, began_s = self._server.cpu_s, time.perf_counter()
        await app.submit_many(drafts)
        return [self._bulk("bulk submit, NDJSON", time.perf_counter() - began_s, before_s)]

    async def _bulk_msgpack(self) -> list[Measured]:
        """As another client would do it: whole documents, encoded with MessagePack."""
        encode = msgpack.Encoder().encode
        jobs = [{"kind": "nothing", "arguments": {"number": number}} for number in range(self._sizes.bulk)]
        before_s, began_s = self._server.cpu_s, time.perf_counter()
        gate = asyncio.Semaphore(IN_FLIGHT)

        async def send(start: int) -> None:
            async with gate:
                body = encode(jobs[start : start + CHUNK])
                reply = await self._transport.request("POST", _PATH, body=body, content_type="application/msgpack")
                assert all(item.get("id") for item in msgpack.decode(reply.body))

        await asyncio.gather(*(send(start) for start in range(0, len(jobs), CHUNK)))
        return [self._bulk("bulk submit, MessagePack", time.perf_counter() - began_s, before_s)]

    def _bulk(self, what: str, took_s: float, before_s: float) -> Measured:
        used_s = (self._server.cpu_s - before_s) / took_s
        self._say(f"{what}: the server used {used_s:.0%} of a core")
        return Measured(what, "jobs/s", self._sizes.bulk / took_s, least=40_000)

    async def _single(self) -> list[Measured]:
        body = json.encode({"kind": "nothing", "arguments": {"number": 1}})

        async def submit() -> None:
            await self._transport.request("POST", "/v1/jobs", body=body)

        one = await _rate(submit, self._sizes.single // 4, 1)
        many = await _rate(submit, self._sizes.single, 16)
        return [
            Measured("single submits, 1 connection", "jobs/s", one, least=500),
            Measured("single submits, 16 connections", "jobs/s", many, least=2_000),
        ]

    async def _idle(self) -> list[Measured]:
        await asyncio.to_thread(self._server.start_idle, self._sizes.idle_workers)
        await asyncio.sleep(2.0)  # until the registrations have settled
        before_s = self._server.cpu_s
        await asyncio.sleep(self._sizes.idle_s)
        used = (self._server.cpu_s - before_s) / self._sizes.idle_s
        self._server.stop_idle()
        what = f"{self._sizes.idle_workers:,} idle workers"
        return [Measured(what, "% of a core", used * 100, most=20)]

    async def _drain(self) -> list[Measured]:
        """What the bulk submits have left in the queue, cut or filled up to the wanted number."""
        verbs = app.own_verbs()
        waiting = (await verbs.queues.read("bench")).jobs["pending"]
        if waiting < self._sizes.drain:
            await app.submit_many(nothing.job(number) for number in range(self._sizes.drain - waiting))
            waiting = self._sizes.drain
        self._server.start_workers(2)
        await self._await_workers(2)
        before_s, began_s = self._server.cpu_s, time.perf_counter()
        await verbs.queues.resume("bench")
        await self._await_done(waiting)
        took_s = time.perf_counter() - began_s
        self._say(f"drain: the server used {(self._server.cpu_s - before_s) / took_s:.0%} of a core")
        return [Measured(f"2 workers drain {waiting:,} no-ops", "jobs/s", waiting / took_s, least=8_000)]

    async def _latency(self) -> list[Measured]:
        """From before the submit to the first line of the function, with nothing else to do."""
        await app.own_verbs().queues.resume("quick")
        waits = []
        for _ in range(self._sizes.latency):
            await asyncio.sleep(random.uniform(0.02, 0.06))
            began = time.time_ns()
            waits.append((await (await stamp.submit()).result(timeout=30) - began) / _NS_PER_MS)
        return [
            Measured("submit to start when idle, p50", "ms", percentile(waits, 50), most=10),
            Measured("submit to start when idle, p99", "ms", percentile(waits, 99), most=40),
        ]

    async def _await_workers(self, count: int) -> None:
        deadline = time.monotonic() + 30
        while sum(worker.slots == 100 for worker in await app.own_verbs().workers.list()) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the workers do not come: {self._server.log_tail()}")
            await asyncio.sleep(_POLL_S)

    async def _await_done(self, jobs: int) -> None:
        deadline = time.monotonic() + _DRAIN_WITHIN_S
        while True:
            counts = (await app.own_verbs().queues.read("bench")).jobs
            if counts["completed"] >= jobs:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {counts['completed']} of {jobs}: {self._server.log_tail()}")
            await asyncio.sleep(_POLL_S)


async def _rate(work: Callable[[], Awaitable[None]], times: int, at_once: int) -> float:
    """How often per second, where so many go on side by side."""
    left = iter(range(times))

    async def go_on() -> None:
        for _ in left:
            await work()

    await work()  # connects
    began_s = time.perf_counter()
    await asyncio.gather(*(go_on() for _ in range(at_once)))
    return times / (time.perf_counter() - began_s)


def table(results: Sequence[Measured]) -> Table:
    """All figures, one row for each."""
    shown = Table(title="Mainspring over HTTP (SQLite store, keys, everything on one machine)")
    for title in ("figure", "value", "unit", "target", ""):
        shown.add_column(title, justify="left" if title in ("figure", "unit") else "right")
    for each in results:
        shown.add_row(each.what, f"{each.value:,.1f}", each.unit, each.target, "met" if each.met else "MISSED")
    return shown


def measure_all(workdir: Path, console: Console, *, quick: bool = False) -> list[Measured]:
    """Start a server, measure, show the table."""

    def say(text: str) -> None:
        console.print(f"http: {text}", markup=False, highlight=False, soft_wrap=True)

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard), hard))  # a connection for each idle worker
    with tempfile.TemporaryDirectory(dir=workdir, prefix="mainspring-http-") as folder:
        server = Server(Path(folder))
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                results = runner.run(Bench(server, QUICK if quick else Sizes(), say).run())
        finally:
            server.close()
    console.print(table(results))
    return results


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--quick", action="store_true", help="small numbers: shows that it works")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()), help="where the store lives")
    options = parser.parse_args(argv)
    results = measure_all(options.workdir, Console(), quick=options.quick)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(standard.dumps([asdict(each) for each in results], indent=2) + "\n")


if __name__ == "__main__":
    main()
