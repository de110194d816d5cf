"""Secrets in the hands of a job: there for the function, masked in what others read."""

import threading
from collections.abc import Iterable

import pytest
from msgspec import structs

from execute import jobs
from execute.harness import MemoryLink, registry_of, working
from mainspring.core.job import Options
from mainspring.execute import masking
from mainspring.execute.context import Context
from mainspring.execute.registry import Pool
from mainspring.wire import Assignment, Outcome, Report

TOKEN = 'hunter2/"quoted"'


def _assignment(kind: str) -> Assignment:
    return Assignment(bytes(16), 1, "default", "default", kind, b"{}", Options(), secrets={"TOKEN": TOKEN})


async def _run(link: MemoryLink, kind: str) -> Outcome:
    link.assign(_assignment(kind))
    return await link.outcome(bytes(16))


@pytest.mark.parametrize("pool", [Pool.THREAD, Pool.PROCESS])
async def test_the_function_has_the_value(pool: Pool) -> None:
    link = MemoryLink()
    async with working(registry_of(jobs.use_secret, pool=pool), link):
        assert (await _run(link, "use_secret")).result == str(len(TOKEN)).encode()


@pytest.mark.parametrize("pool", [Pool.THREAD, Pool.PROCESS])
async def test_failures_and_progress_are_masked(pool: Pool) -> None:
    link = MemoryLink()
    async with working(registry_of(jobs.betray, pool=pool), link):
        failure = (await _run(link, "betray")).failure
        assert failure is not None
        assert failure.message == "refused '***'"
        assert "KeepTryingError: refused '***'" in failure.traceback
        said = [progress.message for report in link.reports for progress in report.progress]
        assert "hunter2" not in repr((failure, said))


async def test_progress_of_a_running_job_is_masked() -> None:
    async def job(context: Context) -> None:
        context.progress(50, f"logging in with {context.secret('TOKEN')}")
        await context.wait_cancelled()

    def told(report: Report) -> bool:
        return bool(report.progress)

    link = MemoryLink()
    async with working(registry_of(job), link):
        link.assign(_assignment("job"))
        (progress,) = (await link.reported(told)).progress
        assert progress.message == "logging in with ***"


@pytest.mark.parametrize("pool", [Pool.ASYNC, Pool.PROCESS])
async def test_the_event_loop_does_not_wait_for_the_mask_of_long_values(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_in: list[int] = []

    class Noted(masking.Mask):
        def __init__(self, values: Iterable[str]) -> None:
            made_in.append(threading.get_ident())
            super().__init__(values)

    monkeypatch.setattr(masking, "Mask", Noted)
    name = "use_secret_async" if pool is Pool.ASYNC else "use_secret"
    link = MemoryLink()
    async with working(registry_of(getattr(jobs, name), pool=pool), link):
        key = "\n".join(f"{pool} {number:060}" for number in range(50))
        link.assign(structs.replace(_assignment(name), secrets={"TOKEN": key}))
        assert (await link.outcome(bytes(16))).result == str(len(key)).encode()
    assert len(made_in) == 1
    assert threading.get_ident() not in made_in


async def test_a_secret_that_the_job_has_not() -> None:
    async def job(context: Context) -> str:
        return context.secret("OTHER")

    link = MemoryLink()
    async with working(registry_of(job), link):
        failure = (await _run(link, "job")).failure
        assert failure is not None
        assert "this job has no secret 'OTHER'; its option `secrets` names: TOKEN" in failure.message


def test_an_assignment_does_not_show_them() -> None:
    shown = repr(_assignment("job"))
    assert "hunter2" not in shown
    assert "kind='job'" in shown
    assert "hunter2" not in f"{_assignment('job')}"
