"""What programs use, end as and leave behind where they work against being counted and ended."""

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from job_types.programs import Heard, HostHere, alive, is_alive, order, python, shell, stay_behind, until
from mainspring.errors import InvalidError
from mainspring.execute.sandbox import host as host_module
from mainspring.execute.sandbox import keeper
from mainspring.execute.sandbox import run as run_module
from mainspring.execute.sandbox.ability import program_cpus
from mainspring.execute.sandbox.hosting import Hosting
from mainspring.execute.sandbox.launch import LaunchError, Order
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.sandbox.run import Ended, Running, started

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
@pytest.mark.usefixtures("sandbox", "host_here")
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
    with pytest.raises(LaunchError, match="Too many open files"):
        async with started(given):
            pytest.fail("nobody would know how to end it")
    await until(partial(is_gone, marker))
    assert not os.listdir(open_folder)
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.usefixtures("sandbox", "host_here")
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


@pytest.mark.usefixtures("host_here")
async def test_a_keeper_that_does_not_start_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = folder / "python"
    broken.write_text("#!/bin/sh\necho no library for that >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(broken))
    with pytest.raises(LaunchError, match="no library for that"):
        async with started(order(["true"], bare=True)):
            pytest.fail("nobody keeps it")


@pytest.mark.parametrize("asked", [False, True], ids=["before it is asked for", "while it starts"])
@pytest.mark.parametrize("cancels", [1, 2])
@pytest.mark.usefixtures("host_here")
async def test_a_cancel_while_it_starts_leaves_nothing(
    cancels: int, asked: bool, marker: str, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither does a second one, while the first is being obeyed."""
    monkeypatch.setattr("tempfile.tempdir", str(open_folder))
    may_go_on, is_there = threading.Event(), asyncio.Event()
    place, name = (host_module, "_start") if asked else (HostHere, "ask")
    real, loop = getattr(place, name), asyncio.get_running_loop()

    def held(*args: Any) -> Any:
        loop.call_soon_threadsafe(is_there.set)
        may_go_on.wait(10)
        return real(*args)

    async def whole() -> None:
        async with started(order(["sh", "-c", "while :; do sleep 1; done", marker], bare=True)):
            pytest.fail("it was cancelled before")

    monkeypatch.setattr(place, name, held)
    before = len(os.listdir("/proc/self/fd"))
    working = asyncio.ensure_future(whole())
    await is_there.wait()
    for _ in range(cancels):
        working.cancel()
        await asyncio.sleep(0)
    may_go_on.set()
    await asyncio.gather(working, return_exceptions=True)
    assert working.cancelled()
    assert not alive(marker)
    assert os.listdir(open_folder) == []
    assert len(os.listdir("/proc/self/fd")) == before


# The host


def host_of(running: Running) -> int:
    """The parent of its first process."""
    return int(Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[1])


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@WAYS
@pytest.mark.usefixtures("sandbox")
async def test_a_host_that_is_killed_takes_its_programs_along_and_is_followed_by_another(
    bare: bool, marker: str
) -> None:
    heard = Heard()
    script = stay_behind(marker) + "until test -e ready; do sleep 0.01; done; echo begun; sleep 60"
    async with asyncio.timeout(20), started(order(["sh", "-c", script], bare=bare)) as running:
        finishing = asyncio.ensure_future(running.finish(heard.write))
        await until(partial(is_alive, marker))
        os.kill(host_of(running), signal.SIGKILL)
        ended = await finishing
    assert ended.killed == "the process that watches over programs was killed"
    await until(partial(is_gone, marker))
    assert (await shell("echo again", bare=bare)).stdout == "again\n"
    assert not running.folder.root.exists()


@pytest.fixture
def own_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that has done nothing else."""
    host = Hosting()
    monkeypatch.setattr(run_module, "host", lambda: host)
    yield
    host.close()


@pytest.mark.usefixtures("own_host")
async def test_a_host_without_descriptors_refuses_programs_and_goes_on() -> None:
    async with asyncio.timeout(20), started(order(["sleep", "60"], bare=True)) as running:
        host = host_of(running)
        usual = resource.prlimit(host, resource.RLIMIT_NOFILE)
        for free in range(8):  # each is the first that fails in another place
            taken = {int(name) for name in os.listdir(f"/proc/{host}/fd")}
            bound = [number for number in range(1000) if number not in taken][free]
            resource.prlimit(host, resource.RLIMIT_NOFILE, (bound, usual[1]))
            with pytest.raises(LaunchError, match=r"too many open files|Too many open files"):
                async with started(order(["true"], bare=True)):
                    pytest.fail("there is no room for it")
            resource.prlimit(host, resource.RLIMIT_NOFILE, usual)
        async with started(order(["sleep", "60"], bare=True)) as another:
            assert host_of(another) == host


@pytest.mark.usefixtures("host_here")
async def test_what_goes_wrong_with_one_program_is_the_end_of_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise OSError(errno.ENOMEM, "no thread for it")

    async with asyncio.timeout(20):
        with monkeypatch.context() as broken:
            broken.setattr("mainspring.execute.sandbox.process.Process.end_rest", fail)
            told = await shell("exit 0", bare=True)
            assert told.killed == "the process that watches over programs was killed"
        for _ in range(3):
            assert (await shell("echo again", bare=True)).stdout == "again\n"


async def test_variables_that_are_no_text_arrive_as_they_are() -> None:
    told = await shell('test "$NAME" = "$(printf "J\\374rg")" && echo same', bare=True, env={"NAME": "J\udcfcrg"})
    assert told.stdout == "same\n"


FORKING = f"""
import asyncio, os, sys, threading, time
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from job_types.programs import Heard, order
from mainspring.execute.sandbox.run import started

has_begun, may_end = threading.Event(), threading.Event()

async def work():
    async with started(order(["sh", "-c", "sleep 0.2; exit 5"])) as running:
        has_begun.set()
        await asyncio.to_thread(may_end.wait)
        print((await running.finish(Heard().write)).exit_code, flush=True)

working = threading.Thread(target=asyncio.run, args=(work(),))
working.start()
has_begun.wait()
if not os.fork():
    sys.exit()
os.wait()
if not (forked := os.fork()):
    os.close(1)
    time.sleep(600)
print(forked, flush=True)
may_end.set()
working.join()
"""


@pytest.mark.usefixtures("sandbox")
async def test_forks_of_a_worker_change_nothing() -> None:
    """Neither one that ends as Python ends, nor one that lives on with copies of all descriptors."""
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", FORKING, stdout=asyncio.subprocess.PIPE)
    assert worker.stdout is not None
    forked = int(await worker.stdout.readline())
    try:
        async with asyncio.timeout(15):
            assert await worker.stdout.read() == b"5\n"
            assert await worker.wait() == 0
    finally:
        os.kill(forked, signal.SIGKILL)


@pytest.mark.usefixtures("own_host")
async def test_a_host_knows_nothing_of_its_workers_secrets(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_KEY", marker)  # it starts with the first program
    async with started(order(["sleep", "60"], bare=True)) as running:
        known = environment_of(host_of(running))
    assert b"PATH=" in known
    assert marker.encode() not in known


async def test_signals_to_all_processes_of_a_service_are_the_workers(marker: str) -> None:
    """The host stays for as long as its worker takes to end its jobs."""
    endless = order(["sh", "-c", "while :; do sleep 1; done", marker], bare=True)
    async with asyncio.timeout(20), started(endless) as running:
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(host_of(running), number)
        assert (await shell("echo again", bare=True)).stdout == "again\n"
        assert alive(marker)


@WAYS
@pytest.mark.usefixtures("sandbox")
async def test_programs_leave_a_cpu_to_others(bare: bool) -> None:
    mine = os.sched_getaffinity(0)
    told = await python("import os; print(*os.sched_getaffinity(0))", bare=bare)
    theirs = {int(word) for word in told.stdout.split()}
    assert theirs == (mine - {min(mine)} if len(mine) > 1 else mine)


def test_the_owner_of_a_worker_says_what_cpus_programs_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3, 5})
    assert program_cpus({}) == [3, 5]
    assert program_cpus({"MAINSPRING_SCRIPT_CPUS": "all"}) == [2, 3, 5]
    with pytest.raises(InvalidError, match="MAINSPRING_SCRIPT_CPUS: 'most' is none of all-but-one, all"):
        program_cpus({"MAINSPRING_SCRIPT_CPUS": "most"})
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {7})
    assert program_cpus({}) == [7]


# Bare programs that turn against their keeper. As the worker's own user, which for root nobody would do: it is what others have.


async def turned(script: str, monkeypatch: pytest.MonkeyPatch) -> Ended:
    monkeypatch.setattr(run_module, "_REST_S", 1.0)
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


@pytest.mark.usefixtures("host_here")
async def test_a_keeper_that_was_stopped_is_not_waited_for(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Order(
        command=["sh", "-c", stay_behind(marker) + "kill -STOP $PPID; sleep 60"], binary=None, uid=None, tree=None
    )
    monkeypatch.setattr(host_module, "_END_S", 0.3)
    async with asyncio.timeout(10), started(given):
        await until(partial(is_alive, marker))
    assert not alive(marker)
