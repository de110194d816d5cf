"""What programs use, end as and leave behind where they work against being counted and ended."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from job_types.programs import Heard, alive, is_alive, order, python, shell, stay_behind, until
from mainspring.execute.sandbox import keeper
from mainspring.execute.sandbox import run as run_module
from mainspring.execute.sandbox.launch import LaunchError, Order
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.sandbox.run import Ended, Running, begun, started

WAYS = pytest.mark.parametrize("bare", [False, True], ids=["sandbox", "bare"])


@WAYS
@pytest.mark.usefixtures("sandbox")
async def test_deleted_files_that_are_open_count(bare: bool) -> None:
    hide = "exec 3>f 4>/$TMPDIR/g; rm f /$TMPDIR/g; for i in 3 4; do head -c 9000000 /dev/zero >&$i; done; sleep 5"
    told = await shell(hide, bare=bare, limits=Limits(disk_mb=10))
    assert told.killed == "disk limit of 10 MB"


WRITTEN = (
    "import os, time\nfd = os.memfd_create('x')\nfor _ in range(100): os.write(fd, bytes(1_000_000))\ntime.sleep(5)"
)
MAPPED = "import mmap, time\nheld = mmap.mmap(-1, 100_000_000)\nfor _ in range(100): held.write(bytes(1_000_000))\ntime.sleep(5)"


@WAYS
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("code", [WRITTEN, MAPPED], ids=["memfd", "mmap"])
async def test_memory_that_is_shared_counts_where_no_group_counts(code: str, bare: bool) -> None:
    told = await python(code, bare=bare, counted=False, limits=Limits(memory_mb=64))
    assert told.killed == "memory limit of 64 MB"


@WAYS
@pytest.mark.usefixtures("sandbox")
async def test_who_computes_too_long_is_told_so(bare: bool) -> None:
    """The kernel, if it is faster than whoever looks, only says SIGKILL."""
    told = await shell("while :; do :; done", bare=bare, limits=Limits(cpu_s=1.0))
    assert told.killed == "CPU limit of 1 s"


@pytest.mark.parametrize(("trusted", "killed"), [(False, "limit of 20 processes"), (True, None)])
async def test_threads_count_as_processes_where_nothing_else_counts(trusted: bool, killed: str | None) -> None:
    """But for programs of the machine, whose threads are their own."""
    code = "import threading, time\nfor _ in range(60): threading.Thread(target=time.sleep, args=(1,)).start()"
    limits = Limits(processes=20, memory_mb=4096)
    given = Order(command=["python3", "-c", code], binary=None, uid=None, tree=None, limits=limits, trusted=trusted)
    async with started(given) as running:
        assert (await running.finish(Heard().write)).killed == killed


async def is_gone(marker: str) -> bool:
    return not alive(marker)


def no_more_files(*_: object) -> int:
    raise OSError(errno.EMFILE, "Too many open files")


@WAYS
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    "missing", ["mainspring.execute.sandbox.process.os.pidfd_open", "mainspring.execute.sandbox.cgroups.Group.add"]
)
async def test_what_cannot_be_held_does_not_run(
    bare: bool, missing: str, marker: str, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = order(["sh", "-c", "while :; do sleep 1; done", marker], bare=bare)
    if missing.endswith("add") and given.tree is None:
        pytest.skip("no groups on this machine")
    before = sorted(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("tempfile.tempdir", str(open_folder))
    monkeypatch.setattr(missing, no_more_files)
    with pytest.raises(OSError, match="Too many open files"):
        async with started(given):
            pytest.fail("nobody would know how to end it")
    await until(partial(is_gone, marker))
    assert not os.listdir(open_folder)
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.usefixtures("sandbox")
async def test_a_sandbox_that_is_not_made_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bubblewrap has told its process by then. Of root's programs, each has a user of its own, who cannot go there."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    try:
        async with started(order(["true"])) as running:
            said = (await running.finish(Heard().write)).stderr.decode()
    except LaunchError as error:  # it was fast
        said = str(error)
    assert "bwrap: " in said
    assert "Permission denied" in said


def test_a_keeper_brings_along_what_it_needs_and_no_more() -> None:
    """It is started for each bare program and each container: these modules would be a third of its time."""
    code = "import sys; exec(open(sys.argv[1]).read(), {'__name__': 'keeper'}); print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", code, keeper.__file__]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "ctypes" in loaded
    assert not {"enum", "json", "re", "contextlib"} & set(loaded)


async def test_a_keeper_that_does_not_start_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = folder / "python"
    broken.write_text("#!/bin/sh\necho no library for that >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(broken))
    with pytest.raises(LaunchError, match="no library for that"):
        async with started(order(["true"], bare=True)):
            pytest.fail("nobody keeps it")


@pytest.mark.parametrize("cancels", [1, 2])
async def test_a_cancel_while_it_starts_leaves_nothing(cancels: int) -> None:
    """Neither does a second one, while the first is being obeyed."""
    made: list[Running] = []
    may_start = threading.Event()

    def start() -> Running:
        may_start.wait(10)
        made.append(run_module._start(order(["sleep", "60"], bare=True), {}))
        return made[0]

    async def whole() -> None:
        async with begun(start):
            pytest.fail("it was cancelled before")

    before = len(os.listdir("/proc/self/fd"))
    working = asyncio.ensure_future(whole())
    for _ in range(cancels):
        await asyncio.sleep(0)
        working.cancel()
        await asyncio.sleep(0)
    may_start.set()
    await asyncio.gather(working, return_exceptions=True)
    assert working.cancelled()
    assert str(made[0].process.pid) not in os.listdir("/proc")
    assert not made[0].folder.root.exists()
    assert len(os.listdir("/proc/self/fd")) == before


# Bare programs that turn against their keeper. As the worker's own user, which for root nobody would do: it is what others have.


async def turned(script: str, monkeypatch: pytest.MonkeyPatch) -> Ended:
    monkeypatch.setattr(run_module, "_REST_S", 1.0)
    monkeypatch.setattr(run_module, "_END_S", 0.3)
    given = Order(command=["sh", "-c", script], binary=None, uid=None, tree=None)
    async with asyncio.timeout(10), started(given) as running:
        return await running.finish(Heard().write)


async def test_what_outlives_its_keeper_is_found(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = await turned(stay_behind(marker) + "until test -e ready; do :; done; kill -9 $PPID; sleep 5", monkeypatch)
    assert ended.killed == "SIGKILL"
    assert not alive(marker)


async def test_nobody_waits_for_what_cannot_be_found(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has taken the mark out of its environment and holds the streams."""
    hidden = f"env -i setsid sh -c ': > ready; while :; do /bin/sleep 1; done' {marker} & "
    try:
        ended = await turned(hidden + "until test -e ready; do :; done; kill -9 $PPID; sleep 5", monkeypatch)
        assert ended.killed == "SIGKILL"
    finally:
        for pid in alive(marker):
            os.kill(int(pid), signal.SIGKILL)


async def test_a_keeper_that_was_stopped_is_not_waited_for(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Order(
        command=["sh", "-c", stay_behind(marker) + "kill -STOP $PPID; sleep 60"], binary=None, uid=None, tree=None
    )
    monkeypatch.setattr(run_module, "_END_S", 0.3)
    async with asyncio.timeout(10), started(given):
        await until(partial(is_alive, marker))
    assert not alive(marker)
