"""Containers for real: runc and a root folder. What the other runtimes are told is in unit/execute/test_containers."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from execute.typed import JOB, Typed, typed

from conftest import absent
from job_types.runtimes import NoRuntimeError, find_runc, make_root
from mainspring.core.job import Options
from mainspring.core.objects import Found
from mainspring.execute.containers.ability import Ability, problem_of, sweep
from mainspring.execute.containers.bundle import Bundles
from mainspring.execute.containers.leftovers import is_left
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.types import container
from mainspring.execute.types.container import TYPE
from mainspring.wire import Assignment, Outcome, OutcomeType


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
def runc(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    place = tmp_path_factory.mktemp("runc") / "state"
    place.mkdir()
    try:
        found = find_runc(place)
    except NoRuntimeError as error:
        absent(str(error))
    if why := problem_of(found):
        absent(f"runc does not work here: {why}")
    return found


@pytest.fixture
def policy(runc: Bundles, roots: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker that has runc and root folders, and is left with no container."""
    monkeypatch.setenv("MAINSPRING_CONTAINER_ROOTS", str(roots))
    monkeypatch.setattr(container, "ability", lambda: Ability(None, runc, ["docker: no daemon"]))
    yield
    assert os.listdir(runc.place) == []


@pytest.fixture
async def worker(policy: None) -> AsyncIterator[Typed]:
    async with typed(TYPE) as made:
        yield made


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


async def test_a_program_runs_in_a_root_folder(worker: Typed) -> None:
    result = await worker.result(
        root="small",
        command=shell("pwd; cat in/a.txt; echo $WORD"),
        env={"WORD": "up\nto"},
        files={"in/a.txt": "hello "},
    )
    assert result == {"exit_code": 0, "stdout": "/work\nhello up to\n", "runtime": "runc"}


async def test_it_is_nobody_and_can_write_nowhere_else(worker: Typed) -> None:
    script = "id -u; touch /x /bin/x; touch /tmp/y /work/z && echo both; cat /proc/self/status"
    result = await worker.result(root="small", command=shell(script))
    uid, both, *_ = result["stdout"].split()
    assert (uid == "0", both) == (os.geteuid() != 0, "both")  # without root, the worker's own user is called so inside
    for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in result["stdout"].splitlines()
    assert (await log(worker)).count(b"Read-only file system") == 2


async def test_it_has_a_network_of_its_own_unless_it_asks(worker: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_SCRIPT_NETWORK", "allow")
    count = shell("cat /proc/net/dev")
    alone = await worker.result(root="small", command=count)
    assert [line.split(":")[0].strip() for line in alone["stdout"].splitlines()[2:]] == ["lo"]
    here = await worker.result(root="small", command=count, network=True)
    names = {line.split(":")[0].strip() for line in here["stdout"].splitlines()[2:]}
    assert names == {name for _, name in socket.if_nameindex()}


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


async def test_secrets_are_its_environment_and_are_masked(worker: Typed) -> None:
    outcome = await worker.run(root="small", command=shell("echo it is $TOKEN"), secrets={"TOKEN": "s3cret-s3cret"})
    assert b"s3cret" not in (outcome.result or b"") + await log(worker)
    assert b"it is" in await log(worker)


async def test_files_that_it_leaves_are_outputs(worker: Typed) -> None:
    outcome = await worker.run(
        root="small", command=shell("mkdir d; echo 1 > d/a.csv; echo 2 > b.txt"), outputs=["**/*.csv"]
    )
    assert outcome.failure is None
    assert [output.name for output in outcome.outputs] == ["d/a.csv"]


async def test_the_verdict_is_its_exit_code(worker: Typed) -> None:
    outcome = await worker.run(root="small", command=shell("echo why >&2; exit 3"))
    assert outcome.failure is not None
    assert outcome.failure.message == "exit code 3; at the end it said:\nwhy"
    assert outcome.retry
    assert outcome.usage is not None
    assert outcome.usage.cpu_s


LIMITS = {
    "memory": (shell("dd if=/dev/zero of=/dev/null bs=200M count=1"), {"memory_mb": 32}, "memory limit of 32 MB"),
    "processes": (shell("for i in 1 2 3 4 5 6 7 8; do sleep 9 & done"), {"processes": 4}, "can't fork"),
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
    worker: Typed, command: list[str], limits: dict[str, float], problem: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs a cgroup")
    outcome = await worker.run(root="small", command=command, limits=limits)
    assert outcome.failure is not None
    assert problem in outcome.failure.message


async def stopped(worker: Typed, script: str) -> Outcome:
    """Of a program that is asked to end when it has begun."""
    job = worker.submit(root="small", command=shell(script))
    deadline = time.monotonic() + 20
    while not has_begun():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    worker.link.cancel(job)
    return await worker.link.outcome(job)


def has_begun() -> bool:
    return any(Path(tempfile.gettempdir()).glob(f"mainspring-job-{os.getpid()}-*/work/begun"))


async def test_one_that_must_end_is_gone(worker: Typed) -> None:
    """Also if it does not want to; `policy` looks for what is left."""
    outcome = await stopped(worker, "trap '' TERM; touch begun; sleep 99 & wait; sleep 99")
    assert outcome.type is OutcomeType.CANCELLED


async def test_one_that_is_asked_to_end_may_say_goodbye(worker: Typed) -> None:
    await stopped(worker, "trap 'echo bye > checkpoint; exit 0' TERM; touch begun; while true; do sleep 0.1; done")
    assert await worker.object("checkpoints/000001") == b"bye\n"


async def test_one_that_does_not_end_in_time_is_gone(worker: Typed) -> None:
    outcome = await worker.run(root="small", command=["sleep", "99"], timeout_s=0.05)
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


@pytest.mark.parametrize(("arguments", "problem"), ELSEWHERE.values(), ids=ELSEWHERE.keys())
async def test_what_this_worker_does_not_have_may_be_elsewhere(
    worker: Typed, arguments: dict[str, Any], problem: str
) -> None:
    outcome = await worker.run(**arguments)
    assert outcome.failure is not None
    assert problem in outcome.failure.message
    assert outcome.retry


async def test_a_link_to_outside_is_no_root_folder(worker: Typed, roots: Path) -> None:
    roots.joinpath("link").symlink_to("/")
    try:
        outcome = await worker.run(root="link", command=["sh"])
    finally:
        roots.joinpath("link").unlink()
    assert outcome.failure is not None
    assert "no root folder" in outcome.failure.message


KILLED = """
import asyncio, sys
from pathlib import Path
from typing import Any
from mainspring.execute.containers.bundle import Bundles
from mainspring.execute.containers.leftovers import name_for
from mainspring.execute.containers.plan import Plan
from mainspring.execute.containers.run import started
from mainspring.execute.sandbox.users import Users

async def main(program, place, root):
    name = name_for("job", 1)
    command = ["sh", "-c", "echo begun; sleep 99"]
    plan = Plan(name=name, root=Path(root), command=command, env={"PATH": "/bin"}, uid=Users().take() or 1000)
    async with started(Bundles("runc", program, Path(place)), plan, {}) as container:
        async def tell(stream, data): print(name, flush=True)
        await container.finish(tell)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_killed_worker_takes_its_containers_along_and_the_next_one_cleans_up(runc: Bundles, roots: Path) -> None:
    command = [sys.executable, "-c", KILLED, runc.program, str(runc.place), str(roots / "small")]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    name = worker.stdout.readline().strip()
    assert os.listdir(runc.place) == [name]
    sweep(runc)
    assert os.listdir(runc.place) == [name]  # its worker lives
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert is_left(name)
    deadline = time.monotonic() + 10
    while status(runc, name) == "running" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert status(runc, name) == "stopped"
    sweep(runc)
    assert os.listdir(runc.place) == []


def status(runc: Bundles, name: str) -> str:
    asked = subprocess.run([runc.program, "--root", str(runc.place), "state", name], capture_output=True, check=True)
    return str(json.loads(asked.stdout)["status"])
