"""What `mainspring bench` measures: loads on a store of its own, and a child process that works them off.

Every figure comes from the child's own words (see `bench_child`), so building a load and starting a process are in none of them
unless they are what is measured. Each scenario is bounded in jobs and in time.
"""

import asyncio
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import json

from mainspring.cli.bench_child import Load
from mainspring.core.job import DEFAULT_TENANT, Limit
from mainspring.store.contract import QueueRecord

Say = Callable[[str], None]

_CHUNK = 20_000
_BOUND_S = 300.0
_PATIENCE_S = 30.0


class Child:
    """The process under test."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._began_s = time.monotonic()
        self._reading = asyncio.create_task(self._read())
        self._changed = asyncio.Event()
        self.ready_s: float | None = None
        self.late_s: list[float] = []
        self.samples: list[tuple[float, int]] = []
        self.rss_mb = 0.0
        self.cpu_s = 0.0

    @property
    def done(self) -> int:
        return self.samples[-1][1] if self.samples else 0

    async def until(self, condition: Callable[[], bool], bound_s: float = _BOUND_S) -> None:
        async with asyncio.timeout(bound_s):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def stop(self) -> None:
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), _PATIENCE_S)
            except TimeoutError:
                self._process.kill()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            event: dict[str, Any] = json.decode(line)
            if "ready" in event:
                self.ready_s = time.monotonic() - self._began_s
            elif "late" in event:
                self.late_s.append(event["late"])
            else:
                self.samples.append((event["at"], event["done"]))
                self.rss_mb, self.cpu_s = event["rss_mb"], event["cpu_s"]
            self._changed.set()


@asynccontextmanager
async def child(store: str, slots: int) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mainspring.cli.bench_child", store, str(slots)), stdout=asyncio.subprocess.PIPE
    )
    running = Child(process)
    try:
        await running.until(lambda: running.ready_s is not None)
        yield running
    finally:
        await running.stop()


async def fill(load: Load, count: int, say: Say, what: str, **options: Any) -> float:
    """Submit this many no-ops; jobs per second."""
    text = "x" * 100
    began_s = time.monotonic()
    for start in range(0, count, _CHUNK):
        function = load.noop.options(**options)
        await load.app.submit_many([function.job(text) for _ in range(min(_CHUNK, count - start))])
        if start // _CHUNK % 25 == 24:
            say(f"{what}: {start + _CHUNK:,} of {count:,}")
    return count / (time.monotonic() - began_s)


async def fill_future(load: Load, count: int, say: Say) -> float:
    """Jobs due at random times of the next thirty days, none within the next hour."""
    began_s = time.monotonic()
    text, now, random_ = "x" * 100, datetime.now(UTC), random.Random(1)
    for start in range(0, count, _CHUNK):
        drafts = []
        for _ in range(0, min(_CHUNK, count - start), 1000):
            later = load.noop.options(at=now + timedelta(seconds=random_.uniform(3600, 30 * 86_400)))
            drafts += [later.job(text) for _ in range(1000)]
        await load.app.submit_many(drafts)
        if start // _CHUNK % 25 == 24:
            say(f"future jobs: {start + _CHUNK:,} of {count:,}")
    return count / (time.monotonic() - began_s)


async def drain_rate(running: Child, jobs: int) -> float:
    """Jobs per second of the child, from its first to its `jobs`th."""
    await running.until(lambda: running.done >= jobs)
    busy = [(at, done) for at, done in running.samples if done > 0]
    (first_s, first), (last_s, last) = busy[0], next(sample for sample in busy if sample[1] >= jobs)
    return (last - first) / (last_s - first_s) if last_s > first_s else float("nan")


async def urgent(load: Load, running: Child, count: int, gap_s: float = 0.05, **options: Any) -> list[float]:
    """Submit jobs one at a time and answer how long each took to start."""
    before = len(running.late_s)
    for _ in range(count):
        await load.stamp.options(**options).submit(time.time())
        await asyncio.sleep(gap_s)
    await running.until(lambda: len(running.late_s) >= before + count, _PATIENCE_S)
    return running.late_s[before:]


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def concurrent_submits(load: Load, callers: int, each: int) -> float:
    """Single submits per second of many callers at once."""

    async def caller() -> None:
        for _ in range(each):
            await load.noop.submit("x" * 100)

    began_s = time.monotonic()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return callers * each / (time.monotonic() - began_s)


async def idle_share(store: str, seconds: float) -> float:
    """The share of a core that an idle process uses."""
    async with child(store, 100) as running:
        await asyncio.sleep(2)
        before_s, began = running.cpu_s, time.monotonic()
        await asyncio.sleep(seconds)
        return (running.cpu_s - before_s) / (time.monotonic() - began)


async def behind(store: str, prepare: Callable[[Load], Awaitable[None]], **options: Any) -> list[float]:
    """How long other jobs take to start behind a prepared backlog."""
    load = Load(store)
    async with load.app:
        await prepare(load)
        async with child(store, 1000) as running:
            await urgent(load, running, 1, **options)  # its start-up is not what is measured
            return await urgent(
                load, running, 20, 0.25, **options
            )  # rarely enough to stay below a fair share of a thousand


def backlogs(count: int, say: Say) -> dict[str, Callable[[Load], Awaitable[None]]]:
    """A million jobs in everybody's way, five times over."""

    async def tenant(load: Load) -> None:
        await fill(load, count, say, "one tenant", tenant="busy")

    async def paused(load: Load) -> None:
        await load.app.store.put_queue(QueueRecord(DEFAULT_TENANT, "paused", True, Limit()))
        await fill(load, count, say, "paused queue", queue="paused")

    async def unserved(load: Load) -> None:
        nobody = load.app.job(name="nobody")(_nobody)
        for _ in range(0, count, _CHUNK):
            await load.app.submit_many([nobody.job("x" * 100) for _ in range(_CHUNK)])

    async def label(load: Load) -> None:
        await fill(load, count, say, "label nobody has", labels=["gpu-that-nobody-has"])

    async def tenants(load: Load) -> None:
        for number in range(1000):
            await fill(load, count // 1000, say, "tenants", tenant=f"tenant-{number}")

    return {
        "a million jobs of one tenant": tenant,
        "a paused queue": paused,
        "a kind nobody serves": unserved,
        "a label nobody has": label,
        "a thousand active tenants": tenants,
    }


async def _nobody(text: str) -> None:
    """Known to the submitter only."""
