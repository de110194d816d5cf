"""The machine's clock jumps by an hour, either way: no occurrence fires twice, what is late is bounded and recorded."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from itertools import product

import pytest

from faults.checks import check_effects, check_occurrences, check_tables
from faults.harness import STORES, Site
from faults.scene import Jobs
from mainspring.core.timer import HOUR, SECOND, Micros
from mainspring.runtime.clock import SystemClock

CAP = 5
ON_TIME_S = 60  # an occurrence that is not older counts as on time


class JumpingClock(SystemClock):
    """The machine's clock, until somebody sets it."""

    def __init__(self) -> None:
        self.ahead: Micros = 0

    def now(self) -> Micros:
        return super().now() + self.ahead


@contextlib.asynccontextmanager
async def _running(
    site: Site, clock: JumpingClock, *, catch_up: str = "all", cron: str = "* * * * * *"
) -> AsyncIterator[Jobs]:
    jobs = site.jobs(clock=clock)
    cap = CAP if catch_up == "all" else None
    jobs.app.schedule(cron, name="tick", arguments={"number": 0}, catch_up=catch_up, catch_up_cap=cap, overlap="allow")(
        jobs.quick
    )
    async with jobs.app:
        ready = asyncio.Event()
        run = asyncio.create_task(jobs.app.run(signals=False, grace=0, ready=ready.set))
        await ready.wait()
        try:
            yield jobs
        finally:
            jobs.app.stop()
            await run


async def _until(probe: Callable[[], bool], what: str, within_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not probe():
        assert time.monotonic() < deadline_s, f"waited in vain: {what}"
        await asyncio.sleep(0.02)


def _occurrences(site: Site) -> list[Micros]:
    return [
        at for (at,) in site.rows("select occurrence_at from occurrence where schedule = 'default/tick' order by 1")
    ]


@pytest.mark.parametrize(
    ("place", "catch_up"), [*product(STORES, ["all"]), ("sqlite", "latest"), ("sqlite", "none")], indirect=["place"]
)
async def test_an_hour_forward(site: Site, catch_up: str) -> None:
    clock = JumpingClock()
    async with _running(site, clock, catch_up=catch_up) as jobs:
        await _until(lambda: len(_occurrences(site)) >= 2, "it fires")
        before = len(_occurrences(site))
        clock.ahead = HOUR
        jumped_s = time.monotonic()
        await _until(lambda: site.value("select count(*) from missed") > 0, "the hour is recorded")
        at_once = len(_occurrences(site)) - before
        await _until(lambda: len(_occurrences(site)) >= before + at_once + 2, "it goes on")
        await asyncio.gather(*[(await jobs.quick.submit(n)).result(timeout=30) for n in range(3)])
        lasted_s = time.monotonic() - jumped_s
    allowed = {"all": CAP, "latest": 1, "none": 0}[catch_up]
    assert at_once <= allowed + ON_TIME_S + lasted_s + 2, f"{at_once} at once"
    skipped = site.value("select sum(last_at - first_at) / 1000000 + count(*) from missed")
    assert 3600 - ON_TIME_S - allowed - 5 <= skipped <= 3600
    check_occurrences(site, "default/tick", SECOND)
    check_tables(site)
    check_effects(site, [])


async def test_an_hour_back_and_forth(site: Site) -> None:
    """While the clock is behind nothing fires again; timers that are set meanwhile work; when it is right again, all goes on."""
    clock = JumpingClock()
    async with _running(site, clock) as jobs:
        await _until(lambda: len(_occurrences(site)) >= 2, "it fires")
        waiting = await jobs.quick.options(delay="6s").submit(0)
        clock.ahead = -HOUR
        fired = _occurrences(site)
        soon = await jobs.quick.options(delay="200ms").submit(1)
        await soon.result(timeout=30)
        await asyncio.sleep(3)  # three occurrences' time
        assert len(_occurrences(site)) <= len(fired) + 1, "it fired again"  # one may have been under way
        assert (await waiting.status()).state == "pending"

        clock.ahead = 0
        await waiting.result(timeout=30)
        await _until(lambda: len(_occurrences(site)) >= len(fired) + 2, "it goes on")
    check_occurrences(site, "default/tick", SECOND)
    assert check_effects(site, [waiting.id, soon.id]).repeats == 0


async def test_an_hour_back_keeps_the_jobs_that_run(site: Site) -> None:
    clock = JumpingClock()
    async with _running(site, clock, cron="0 0 1 1 *") as jobs:
        gate = site.folder / "gate"
        held = await jobs.gated.submit(str(gate))
        await _until(lambda: bool(site.effects()), "it runs")
        clock.ahead = -HOUR
        await (await jobs.quick.submit(1)).result(timeout=30)
        gate.touch()
        await held.result(timeout=30)
    assert check_effects(site, [held.id]).repeats == 0
    assert site.value("select sum(losses) from job") == 0
