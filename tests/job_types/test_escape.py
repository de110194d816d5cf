"""Ways out of the sandbox, each tried for real by a program inside. They must all be closed."""

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from job_types.programs import Heard, alive, is_alive, order, python, run, shell, stay_behind, until
from mainspring.execute.sandbox import run as run_module
from mainspring.execute.sandbox.cgroups import find_tree
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.sandbox.run import started

pytestmark = pytest.mark.usefixtures("sandbox")

SECRET = "correct-horse-battery"

# Calls the kernel by numbers; prints the name of every call that was not refused.
CALLS = """
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
numbers = {"x86_64": 0, "aarch64": 1}[platform.machine()]
def call(name, both, *args):
    ctypes.set_errno(0)
    if libc.syscall(both[numbers], *args) != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        print(name, ctypes.get_errno())
"""


async def test_the_database_and_credentials_cannot_be_read(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever's they are, wherever they are, also if everybody else may read them."""
    monkeypatch.setenv("MAINSPRING_KEY", SECRET)
    for name, mode in (("mainspring.db", 0o644), ("credentials", 0o600)):
        open_folder.joinpath(name).write_text(SECRET)
        open_folder.joinpath(name).chmod(mode)
    told = await shell(
        f"env; cat {open_folder}/*; ls -d {open_folder} /root /home /var/lib /run /sys /srv /opt /etc/shadow"
    )
    assert SECRET not in told.stdout
    assert told.stderr.count("No such file") == 10


async def test_no_process_of_the_machine_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_KEY", SECRET)
    told = await shell(f"cat /proc/*/environ /proc/*/cmdline; ls /proc; kill -0 {os.getpid()} && echo a''live")
    assert SECRET not in told.stdout
    assert "pytest" not in told.stdout
    assert "alive" not in told.stdout
    assert len([word for word in told.stdout.split() if word.isdigit()]) < 10


async def test_a_program_cannot_reach_another_ones_folder() -> None:
    async with started(order(["sleep", "60"]), {"mine": SECRET.encode()}) as sibling:
        place = sibling.folder.work
        assert place.joinpath("mine").read_text() == SECRET
        told = await shell(f"cat {place}/mine /tmp/*/work/mine; cat /proc/*/root{place}/mine; ls /tmp")
    assert told.stdout == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("bare", [False, True])
async def test_outside_it_is_nobody(bare: bool) -> None:
    """So that a way out leads nowhere, and no other program may look into its folders."""
    given = order(["sh", "-c", ": > ready; sleep 60"], bare=bare)
    async with started(given) as running:
        work = running.folder.work

        async def is_ready() -> bool:
            return "ready" in os.listdir(work)

        await until(is_ready)
        owner = os.stat(work / "ready").st_uid
        assert owner == given.uid != 0
        assert os.stat(work).st_mode & 0o777 == 0o700
        assert [int(user) for user in users_below(running.pid)] == [owner] * 4


def users_below(pid: int) -> list[str]:
    """Of a process's first child."""
    child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
    status = Path(f"/proc/{child}/status").read_text()
    return next(line.split()[1:] for line in status.splitlines() if line.startswith("Uid:"))


async def test_neither_secrets_nor_environment_are_seen_outside() -> None:
    """Bubblewrap's command line and environment can be read by others on the machine."""
    async with started(order(["sleep", "60"], env={"TOKEN": SECRET})) as running:
        assert SECRET.encode() not in seen_outside(running.pid)


def seen_outside(pid: int) -> bytes:
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


async def test_the_environment_does_not_work_on_bubblewrap() -> None:
    """With this variable a program lists its libraries and ends: if bubblewrap did, there would be no sandbox."""
    told = await run(["cat", "/proc/self/status"], env={"LD_TRACE_LOADED_OBJECTS": "1"})
    assert "libc.so" in told.stdout
    assert "libcap" not in told.stdout
    assert "CapEff" not in told.stdout


async def test_the_loopback_of_the_machine_is_another() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        assert "Connection refused" in (await python(code)).stderr
        assert (await python(code, network=True)).code == 0


@pytest.mark.parametrize("counted", [True, False])
async def test_a_fork_bomb_is_bounded(counted: bool) -> None:
    code = """
import os, time
made = 0
try:
    while made < 100:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except BlockingIOError:
    print(made)
"""
    told = await python(code, limits=Limits(processes=16), counted=counted)
    assert 10 <= int(told.stdout) <= 18, told


@pytest.mark.parametrize("counted", [True, False])
async def test_ten_gigabytes_are_not_to_be_had(counted: bool) -> None:
    """In pieces that are used, by several processes."""
    code = """
import os
os.fork()
held = [bytearray(os.urandom(1) * 1_000_000) for _ in range(10_000)]
"""
    told = await python(code, limits=Limits(memory_mb=64), counted=counted)
    assert told.killed == "memory limit of 64 MB" or "MemoryError" in told.stderr, told
    if told.usage.peak_mb is not None:
        assert told.usage.peak_mb < 160


async def test_memory_that_looks_like_files_is_bounded() -> None:
    told = await shell(
        "head -c 200000000 /dev/zero > /dev/shm/x; echo $?; echo x > /dev/x; echo x > /x; echo x > /etc/x"
    )
    assert told.killed is not None or told.stdout.splitlines()[0] != "0"
    assert told.stderr.count("Read-only file system") == 3


async def test_the_disk_is_not_filled() -> None:
    code = """
import time
number = 0
while True:
    number += 1
    open(f"{('/work', '/tmp')[number % 2]}/{number}", "wb").write(bytes(1_000_000))
    time.sleep(0.005)
"""
    told = await python(code, limits=Limits(disk_mb=8))
    assert told.killed == "disk limit of 8 MB"
    told = await shell("head -c 3000000 /dev/zero > big; echo done", limits=Limits(disk_mb=2))
    assert told.killed == "disk limit of 2 MB"  # it was too fast to be caught while it ran
    told = await shell("exec head -c 3000000 /dev/zero > big", limits=Limits(file_mb=1))
    assert told.killed == "limit of 1 MB for one file"


async def test_what_is_hidden_from_the_measuring_counts_as_too_much() -> None:
    told = await python(
        "import os\nfor _ in range(60):\n    os.mkdir('x' * 100); os.chdir('x' * 100)", limits=Limits(disk_mb=8)
    )
    assert told.killed == "a folder that is too deep, or closed, to be measured"


async def test_cpu_time_is_bounded() -> None:
    told = await python("import os\nos.fork()\nwhile True: pass", limits=Limits(cpu_s=0.2))
    assert told.killed == "CPU limit of 0.2 s"


async def test_system_calls_that_reach_further_are_refused() -> None:
    code = f"""{CALLS}
call("ptrace", (101, 117), 0, 0, 0, 0)
call("process_vm_readv", (310, 270), 1, 0, 0, 0, 0, 0)
call("keyctl", (250, 219), 0, -3, 1)
call("add_key", (248, 217), b"user", b"x", b"y", 1, -3)
call("bpf", (321, 280), 0, 0, 0)
call("perf_event_open", (298, 241), 0, 0, -1, -1, 0)
call("userfaultfd", (323, 282), 1)
call("io_uring_setup", (425, 425), 1, 0)
call("mount", (165, 40), b"none", b"/tmp", b"tmpfs", 0, 0)
call("unshare", (272, 97), 0x10000000)
call("clone", (56, 220), 0x10000011, 0, 0, 0, 0)
call("clone3", (435, 435), 0, 0)
call("setns", (308, 268), 0, 0)
call("kexec_load", (246, 104), 0, 0, 0, 0)
call("reboot", (169, 142), 0, 0, 0, 0)
call("init_module", (175, 105), 0, 0, b"")
call("settimeofday", (164, 170), 0, 0)
call("open_by_handle_at", (304, 265), 0, 0, 0)
call("chroot", (161, 51), b"/tmp")
print("tried")
"""
    told = await python(code)
    assert told.stdout == "tried\n", told


async def test_nothing_can_be_put_into_a_terminal() -> None:
    """Not even into the program's own: so neither into one that it might get hold of."""
    code = """
import fcntl, os, pty, termios
if pty.fork()[0] == 0:
    try:
        fcntl.ioctl(0, termios.TIOCSTI, b"x")
        os._exit(0)
    except PermissionError:
        os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert (await python(code)).stdout == "7\n"
    assert (await shell("exec 3</dev/tty")).code != 0


async def test_escape_sequences_stay_bytes() -> None:
    heard = Heard()
    written = b"\x1b]0;title\x07\x1b[2J\xff\x00 done"
    async with started(order(["cat"], stdin=written)) as running:
        await running.finish(heard.write)
    assert heard.streams[1] == written


async def test_system_folders_are_read_only() -> None:
    places = (
        "/usr/x",
        "/usr/bin/sh",
        "/bin/x",
        "/lib/x",
        "/etc/passwd",
        "/etc/x",
        "/x",
        "/proc/sys/kernel/core_pattern",
    )
    told = await shell("".join(f"(echo x > {place}) && echo {place};" for place in places))
    assert told.stdout == ""
    assert told.stderr.count("\n") == len(places)
    writable = {line.split()[1] for line in (await shell("cat /proc/mounts")).stdout.splitlines() if " rw," in line}
    assert {place for place in writable if not place.startswith("/dev/")} == {"/proc", "/work", "/tmp"}


async def test_there_are_no_devices_and_no_raw_sockets() -> None:
    code = """
import os, socket, stat
def attempt(what, function, *args):
    try:
        function(*args)
        print(what)
    except OSError:
        pass
attempt("block device", os.mknod, "disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))
attempt("character device", os.mknod, "mem", stat.S_IFCHR | 0o600, os.makedev(1, 1))
attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
attempt("packet", socket.socket, socket.AF_PACKET, socket.SOCK_RAW)
attempt("vsock", socket.socket, 40, socket.SOCK_STREAM)
attempt("alg", socket.socket, 38, socket.SOCK_SEQPACKET)
print(sorted(os.listdir("/dev")))
"""
    told = await python(code)
    assert told.stdout.count("\n") == 1, told
    assert "sda" not in told.stdout
    assert "mem" not in told.stdout


async def test_it_has_no_rights_and_gets_none() -> None:
    told = await shell("cat /proc/self/status; id -u; grep -c . /etc/passwd; mount | grep -v nosuid")
    status = dict(line.split(":\t", 1) for line in told.stdout.splitlines() if ":\t" in line)
    for which in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[which], 16) == 0, which
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert told.stdout.splitlines()[-2:] == ["1000", "2"]  # and every mount is nosuid


async def test_links_lead_nowhere(folder: Path) -> None:
    """Outputs and checkpoints are read by the worker, who may read more than the program."""
    secret = folder / "secret"
    secret.write_text(SECRET)
    script = f"""
        ln -s {secret} link.txt; ln -s {folder} linked; mkfifo pipe.txt; mkdir deep; ln -s / deep/root
        mkdir made; echo fine > made/real.txt
    """
    async with started(order(["sh", "-c", script])) as running:
        await running.finish(Heard().write)
        assert running.folder.find(["**/*.txt"]) == ["made/real.txt"]
        for name in ("link.txt", "linked/secret", "pipe.txt", "deep/root/etc/passwd", "made/../link.txt", "made"):
            assert running.folder.open(name) is None, name
        fd = running.folder.open("made/real.txt")
        assert fd is not None
        assert os.read(fd, 100) == b"fine\n"
        os.close(fd)
    assert not running.folder.root.exists()
    assert secret.read_text() == SECRET  # removing the folder went through no link either


# What is left behind


async def is_gone(marker: str) -> bool:
    return not alive(marker)


async def is_swept(pid: int) -> bool:
    """The next worker on this machine removes the groups of one that was killed."""
    tree = find_tree()
    rooms = set() if tree is None else {Path(folder).parent for folder in tree.folders.values()}
    return not [left for room in rooms for left in room.glob(f"mainspring-{pid}")]


WAYS = pytest.mark.parametrize(
    "way", [{}, {"bare": True, "counted": True}, {"bare": True, "counted": False}], ids=["sandbox", "bare", "no cgroup"]
)


@WAYS
async def test_nothing_is_left_when_a_program_ends(marker: str, way: dict[str, bool]) -> None:
    told = await shell(stay_behind(marker) + "until test -e ready; do sleep 0.01; done; exit 3", **way)
    assert told.code == 3
    assert not alive(marker)


@WAYS
async def test_nothing_is_left_when_it_is_cancelled(
    marker: str, way: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_GRACE_S", 0.2)
    stubborn = "trap '' TERM;" + stay_behind(marker) + "while :; do sleep 1; done"
    working = asyncio.ensure_future(shell(stubborn, **way))
    await until(partial(is_alive, marker))
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert not alive(marker)


WORKER = f"""
import asyncio, os, sys, time
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from job_types.programs import is_alive, shell, until

async def fork():
    await until(lambda: is_alive(os.environ["FORK"]))
    forked = os.fork()
    if not forked:
        os.close(1)
        time.sleep(600)
    print(forked, flush=True)

async def main():
    running = asyncio.ensure_future(shell(os.environ["SCRIPT"], **eval(os.environ["WAY"])))
    if os.environ["FORK"]:
        await fork()
    await running

asyncio.run(main())
"""


@WAYS
@pytest.mark.parametrize("forks", [False, True], ids=["", "but not its fork"])
async def test_nothing_is_left_when_the_worker_is_killed(
    marker: str, way: dict[str, bool], forks: bool, open_folder: Path
) -> None:
    """Also if a process that its jobs have started holds all of its descriptors."""
    env = {"TMPDIR": str(open_folder), "SCRIPT": stay_behind(marker) + "sleep 600", "WAY": repr(way)}
    env["FORK"] = marker if forks else ""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, env={**os.environ, **env}, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    forked = 0
    try:
        await until(partial(is_alive, marker))
        forked = int(await worker.stdout.readline()) if forks else 0
        worker.kill()
        await worker.wait()
        await until(partial(is_gone, marker))
        await until(partial(is_swept, worker.pid))
        await until(partial(has_no_folder, open_folder))
    finally:
        for pid in filter(None, (worker.returncode is None and worker.pid, forked)):
            os.kill(pid, signal.SIGKILL)


async def has_no_folder(place: Path) -> bool:
    return os.listdir(place) == []
