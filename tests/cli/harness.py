"""The command line in this process: `Cli` runs a command on a store of the test's own and answers what it did."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from msgspec import structs

from mainspring import App
from mainspring.cli.root import run
from mainspring.core.job import JobRecord, Options
from mainspring.core.partition import make_id
from mainspring.core.timer import SECOND, Micros
from mainspring.store.contract import JobFilter
from mainspring.verbs.declaring import synchronise

T = TypeVar("T")

NOW: Micros = 1_900_000_000 * SECOND

MODULE = """
from mainspring import App, Context

app = App()
empty = App()


@app.job(queue="mail", tags=["post"], retries=2, backoff="10ms")
async def send(to: str, count: int = 1) -> str:
    return f"{to} x{count}"


@app.job(retries=0)
async def broken(why: str) -> None:
    raise ValueError(why)


@app.schedule("0 9 * * *", tz="Europe/Berlin", arguments={"to": "daily"})
@app.job(name="report")
async def report(to: str) -> str:
    return to
"""


class Ran:
    """What a command did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Cli:
    """Runs commands, and prepares what they find. `app` has the kinds of MODULE."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ran:
        self._capsys.readouterr()
        code = run(arguments)
        captured = self._capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    def fails(self, code: int, *arguments: str) -> str:
        """Run what must fail with this code; answers the one line that it says."""
        ran = self(*arguments)
        assert ran.code == code, (ran.out, ran.err)
        assert ran.err.startswith("error: "), ran.err
        assert ran.err.count("\n") == 1, ran.err
        return ran.err.removeprefix("error: ").strip()

    def within(self, work: Callable[[App], Awaitable[T]]) -> T:
        """Do something with the module's open application."""
        from tasks import app  # type: ignore[import-not-found]

        async def inside() -> T:
            async with app:
                await synchronise(app.store, *app.declared)
                return await work(app)

        return asyncio.run(inside())

    def work_off(self) -> None:
        """Run every job to its end."""

        async def work(app: App) -> None:
            running = asyncio.create_task(app.run(signals=False, slots=4))
            for job in await app.store.list_jobs(JobFilter(), before=None, limit=100):
                await app.engine.waiter.wait(job.id)
            app.stop()
            await running

        self.within(work)


def record(state: str = "pending", **changes: object) -> JobRecord:
    base = JobRecord(
        id=make_id(1, 2, 3),
        tenant="default",
        queue="mail",
        kind="send",
        state=state,
        priority=5,
        band=0,
        lane=7,
        rank=NOW,
        due_at=NOW - 2 * SECOND,
        attempt=0,
        failures=0,
        losses=0,
        cancelling=False,
        created_at=NOW - 3 * SECOND,
        started_at=None,
        finished_at=None,
        reason=None,
        arguments=b"{}",
        options=Options(),
    )
    return structs.replace(base, **changes)
