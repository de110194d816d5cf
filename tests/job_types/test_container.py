"""Containers for real: in a root folder by runc and by podman, and in an image by podman. What docker is told is in
unit/execute/test_containers."""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from execute.typed import JOB, Typed, typed
from msgspec import Struct

from conftest import absent
from job_types.programs import alive
from job_types.runtimes import IMAGE, OCI, NoRuntimeError, find_podman, find_runc, make_image, make_root
from mainspring.core.job import Options
from mainspring.core.objects import Found
from mainspring.execute.containers.ability import Ability, Runtime, names, problem_of, secret_names, sweep
from mainspring.execute.containers.bundle import Bundles
from mainspring.execute.containers.engines import Engine
from mainspring.execute.containers.leftovers import is_left
from mainspring.execute.sandbox.ability import program_cpus
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.types import container
from mainspring.execute.types.container import TYPE
from mainspring.wire import Assignment, Outcome, OutcomeType


class Box(Struct, frozen=True):
    """What runs containers. `place`: where it keeps what it knows; `where`: the arguments that say what a job runs in."""

    runtime: Runtime
    place: Path
    where: dict[str, Any]


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roots")
    folder.chmod(0o755)
    try:
        make_root(folder / "small")
    except NoRuntimeError as error:
        absent(str(error))
    return folder


@pytest.fixture(scope="module")
def runc(tmp_path_factory: pytest.TempPathFactory, roots: Path) -> Box:
    place = tmp_path_factory.mktemp("runc") / "state"
    place.mkdir()
    return Box(working(lambda: find_runc(place)), place, {"root": "small"})


@pytest.fixture(scope="module")
def podman(roots: Path) -> Iterator[Box]:
    with tempfile.TemporaryDirectory(
        prefix="podman-", dir="/tmp"
    ) as name:  # short: it waits in vain for what has a long path
        place = Path(name)
        yield Box(working(lambda: find_podman(place)), place, {"root": "small"})


@pytest.fixture(scope="module")
def image(podman: Box, roots: Path) -> Box:
    """The same podman, with an image of the same folder."""
    make_image(engine(podman), roots / "small")
    return Box(podman.runtime, podman.place, {"image": IMAGE})


def working(find: Callable[[], Runtime]) -> Runtime:
    try:
        found = find()
    except NoRuntimeError as error:
        absent(str(error))
    if why := problem_of(found):
        absent(f"{found.name} does not work here: {why}")
    return found


def engine(box: Box) -> Engine:
    assert isinstance(box.runtime, Engine)
    return box.runtime


@pytest.fixture(params=["runc", "podman", "image"])
def box(request: pytest.FixtureRequest) -> Box:
    found: Box = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def worker(box: Box, roots: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Typed]:
    """One that has a runtime and root folders, and is left with no container."""
    async with working_with(box.runtime, roots, monkeypatch) as made:
        yield made
    assert left(box) == []


def left(box: Box) -> list[str]:
    """What anybody still knows of containers and secrets."""
    known = os.listdir(box.place / OCI) if isinstance(box.runtime, Engine) else []
    return names(box.runtime) + secret_names(box.runtime) + known


@asynccontextmanager
async def working_with(runtime: Runtime, roots: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Typed]:
    found = Ability(runtime if "image" in runtime.takes else None, runtime, ["docker: no daemon"])
    monkeypatch.setenv("MAINSPRING_CONTAINER_ROOTS", str(roots))
    monkeypatch.setattr(container, "ability", lambda: found)
    async with typed(TYPE) as made:
        yield made


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


async def test_a_program_runs_in_a_root_folder_or_an_image(worker: Typed, box: Box) -> None:
    result = await worker.result(
        **box.where,
        command=shell("pwd; cat in/a.txt; echo $WORD"),
        env={"WORD": "up to"},
        files={"in/a.txt": "hello "},
    )
    assert result == {"exit_code": 0, "stdout": "/work\nhello up to\n", "runtime": box.runtime.name}


async def test_it_is_nobody_and_can_write_nowhere_else(worker: Typed, box: Box) -> None:
    script = (
        "id -u; touch /x /bin/x /data/x /run/x /var/tmp/x; touch /tmp/y /work/z && echo both; cat /proc/self/status"
    )
    result = await worker.result(**box.where, command=shell(script))
    uid, both, *_ = result["stdout"].split()
    called_root = os.geteuid() != 0 and isinstance(
        box.runtime, Bundles
    )  # without root, the worker's own user is so inside
    assert (uid == "0", both) == (called_root, "both")
    for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in result["stdout"].splitlines()
    assert (await log(worker)).count(b"Read-only file system") == 5


async def test_it_has_a_network_of_its_own_unless_it_asks(
    worker: Typed, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSPRING_SCRIPT_NETWORK", "allow")
    count = shell("cat /proc/net/dev")
    alone = await worker.result(**box.where, command=count)
    assert [line.split(":")[0].strip() for line in alone["stdout"].splitlines()[2:]] == ["lo"]
    here = await worker.result(**box.where, command=count, network=True)
    names = {line.split(":")[0].strip() for line in here["stdout"].splitlines()[2:]}
    assert names == {name for _, name in socket.if_nameindex()}


async def test_it_leaves_a_cpu_to_others(worker: Typed, box: Box) -> None:
    found = await worker.result(**box.where, command=shell("grep Cpus_allowed_list: /proc/self/status"))
    assert found["stdout"].split()[1] == listed(program_cpus())


def listed(cpus: list[int]) -> str:
    """As the kernel writes them: 0-2,5."""
    runs = [list(run) for _, run in itertools.groupby(cpus, lambda cpu: cpu - cpus.index(cpu))]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


async def test_the_owner_of_a_worker_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_MAX_LIMITS", "memory_mb=2048")
    async with typed(TYPE) as worker:
        assert "MAINSPRING_SCRIPT_NETWORK=allow" in await worker.failure(image="alpine", network=True)
        told = await worker.failure(image="alpine", limits=Limits(memory_mb=4096))
    assert told == "limits.memory_mb: the job asks for 4096, and its worker allows 2048 (MAINSPRING_MAX_LIMITS)"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"image": "--privileged"}, "'--privileged' is no name of an image"),
        ({"image": "alpine", "env": {"AWS_SECRET_ACCESS_KEY\nX": "1"}}, "is no name for a variable of a job"),
    ],
)
async def test_what_was_not_checked_at_submit_is_checked_at_run(arguments: dict[str, Any], said: str) -> None:
    """Whoever wrote the job, by whatever way, chooses no options of podman and docker."""
    async with typed(TYPE) as worker:
        data = json.dumps(arguments).encode()
        worker.link.assign(Assignment(JOB, 1, "default", "default", "container", data, Options()))
        outcome = await worker.link.outcome(JOB)
    assert outcome.failure is not None
    assert said in outcome.failure.message
    assert not outcome.retry


async def log(worker: Typed) -> bytes:
    pieces: list[Found] = await worker.link.objects.find(JOB, "logs/")
    return b"".join([await worker.object(piece.name) for piece in pieces])


async def test_secrets_are_its_environment_and_are_masked(worker: Typed, box: Box) -> None:
    outcome = await worker.run(**box.where, command=shell("echo it is $TOKEN"), secrets={"TOKEN": "s3cret-s3cret"})
    assert b"s3cret" not in (outcome.result or b"") + await log(worker)
    assert b"it is" in await log(worker)


async def test_secrets_are_on_no_command_line_and_stay_in_no_file(worker: Typed, box: Box) -> None:
    """Also one of several lines, and one that takes the place of a variable."""
    secrets = {"TOKEN": "s3cret-in-use-11", "PEM": "s3cret-line-22\ns3cret-line-33"}
    script = """touch begun; while [ ! -e end ]; do sleep 0.02; done; [ "$TOKEN$PEM" = "$(cat all)" ] && echo same"""
    job = worker.submit(
        **box.where,
        command=shell(script),
        secrets=secrets,
        env={"TOKEN": "plain"},
        files={"all": "".join(secrets.values())},
    )
    began = await begun()
    assert not [part for part in (b"s3cret-in-use", b"s3cret-line") if part in command_lines()]
    began.with_name("end").touch()
    outcome = await worker.link.outcome(job)
    assert outcome.failure is None, outcome.failure.message
    assert b"same" in await log(worker)
    assert [
        file for file in box.place.rglob("*") if file.is_file() and holds_any(file, "s3cret-in-use-11", "s3cret-line")
    ] == []
    assert not began.exists()


def command_lines() -> bytes:
    said = b""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            said += place.read_bytes()
    return said


def holds_any(file: Path, *secrets: str) -> bool:
    """As it is, or as podman writes it."""
    data = file.read_bytes()
    return any(
        form in data
        for secret in secrets
        for form in (secret.encode(), base64.b64encode(secret.encode()).rstrip(b"=")[:-1])
    )


async def test_files_that_it_leaves_are_outputs(worker: Typed, box: Box) -> None:
    outcome = await worker.run(
        **box.where, command=shell("mkdir d; echo 1 > d/a.csv; echo 2 > b.txt"), outputs=["**/*.csv"]
    )
    assert outcome.failure is None
    assert [output.name for output in outcome.outputs] == ["d/a.csv"]


async def test_the_verdict_is_its_exit_code(worker: Typed, box: Box) -> None:
    outcome = await worker.run(**box.where, command=shell("echo why >&2; exit 3"))
    assert outcome.failure is not None
    assert outcome.failure.message == "exit code 3; at the end it said:\nwhy"
    assert outcome.retry
    assert outcome.usage is not None
    assert outcome.usage.cpu_s


LIMITS = {
    "memory": (shell("dd if=/dev/zero of=/dev/null bs=200M count=1"), {"memory_mb": 32}, "memory limit of 32 MB"),
    "processes": (shell("i=0; while [ $((i += 1)) -lt 30 ]; do sleep 9 & done"), {"processes": 16}, "can't fork"),
    "one file": (shell("dd if=/dev/zero of=x bs=1M count=9"), {"file_mb": 2}, "File too large"),
    "disk": (
        shell("for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=$i bs=1M count=1; done; sleep 9"),
        {"disk_mb": 4},
        "disk limit",
    ),
    "processor": (shell("while true; do true; done"), {"cpu_s": 0.3}, "CPU limit of 0.3 s"),
}


@pytest.mark.parametrize(("command", "limits", "problem"), LIMITS.values(), ids=LIMITS.keys())
async def test_what_goes_beyond_its_limits_fails(
    worker: Typed, box: Box, command: list[str], limits: dict[str, float], problem: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs a cgroup")
    outcome = await worker.run(**box.where, command=command, limits=limits)
    assert outcome.failure is not None
    assert problem in outcome.failure.message


async def stopped(worker: Typed, box: Box, script: str) -> Outcome:
    """Of a program that is asked to end when it has begun."""
    job = worker.submit(**box.where, command=shell(script))
    await begun()
    worker.link.cancel(job)
    return await worker.link.outcome(job)


async def begun() -> Path:
    """The file by which a program says so."""
    deadline = time.monotonic() + 20
    while (found := begun_now()) is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    return found


def begun_now() -> Path | None:
    return next(Path(tempfile.gettempdir()).glob(f"mainspring-job-{os.getpid()}-*/work/begun"), None)


async def test_one_that_must_end_is_gone(worker: Typed, box: Box) -> None:
    """Also if it does not want to; `worker` looks for what is left."""
    outcome = await stopped(worker, box, "trap '' TERM; touch begun; sleep 99 & wait; sleep 99")
    assert outcome.type is OutcomeType.CANCELLED


async def test_one_that_is_asked_to_end_may_say_goodbye(worker: Typed, box: Box) -> None:
    await stopped(worker, box, "trap 'echo bye > checkpoint; exit 0' TERM; touch begun; while true; do sleep 0.1; done")
    assert await worker.object("checkpoints/000001") == b"bye\n"


async def test_one_that_does_not_end_in_time_is_gone(worker: Typed, box: Box) -> None:
    outcome = await worker.run(**box.where, command=["sleep", "99"], timeout_s=0.05)
    assert outcome.failure is not None
    assert outcome.failure.reason == "timeout"


ELSEWHERE: dict[str, tuple[dict[str, Any], str]] = {
    "an image": (
        {"image": "alpine"},
        "images need podman or docker, and this worker has none of them (docker: no daemon)",
    ),
    "no such root": ({"root": "large", "command": ["sh"]}, "no root folder 'large'"),
    "a way out": ({"root": "small/../..", "command": ["sh"]}, "no root folder"),
    "the folder of roots": ({"root": ".", "command": ["sh"]}, "no root folder"),
    "a file": ({"root": "small/bin/busybox", "command": ["sh"]}, "no root folder"),
}


NOT_STARTED = Bundles("runc", "runc", Path("/nowhere"))


@pytest.mark.parametrize(("arguments", "problem"), ELSEWHERE.values(), ids=ELSEWHERE.keys())
async def test_what_this_worker_does_not_have_may_be_elsewhere(
    roots: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], problem: str
) -> None:
    async with working_with(NOT_STARTED, roots, monkeypatch) as worker:
        outcome = await worker.run(**arguments)
    assert outcome.failure is not None
    assert problem in outcome.failure.message
    assert outcome.retry


async def test_a_link_to_outside_is_no_root_folder(roots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots.joinpath("link").symlink_to("/")
    try:
        async with working_with(NOT_STARTED, roots, monkeypatch) as worker:
            outcome = await worker.run(root="link", command=["sh"])
    finally:
        roots.joinpath("link").unlink()
    assert outcome.failure is not None
    assert "no root folder" in outcome.failure.message


async def test_an_image_that_is_not_here_is_not_fetched(
    podman: Box, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working_with(podman.runtime, roots, monkeypatch) as worker:
        outcome = await worker.run(image="localhost/nowhere:1", secrets={"TOKEN": "s3cret-s3cret"})
    assert outcome.failure is not None
    assert outcome.failure.message == (
        "this worker has no image 'localhost/nowhere:1', and its owner does not let it fetch any: "
        "get it there with `podman pull`, or set MAINSPRING_CONTAINER_PULL=missing"
    )
    assert outcome.retry
    assert left(podman) == []


async def test_what_an_image_says_itself(image: Box, roots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own program, of which a command is the arguments; where its programs are; but not where it writes."""
    changes = ['ENTRYPOINT ["sh", "-c"]', 'CMD ["echo own"]', "ENV PATH=/opt", "VOLUME /data"]
    folder = make_root(roots / "special")
    folder.joinpath("opt").mkdir()
    folder.joinpath("opt/sh").symlink_to("/bin/sh")
    make_image(engine(image), folder, *changes, name="localhost/special:1")
    async with working_with(image.runtime, roots, monkeypatch) as worker:
        assert (await worker.result(image="localhost/special:1"))["stdout"] == "own\n"
    async with working_with(image.runtime, roots, monkeypatch) as worker:
        tried = ["echo $PATH; echo > /data/x || echo no"]
        assert (await worker.result(image="localhost/special:1", command=tried))["stdout"] == "/opt\nno\n"


KILLED = """
import asyncio, sys
from pathlib import Path
from mainspring.execute.containers.bundle import Bundles
from mainspring.execute.containers.engines import Engine
from mainspring.execute.containers.leftovers import name_for
from mainspring.execute.containers.plan import Plan
from mainspring.execute.containers.run import started
from mainspring.execute.sandbox.users import Users

async def main(kind, program, place, root, image, script):
    name = name_for("job", 1)
    runtime = Bundles(kind, program, Path(place)) if kind == "runc" else Engine(kind, program, pull=False)
    plan = Plan(
        name=name, image=image or None, root=None if image else Path(root), command=["sh", "-c", script],
        env={"PATH": "/bin"}, secrets={"TOKEN": "s3cret-s3cret"}, uid=Users().take() or 1000,
    )
    async with started(runtime, plan, {}) as container:
        async def tell(stream, data): print(name, flush=True)
        await container.finish(tell)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def killed(box: Box, roots: Path, marker: str) -> Iterator["subprocess.Popen[str]"]:
    """A worker that has a container running, and shall be killed."""
    apart = f"setsid sh -c 'trap \"\" TERM HUP; : > ready; while :; do sleep 1; done' {marker} >/dev/null 2>&1"
    script = f"({apart} &); until [ -e ready ]; do sleep 0.02; done; echo begun; sleep 99"
    given = [box.runtime.name, box.runtime.program, box.place, roots / "small", box.where.get("image", ""), script]
    worker = subprocess.Popen([sys.executable, "-c", KILLED, *map(str, given)], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    worker.stdout.readline()
    yield worker
    worker.kill()
    worker.wait()
    worker.stdout.close()


def test_a_killed_worker_takes_its_containers_along(box: Box, killed: "subprocess.Popen[str]", marker: str) -> None:
    (name,) = names(box.runtime)
    sweep(box.runtime)
    assert names(box.runtime) == [name]  # its worker lives
    killed.kill()
    killed.wait()
    deadline = time.monotonic() + 10
    while (alive(marker) or names(box.runtime)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(marker)
    sweep(box.runtime)  # of the secret
    assert left(box) == []


def children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text().split()]


def test_what_outlives_its_worker_is_removed_by_the_next(
    box: Box, killed: "subprocess.Popen[str]", marker: str
) -> None:
    """As when a service manager kills all of its processes: the container is in another cgroup."""
    (name,) = names(box.runtime)
    (host,) = children(killed.pid)
    (keeper,) = children(host)
    for pid in (host, keeper):
        os.kill(pid, signal.SIGSTOP)
    killed.kill()
    killed.wait()
    for pid in (keeper, host):
        os.kill(pid, signal.SIGKILL)
    assert is_left(name)
    assert alive(marker)
    sweep(box.runtime)
    assert not alive(marker)
    assert left(box) == []
