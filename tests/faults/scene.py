"""The application that every process of these tests runs, and the effect log it keeps outside of Mainspring.

Each run of a job appends one line: job, attempt, process, time. `O_APPEND` makes a line one indivisible write, so the log is
whole whatever happens to the process, and what it says cannot be wrong in the same way as the store.
"""

import asyncio
import ctypes
import os
import time
from pathlib import Path

from mainspring import App, Context
from mainspring.runtime.clock import Clock
from mainspring.store.opening import StoreSettings

_STEP_S = 0.005  # what a step of a longer job takes
_LONG_STEP_S = 2.0
_QUICK_STEPS = 40


def append(path: str, line: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def record(ctx: Context) -> None:
    append(os.environ["FAULTS_LOG"], f"{ctx.job_id} {ctx.attempt} {os.getpid()} {time.monotonic_ns()}")


async def quick(ctx: Context, number: int) -> int:
    """Does its work at once."""
    record(ctx)
    return os.getpid()


def quick_thread(ctx: Context, number: int) -> int:
    record(ctx)
    return os.getpid()


async def nap(ctx: Context, seconds: float) -> int:
    record(ctx)
    await asyncio.sleep(seconds)
    return os.getpid()


def nap_thread(ctx: Context, seconds: float) -> int:
    """A function in a thread, which nobody can stop."""
    record(ctx)
    time.sleep(seconds)
    return os.getpid()


def nap_process(ctx: Context, seconds: float) -> int:
    """In a process of its own, deaf to every request."""
    record(ctx)
    time.sleep(seconds)
    return os.getpid()


async def gated(ctx: Context, gate: str) -> int:
    """Runs until somebody makes the file `gate`, or one that lets this process alone through."""
    record(ctx)
    while not Path(gate).exists() and not Path(f"{gate}.{os.getpid()}").exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)
    return os.getpid()


async def hog(ctx: Context, seconds: float) -> int:
    """Blocks the event loop, as users' code does by mistake."""
    record(ctx)
    time.sleep(seconds)  # noqa: ASYNC251
    return os.getpid()


def begin_step(ctx: Context, number: int) -> float:
    """Note one of the steps of a job, in a log beside the other; how long it takes. A first attempt gets slow, to be killed."""
    append(f"{os.environ['FAULTS_LOG']}.steps", f"{ctx.job_id} {ctx.attempt} {number}")
    return _LONG_STEP_S if ctx.attempt == 1 and number >= _QUICK_STEPS else _STEP_S


async def walk(ctx: Context, steps: int) -> int:
    """A checkpoint after each step."""
    for number in range(ctx.resume or 0, steps):
        await asyncio.sleep(begin_step(ctx, number))
        await ctx.checkpoint(number + 1)
    return os.getpid()


def walk_thread(ctx: Context, steps: int, pauses: dict[int, int], gate: str) -> int:
    """`pauses`: the step before which an attempt waits for the file `gate`, followed by its number."""
    for number in range(ctx.resume or 0, steps):
        while pauses.get(ctx.attempt) == number and not Path(f"{gate}.{ctx.attempt}").exists():
            time.sleep(_STEP_S)
        time.sleep(begin_step(ctx, number))
        ctx.sync.checkpoint(number + 1)
    return os.getpid()


def walk_process(ctx: Context, steps: int) -> int:
    for number in range(ctx.resume or 0, steps):
        time.sleep(begin_step(ctx, number))
        ctx.sync.checkpoint(number + 1)
    return os.getpid()


async def walk_by_names(ctx: Context, steps: int) -> list[int]:
    """What each step returned, in whichever attempt."""
    return [await ctx.step(f"step {number}", _step, ctx, number) for number in range(steps)]


async def _step(ctx: Context, number: int) -> int:
    await asyncio.sleep(begin_step(ctx, number))
    return number


async def flaky(ctx: Context) -> int:
    """Fails once."""
    record(ctx)
    if ctx.failures == 0:
        raise RuntimeError("the first try fails")
    return os.getpid()


async def only_here(ctx: Context, number: int) -> int:
    """A kind that not every worker serves."""
    record(ctx)
    return os.getpid()


def segfault(ctx: Context) -> None:
    record(ctx)
    ctypes.string_at(0)


def exit_hard(ctx: Context) -> None:
    record(ctx)
    os._exit(7)


def hang(ctx: Context) -> None:
    record(ctx)
    while True:
        time.sleep(60)


class Jobs:
    """The kinds of an app, each under its name."""

    def __init__(self, app: App, *, everywhere: bool = True) -> None:
        self.app = app
        self.quick = app.job()(quick)
        self.quick_thread = app.job()(quick_thread)
        self.nap = app.job()(nap)
        self.nap_thread = app.job()(nap_thread)
        self.nap_process = app.job(pool="process")(nap_process)
        self.gated = app.job()(gated)
        self.hog = app.job()(hog)
        self.walk = app.job()(walk)
        self.walk_process = app.job(pool="process")(walk_process)
        self.walk_by_names = app.job()(walk_by_names)
        self.walk_thread = app.job()(walk_thread)
        self.flaky = app.job(retries=1, backoff="1s")(flaky)
        self.segfault = app.job(pool="process", retries=0)(segfault)
        self.exit_hard = app.job(pool="process", retries=0)(exit_hard)
        self.hang = app.job(pool="process", retries=0, timeout="300ms")(hang)
        if everywhere:
            self.only_here = app.job()(only_here)


def declare_ticks(jobs: Jobs, count: int, every_s: int = 1) -> None:
    """Schedules that fire every few seconds, whatever happened: what is late is made up for."""
    for number in range(count):
        tick = jobs.app.schedule(
            f"*/{every_s} * * * * *",
            name=f"tick-{number}",
            arguments={"number": number},
            catch_up="all",
            overlap="allow",
        )
        tick(jobs.quick)


def make_jobs(store: StoreSettings, clock: Clock | None = None, *, everywhere: bool = True) -> Jobs:
    """An application whose settings come from the test and not from the environment."""
    app = App(store.url, clock=clock)
    app.store_settings = store
    return Jobs(app, everywhere=everywhere)
