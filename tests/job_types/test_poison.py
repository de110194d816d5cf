"""Scripts that would take a worker down with them: each fails with its reason, the worker lives, its other jobs go on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainspring import App, JobFailedError
from mainspring.execute.sandbox.ability import ability
from mainspring.execute.sandbox.limits import Limits

pytestmark = pytest.mark.usefixtures("sandbox")

SMALL = Limits(memory_mb=64, processes=32)
BOMB = "import os, time\nwhile True:\n    try:\n        os.fork()\n    except BlockingIOError:\n        time.sleep(0.1)"
HUNGRY = "import os\nheld = [bytearray(os.urandom(1) * 1_000_000) for _ in range(10_000)]"

# Without a cgroup each process has the limit for itself, and is told that there is no more.
COUNTED = (tree := ability().tree) is not None and tree.has("memory")
NO_MEMORY = ("killed", "killed: memory limit of 64 MB") if COUNTED else ("error", "MemoryError")

# By what a job does: how it is submitted, the reason of its failure, and what the failure says.
POISON: dict[str, tuple[list[str], str | None, str, str]] = {
    "segfault": (["sh", "-c", "kill -SEGV $$"], None, "killed", "killed: SIGSEGV"),
    "out of memory": (["python3", "-c", HUNGRY], None, *NO_MEMORY),
    "hang": (["sh", "-c", "sleep 600 & sleep 600"], "1s", "timeout", "longer than its timeout of 1 s"),
    "fork bomb": (["python3", "-c", BOMB], "1s", "timeout", "longer than its timeout of 1 s"),
    "endless output": (["yes"], "1s", "timeout", "longer than its timeout of 1 s"),
    "exit": (["sh", "-c", "exit 9"], None, "error", "exit code 9"),
}


@asynccontextmanager
async def running(app: App) -> AsyncIterator[None]:
    ready = asyncio.Event()
    work = asyncio.ensure_future(app.run(types=["script"], signals=False, ready=ready.set))
    try:
        async with asyncio.timeout(20):
            await ready.wait()
        yield
    finally:
        app.stop()
        await work


async def test_poison(folder: Path) -> None:
    app = App(f"sqlite:///{folder}/jobs.db")

    @app.job()
    async def quick(number: int) -> int:
        return number

    async with running(app), asyncio.timeout(60):
        poison = {
            name: await app.script.options(timeout=timeout, retries=0).submit(command, limits=SMALL)
            for name, (command, timeout, _, _) in POISON.items()
        }
        others = await app.submit_many([quick.job(number) for number in range(50)])
        good = await app.script.submit(["echo", "fine"])
        assert [await other.result() for other in others] == list(range(50))
        assert (await good.result()).stdout == "fine\n"
        for name, (_, _, reason, said) in POISON.items():
            with pytest.raises(JobFailedError, match=said) as failed:
                await poison[name].result()
            assert failed.value.reason == reason, name
        last = await app.script.submit(["echo", "still here"])
        assert (await last.result()).stdout == "still here\n"
