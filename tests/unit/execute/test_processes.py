"""Jobs in processes of their own: real processes, really killed."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from execute import jobs
from execute.harness import MemoryLink, working
from mainspring.errors import InvalidError
from mainspring.execute.registry import Kind, Registry
from mainspring.execute.worker import Worker
from mainspring.wire import Outcome, OutcomeType

_FUNCTIONS: list[Callable[..., Any]] = [
    jobs.pid,
    jobs.double,
    jobs.double_async,
    jobs.signal,
    jobs.bad_result,
    jobs.hang,
    jobs.hang_then_clean_up,
    jobs.hang_hard,
    jobs.hang_async,
    jobs.watch_context,
    jobs.exit_now,
    jobs.exit_politely,
    jobs.segfault,
    jobs.close_everything,
    jobs.start_another,
]


def _registry() -> Registry:
    registry = Registry()
    for function in _FUNCTIONS:
        registry.add(Kind(function.__name__, function, pool="process"))
    retry: dict[str, Any] = {"retry_on": (jobs.KeepTryingError,), "give_up_on": (jobs.HopelessError,)}
    registry.add(Kind("fail", jobs.fail, pool="process", **retry))
    registry.add(Kind("in_disguise", jobs.plain_in_disguise, pool="process"))
    return registry


class Pipe:
    """A named pipe that a job opens to say something; `heard` waits for it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(self.path)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)  # so that nothing blocks where nobody speaks

    async def heard(self) -> str:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._fd, readable.set)
        try:
            async with asyncio.timeout(20):
                await readable.wait()
        finally:
            loop.remove_reader(self._fd)
        return os.read(self._fd, 1000).decode()  # one short write arrives whole

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Callable[[str], Pipe]]:
    made: list[Pipe] = []

    def make(name: str) -> Pipe:
        made.append(Pipe(tmp_path / name))
        return made[-1]

    yield make
    for pipe in made:
        pipe.close()


@pytest.fixture
def pipe(pipes: Callable[[str], Pipe]) -> Pipe:
    return pipes("pipe")


@pytest.fixture
async def link() -> MemoryLink:
    return MemoryLink()


@pytest.fixture
async def worker(link: MemoryLink) -> AsyncIterator[Worker]:
    async with working(_registry(), link, processes=1, slots=4, stop_grace_s=0.2) as running:
        yield running


def _reason(outcome: Outcome) -> str | None:
    return outcome.failure.reason if outcome.failure else outcome.reason


async def _gone(pid: int) -> None:
    """Return when a process that is not ours to wait for is no more, or only waits to be reaped by its new parent."""
    async with asyncio.timeout(10):
        while _lives(pid):  # noqa: ASYNC110  (the kernel sets no event of ours)
            await asyncio.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.usefixtures("worker")
async def test_a_process_computes_and_stays_warm(link: MemoryLink) -> None:
    first = await link.run("pid")
    assert first.type is OutcomeType.COMPLETED
    assert first.result != str(os.getpid()).encode()
    assert (await link.run("double", {"number": 21})).result == b"42"
    assert (await link.run("double_async", {"number": 21})).result == b"42"
    assert (await link.run("double_async", {"number": 4}, timeout_s=60.0)).result == b"8"
    assert (await link.run("in_disguise", {"number": 2})).result == b"6"
    assert (await link.run("pid")).result == first.result


@pytest.mark.usefixtures("worker")
async def test_errors_and_signals_pass_through(link: MemoryLink) -> None:
    kept = await link.run("fail", {"hopeless": False})
    assert kept.failure is not None
    assert (kept.failure.type, kept.failure.message, kept.retry) == ("execute.jobs.KeepTryingError", "not yet", True)
    assert "in fail" in kept.failure.traceback
    assert "mainspring/execute" not in kept.failure.traceback
    assert not (await link.run("fail", {"hopeless": True})).retry
    assert (await link.run("signal", {"name": "retry"})).retry_after_s == 600.0
    assert (await link.run("signal", {"name": "snooze"})).type is OutcomeType.SNOOZED
    assert (await link.run("signal", {"name": "cancel"})).type is OutcomeType.CANCELLED
    assert _reason(await link.run("double", b'{"number":"x"}')) == "arguments"
    assert _reason(await link.run("bad_result")) == "result"
    assert _reason(await link.run("exit_politely")) == "error"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("exit_now", "its process exited with code 3 before the job ended"),
        ("segfault", "its process was killed by SIGSEGV"),
        ("close_everything", "its process exited with code 1 before the job ended"),
    ],
)
@pytest.mark.usefixtures("worker")
async def test_a_process_that_dies_fails_its_job_only(link: MemoryLink, kind: str, message: str) -> None:
    before = (await link.run("pid")).result
    outcome = await link.run(kind)
    assert outcome.type is OutcomeType.FAILED
    assert outcome.retry
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.failure.message) == ("killed", message)
    after = await link.run("pid")
    assert after.type is OutcomeType.COMPLETED
    assert after.result != before


@pytest.mark.usefixtures("worker")
async def test_a_process_killed_from_outside(link: MemoryLink, pipe: Pipe) -> None:
    job = link.submit("hang", {"pipe": pipe.path})
    os.kill(int(await pipe.heard()), signal.SIGKILL)
    assert _reason(await link.outcome(job)) == "killed"
    assert (await link.run("double", {"number": 1})).result == b"2"


@pytest.mark.usefixtures("worker")
async def test_an_idle_process_killed_from_outside_is_replaced(link: MemoryLink) -> None:
    pid = int((await link.run("pid")).result or b"0")
    os.kill(pid, signal.SIGKILL)
    await _gone(pid)
    while (outcome := await link.run("pid")).type is not OutcomeType.COMPLETED:
        assert _reason(outcome) == "killed"  # its death was not known yet
    assert outcome.result != str(pid).encode()


@pytest.mark.parametrize("kind", ["hang", "hang_hard", "hang_async"])
@pytest.mark.usefixtures("worker")
async def test_a_process_past_its_timeout_is_ended(link: MemoryLink, pipe: Pipe, kind: str) -> None:
    job = link.submit(kind, {"pipe": pipe.path}, timeout_s=0.05)
    pid = int(await pipe.heard())
    assert _reason(await link.outcome(job)) == "timeout"
    await _gone(pid)
    assert (await link.run("double", {"number": 1})).result == b"2"


@pytest.mark.parametrize("kind", ["hang", "hang_hard", "hang_async", "watch_context"])
@pytest.mark.usefixtures("worker")
async def test_cancel_of_a_job_in_a_process(link: MemoryLink, pipe: Pipe, kind: str) -> None:
    job = link.submit(kind, {"pipe": pipe.path})
    await pipe.heard()
    link.cancel(job)
    outcome = await link.outcome(job)
    assert (outcome.type, outcome.reason) == (OutcomeType.CANCELLED, "requested")


async def test_a_job_that_is_told_to_stop_may_clean_up(link: MemoryLink, pipes: Callable[[str], Pipe]) -> None:
    begun, cleaned = pipes("begun"), pipes("cleaned")
    async with working(_registry(), link, processes=1, stop_grace_s=10.0):
        job = link.submit("hang_then_clean_up", {"begun": begun.path, "cleaned": cleaned.path})
        await begun.heard()
        link.cancel(job)
        assert await cleaned.heard() == "cleaned"
        assert (await link.outcome(job)).type is OutcomeType.CANCELLED


@pytest.mark.usefixtures("worker")
async def test_cancel_of_a_job_that_waits_for_a_process(link: MemoryLink, pipe: Pipe) -> None:
    first = link.submit("hang", {"pipe": pipe.path})
    pid = int(await pipe.heard())
    waiting = link.submit("double", {"number": 1})
    while not link.has_outcome(waiting):
        link.cancel(waiting)  # a request for a job that has not arrived yet is forgotten
        link.called["report"].clear()
        await link.called["report"].wait()
    assert (await link.outcome(waiting)).type is OutcomeType.CANCELLED
    os.kill(pid, signal.SIGKILL)
    assert _reason(await link.outcome(first)) == "killed"


@pytest.mark.usefixtures("worker")
async def test_what_a_job_started_dies_with_it(link: MemoryLink, pipe: Pipe) -> None:
    job = link.submit("start_another", {"pipe": pipe.path})
    grandchild = int(await pipe.heard())
    link.cancel(job)
    assert (await link.outcome(job)).type is OutcomeType.CANCELLED
    await _gone(grandchild)


async def test_a_stopping_worker_hands_back_and_leaves_no_process(link: MemoryLink, pipe: Pipe) -> None:
    async with working(_registry(), link, processes=2, grace_s=0.01, stop_grace_s=0.1) as worker:
        idle = int((await link.run("pid")).result or b"0")
        job = link.submit("hang_hard", {"pipe": pipe.path})
        pid = int(await pipe.heard())
        await worker.stop()
        assert (await link.outcome(job)).type is OutcomeType.RETURNED
    assert worker.busy == 0
    assert not _lives(pid)
    assert not _lives(idle)


def test_processes_work_under_uvloop() -> None:
    async def scenario() -> None:
        link = MemoryLink()
        async with working(_registry(), link, processes=2, stop_grace_s=0.1):
            ids = [link.submit("double", {"number": n}) for n in range(20)]
            assert [(await link.outcome(id_)).result for id_ in ids] == [str(2 * n).encode() for n in range(20)]
            assert _reason(await link.run("segfault")) == "killed"

    uvloop.run(scenario())


_PROGRAM = """
    import asyncio, sys, threading
    from execute import jobs
    from execute.harness import MemoryLink, working
    from mainspring.execute.registry import Kind, Registry

    def here() -> str:
        return __name__

    class MyError(Exception):
        pass

    def fails() -> None:
        raise MyError

    async def main() -> None:
        registry = Registry()
        registry.add(Kind("here", here, pool="process"))
        registry.add(Kind("fails", fails, pool="process", give_up_on=(MyError,)))
        registry.add(Kind("hang", jobs.hang, pool="process"))
        link = MemoryLink()
        async with working(registry, link, processes=1):
            print((await link.run("here")).result.decode(), (await link.run("fails")).retry, flush=True)
            if len(sys.argv) > 1:
                link.submit("hang", {"pipe": sys.argv[1]})
                await asyncio.Event().wait()

    if __name__ == "__main__":
        asyncio.run(main())
"""


@pytest.fixture
def program(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(_PROGRAM))
    return [sys.executable, str(path)], os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}


def test_functions_of_the_main_module_are_found(program: tuple[list[str], dict[str, str]]) -> None:
    command, env = program
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert '"__mp_main__" False' in done.stdout, done.stderr


async def test_a_child_does_not_outlive_a_killed_parent(program: tuple[list[str], dict[str, str]], pipe: Pipe) -> None:
    command, env = program
    with subprocess.Popen([*command, pipe.path], env=env, stdout=subprocess.DEVNULL) as parent:  # noqa: ASYNC220
        child = int(await pipe.heard())
        assert _lives(child)
        parent.kill()
    await _gone(child)


def test_a_function_typed_in_is_refused_for_processes() -> None:
    code = """
    from mainspring.errors import InvalidError
    from mainspring.execute.registry import Kind
    def job(): pass
    try:
        Kind("job", job, pool="process")
    except InvalidError as error:
        print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=True
    )
    assert "needs a function in a module that can be imported" in done.stdout


def test_exception_types_must_be_found_too() -> None:
    class LocalError(Exception):
        pass

    with pytest.raises(InvalidError, match="LocalError cannot be found from another process"):
        Kind("double", jobs.double, pool="process", give_up_on=(LocalError,))
