"""Mainspring through HTTP: `python -m bench.http --out FILE.json [--store sqlite|postgres] [--quick]`.

A real server process with keys on, its clients and workers in other processes, all on this machine. What is told:

1. bulk: one client submits no-ops with `submit_many` (NDJSON), and as MessagePack with a plain HTTP client;
2. single: one job per request, on one connection and on 16, kept alive;
3. drain: two remote worker processes run what waits in a paused queue from the moment it is opened;
4. idle: CPU of the server while 2,000 workers are connected and nothing happens;
5. start: from the submit to the first line of the job, one at a time, on an idle server.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp
import msgpack  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table

from bench import http_app
from bench.cpu import cpu_s
from bench.measure import percentile
from bench.peers.processes import Group, module_argv, tail
from mainspring import App
from mainspring.config import app_settings
from mainspring.runtime.loop import new_event_loop

_KEY = re.compile(rb"msk_\w{12}_[\w-]{43}")
_ADDRESS = re.compile(rb"http://127\.0\.0\.1:\d+")
_READY_S = 30.0
_CHUNK = 5_000
_WORKERS = 2
_SLOTS = 2_000
_LAST = 500
_IDLE_S = 20.0
_ARGUMENT = "x" * 90


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each."""

    bulk: int = 200_000
    single: int = 6_000
    drain: int = 100_000
    idle: int = 2_000
    starts: int = 300


STORES = ("sqlite", "postgres")
SMALL = Sizes(10_000, 200, 5_000, 50, 20)


@dataclass(slots=True)
class HttpFigures:
    """Jobs per second, milliseconds, and the share of one core."""

    store: str
    bulk_ndjson_per_s: float = 0.0
    bulk_msgpack_per_s: float = 0.0
    single_1_per_s: float = 0.0
    single_16_per_s: float = 0.0
    drain_per_s: float = 0.0
    idle_core: float = 0.0
    start_p50_ms: float = 0.0
    start_p99_ms: float = 0.0


class Served:
    """A server process, and what is needed to talk to it."""

    def __init__(self, group: Group, url: str, key: str) -> None:
        self.group = group
        self.url = url
        self.key = key

    def http(self, connections: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            self.url,
            headers={"Authorization": f"Bearer {self.key}"},
            connector=aiohttp.TCPConnector(limit=connections),
            timeout=aiohttp.ClientTimeout(total=600),
        )


@asynccontextmanager
async def serving(store: str, folder: Path) -> AsyncIterator[Served]:
    """A server on a new store."""
    log = folder / "server.log"
    command = _command("server", "--port", "0", "--store", store)
    group = Group(command, cwd=folder, log=log)
    try:
        yield await _answering(group, log)
    finally:
        group.stop()


def _command(*words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("mainspring")), *words]


async def _answering(group: Group, log: Path) -> Served:
    deadline = time.monotonic() + _READY_S
    while group.alive and time.monotonic() < deadline:
        told = log.read_bytes()  # noqa: ASYNC240  nothing else waits here
        if (key := _KEY.search(told)) and (url := _ADDRESS.search(told)):
            return Served(group, url[0].decode(), key[0].decode())
        await asyncio.sleep(0.05)
    raise RuntimeError(f"the server said: {tail(log)}")


@asynccontextmanager
async def workers(served: Served, folder: Path, count: int) -> AsyncIterator[None]:
    """Remote workers, registered."""
    env = {"MAINSPRING_KEY": await _worker_key(served)}
    command = _command("worker", "bench.http_app:app", "--server", served.url, "--slots", str(_SLOTS), "--json")
    log = folder / "workers.log"
    async with AsyncExitStack() as stack:
        for _ in range(count):
            stack.callback(Group(command, cwd=folder, log=log, env=env).stop)
        async with served.http(1) as http:
            deadline = time.monotonic() + _READY_S
            while len(await _get(http, "/v1/workers")) < count:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the workers said: {tail(log)}")
                await asyncio.sleep(0.1)
        yield


@asynccontextmanager
async def client(served: Served) -> AsyncIterator[App]:
    """The application of the bench at the server."""
    http_app.app.settings = app_settings(served.url, key=served.key)
    async with http_app.app as app:
        yield app


async def bulk(served: Served, count: int) -> float:
    """`submit_many` of an app."""
    async with client(served) as app:
        await _declare(served)
        drafts = [http_app.noop.job(_ARGUMENT) for _ in range(count)]
        await app.submit_many(drafts[:_CHUNK])
        began = time.monotonic()
        await app.submit_many(drafts)
        return count / (time.monotonic() - began)


async def bulk_msgpack(served: Served, count: int) -> float:
    """Plain requests, three at a time."""
    items = b"".join(msgpack.packb({"kind": "noop", "arguments": {"argument": _ARGUMENT}}) for _ in range(_CHUNK))
    headers = {"Content-Type": "application/msgpack"}
    async with served.http(3) as http:

        async def submit() -> None:
            async with http.post("/v1/jobs/batch", data=items, headers=headers) as answer:
                accepted = msgpack.unpackb(await answer.read())
                assert all("id" in item for item in accepted), accepted[0]

        await submit()
        began = time.monotonic()
        waiting = iter(range(count // _CHUNK))

        async def submit_all() -> None:
            for _ in waiting:
                await submit()

        await asyncio.gather(*(submit_all() for _ in range(3)))
        return count // _CHUNK * _CHUNK / (time.monotonic() - began)


async def single(served: Served, count: int, connections: int) -> float:
    """A request per job."""
    body = json.dumps({"kind": "noop", "arguments": {"argument": _ARGUMENT}}).encode()
    headers = {"Content-Type": "application/json"}
    async with served.http(connections) as http:
        waiting = iter(range(count))

        async def submit_all() -> None:
            for _ in waiting:
                async with http.post("/v1/jobs", data=body, headers=headers) as answer:
                    await answer.read()
                    assert answer.status == 201, answer.status

        began = time.monotonic()
        await asyncio.gather(*(submit_all() for _ in range(connections)))
        return count / (time.monotonic() - began)


async def drain(served: Served, folder: Path, count: int) -> float:
    """From the opening of the queue to the last end."""
    async with client(served) as app, served.http(2) as http:
        await _declare(served)
        await _post(http, "/v1/queues/default/pause")
        jobs = await app.submit_many([http_app.noop.job(_ARGUMENT) for _ in range(count)])
        async with workers(served, folder, _WORKERS):
            began = time.monotonic()
            await _post(http, "/v1/queues/default/resume")
            await asyncio.gather(*(job.result() for job in jobs[-_LAST:]))
            while True:  # asked rarely: counting a hundred thousand jobs is work, too
                if (await _get(http, "/v1/statistics"))["jobs"]["completed"] == count:
                    return count / (time.monotonic() - began)
                await asyncio.sleep(0.2)


async def idle(served: Served, folder: Path, count: int) -> float:
    """The share of a core that the server takes while so many workers wait."""
    command = module_argv("bench.http_idle", served.url, str(count))
    env = {"MAINSPRING_KEY": await _worker_key(served)}
    group = Group(command, cwd=folder, log=folder / "idle.log", env=env, pipes=True)
    try:
        if b"ready" not in await asyncio.to_thread(group.pipes[1].readline):
            raise RuntimeError(f"the workers said: {tail(folder / 'idle.log')}")
        await asyncio.sleep(5.0)  # the last ones register, the first ones settle into their rhythm
        before_s, began = cpu_s(served.group.pid), time.monotonic()
        await asyncio.sleep(_IDLE_S)
        if not group.alive:
            raise RuntimeError(f"the workers said: {tail(folder / 'idle.log')}")
        return (cpu_s(served.group.pid) - before_s) / (time.monotonic() - began)
    finally:
        group.kill()


async def starts(served: Served, folder: Path, count: int) -> list[float]:
    """Milliseconds from the submit to the start, one after the other."""
    found = []
    async with client(served), workers(served, folder, 1):
        for _ in range(count):
            began_ns = time.time_ns()
            job = await http_app.started.submit()
            found.append((await job.result(30) - began_ns) / 1e6)
            await asyncio.sleep(0.02)
    return found


async def _declare(served: Served) -> None:
    """Make the kinds known, as a worker does when it registers."""
    async with served.http(1) as http:
        await _post(http, "/v1/declarations", {"kinds": [{"name": "noop"}, {"name": "started"}]})


async def _worker_key(served: Served) -> str:
    async with served.http(1) as http:
        wanted = {"name": "bench", "role": "worker", "tenant": "*"}
        async with http.post("/v1/keys", json=wanted) as answer:
            key: str = (await answer.json())["key"]
            return key


async def _get(http: aiohttp.ClientSession, path: str) -> "dict[str, dict[str, int]]":
    async with http.get(path) as answer:
        answer.raise_for_status()
        found: dict[str, dict[str, int]] = await answer.json()
        return found


async def _post(http: aiohttp.ClientSession, path: str, body: object = None) -> None:
    async with http.post(path, json=body) as answer:
        if answer.status >= 400:
            raise RuntimeError(await answer.text())


async def measure(kind: str, sizes: Sizes, workdir: Path, console: Console) -> HttpFigures:
    """All of it, each part on a server and a store of its own."""
    figures = HttpFigures(kind)

    @asynccontextmanager
    async def fresh(part: str) -> AsyncIterator[tuple[Served, Path]]:
        console.print(f"http on {kind}: {part}", markup=False, highlight=False)
        with tempfile.TemporaryDirectory(prefix="bench-http-", dir=workdir) as name:
            async with serving(_store(kind, Path(name), workdir), Path(name)) as served:
                yield served, Path(name)

    async with fresh("bulk") as (served, _):
        figures.bulk_ndjson_per_s = await bulk(served, sizes.bulk)
        figures.bulk_msgpack_per_s = await bulk_msgpack(served, sizes.bulk)
    async with fresh("single") as (served, _):
        await _declare(served)
        figures.single_1_per_s = await single(served, sizes.single // 4, 1)
        figures.single_16_per_s = await single(served, sizes.single, 16)
    async with fresh("drain") as (served, folder):
        figures.drain_per_s = await drain(served, folder, sizes.drain)
    async with fresh("idle workers") as (served, folder):
        figures.idle_core = await idle(served, folder, sizes.idle)
    async with fresh("start latency") as (served, folder):
        found = await starts(served, folder, sizes.starts)
        figures.start_p50_ms, figures.start_p99_ms = percentile(found, 50), percentile(found, 99)
    return figures


def _store(kind: str, folder: Path, workdir: Path) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder}/jobs.db"
    from bench.peers.postgres_server import shared_server  # needs what only the systems on PostgreSQL need

    return shared_server(workdir).create_database()


def table(results: Sequence[HttpFigures]) -> Table:
    """All figures, one row for each store."""
    shown = Table(title="Mainspring through HTTP, server, client and workers on one machine")
    titles = ("store", "NDJSON/s", "MessagePack/s", "single/s, 1", "16", "drain/s", "idle, core", "start p50", "p99 ms")
    for title in titles:
        shown.add_column(title, justify="left" if title == "store" else "right")
    for each in results:
        rates = (
            each.bulk_ndjson_per_s,
            each.bulk_msgpack_per_s,
            each.single_1_per_s,
            each.single_16_per_s,
            each.drain_per_s,
        )
        times = (f"{each.idle_core:.1%}", f"{each.start_p50_ms:.1f}", f"{each.start_p99_ms:.1f}")
        shown.add_row(each.store, *(f"{rate:,.0f}" for rate in rates), *times)
    return shown


def measure_all(stores: Sequence[str], sizes: Sizes, workdir: Path, console: Console) -> list[HttpFigures]:
    """Measure on each kind of store, show the table."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        results = [runner.run(measure(store, sizes, workdir, console)) for store in stores]
    console.print(table(results))
    return results


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--store", choices=STORES, help="one of them (default: both)")
    parser.add_argument("--quick", action="store_true", help="small numbers: shows that it works")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()), help="where the stores live")
    options = parser.parse_args(argv)
    stores = [options.store] if options.store else STORES
    results = measure_all(
        stores, SMALL if options.quick else Sizes(), options.workdir, Console(width=max(Console().width, 120))
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps([asdict(each) for each in results], indent=2) + "\n")


if __name__ == "__main__":
    main()
