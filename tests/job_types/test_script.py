"""The type `script`: arguments, verdicts, files, limits, its checkpoint, and where it may run."""

import asyncio
import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from execute.typed import JOB, Typed, typed

from job_types.programs import order, python, run, shell, until
from mainspring.core.job import Options
from mainspring.core.lifecycle import Reason
from mainspring.core.objects import checkpoint
from mainspring.errors import InvalidError
from mainspring.execute.sandbox.ability import Ability, ability, describe, missing
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.sandbox.warm import READY, Warmed, _suits, warmed
from mainspring.execute.types.script import TYPE
from mainspring.wire import Assignment, OutcomeType


@pytest.fixture
async def scripts() -> AsyncIterator[Typed]:
    async with typed(TYPE) as made:
        yield made


# Verdicts


@pytest.mark.usefixtures("sandbox")
async def test_a_program_that_exits_with_0_completes(scripts: Typed) -> None:
    result = await scripts.result(command=["sh", "-c", "echo $GREETING; cat; cat a/b"], **GIVEN)
    assert result == {"exit_code": 0, "stdout": "hello\ninput\nfile\n", "isolation": "sandbox"}


GIVEN: dict[str, Any] = {"env": {"GREETING": "hello"}, "stdin": "input\n", "files": {"a/b": "file\n"}}


async def test_any_other_exit_code_fails_and_is_tried_again(scripts: Typed) -> None:
    outcome = await scripts.run(command=["sh", "-c", "echo working; echo out of paper >&2; exit 3"])
    assert outcome.failure is not None
    assert (outcome.type, outcome.failure.reason, outcome.retry) == (OutcomeType.FAILED, Reason.ERROR, True)
    assert outcome.failure.message == "exit code 3; at the end it said:\nout of paper"


async def test_only_the_end_of_what_it_said_is_shown(scripts: Typed) -> None:
    outcome = await scripts.run(command=["sh", "-c", "seq 100000 >&2; exit 1"])
    assert outcome.failure is not None
    assert len(outcome.failure.message) < 2000
    assert outcome.failure.message.endswith("\n100000")


async def test_a_program_that_is_not_there_is_named(scripts: Typed) -> None:
    outcome = await scripts.run(command=["no-such-program"])
    assert outcome.failure is not None
    assert "exit code 127" in outcome.failure.message
    assert "no-such-program" in outcome.failure.message


async def test_a_signal_is_named_and_the_reason_is_killed(scripts: Typed) -> None:
    outcome = await scripts.run(command=["sh", "-c", "kill -SEGV $$"])
    assert outcome.failure is not None
    assert outcome.failure.reason == Reason.KILLED
    assert outcome.failure.message.startswith("killed: SIGSEGV")


async def test_a_limit_is_named(scripts: Typed) -> None:
    outcome = await scripts.run(
        command=["sh", "-c", "head -c 30000000 /dev/zero > big; sleep 60"], limits=Limits(disk_mb=8)
    )
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.failure.message) == (Reason.KILLED, "killed: disk limit of 8 MB")


async def test_a_timeout_lets_it_say_goodbye(scripts: Typed) -> None:
    outcome = await scripts.run(
        timeout_s=0.5, command=["sh", "-c", "trap 'echo bye; exit 0' TERM; while :; do sleep 0.01; done"]
    )
    assert outcome.failure is not None
    assert outcome.failure.reason == Reason.TIMEOUT
    assert b"bye" in await logged(scripts)


async def test_what_it_used_is_measured(scripts: Typed) -> None:
    code = "import time\nwhile time.process_time() < 0.2: pass\nopen('x', 'wb').write(bytes(10))"
    outcome = await scripts.run(command=["python3", "-c", code])
    assert outcome.failure is None
    assert outcome.usage is not None
    assert 0.2 <= outcome.usage.cpu_s < 2


# What it is given, and what it leaves


async def logged(scripts: Typed) -> bytes:
    found = await scripts.link.objects.find(JOB, "logs/")
    return b"".join([await scripts.object(each.name) for each in found])


async def test_secrets_are_its_environment_and_nobody_elses(scripts: Typed) -> None:
    secret = "correct-horse-battery"
    outcome = await scripts.run({"TOKEN": secret}, command=["sh", "-c", 'echo "$TOKEN" | rev; echo "$TOKEN"; exit 1'])
    assert outcome.failure is not None
    log = await logged(scripts)
    assert secret[::-1].encode() in log
    assert secret.encode() not in log


async def test_a_secret_in_the_result_is_masked(scripts: Typed) -> None:
    outcome = await scripts.run({"TOKEN": "correct-horse-battery"}, command=["sh", "-c", 'echo "is $TOKEN"'])
    assert msgspec.json.decode(outcome.result or b"")["stdout"] == "is ***\n"


@pytest.mark.parametrize("behind", [16_384 - 10, 16_384, 16_384 + 60])
async def test_no_part_of_a_secret_is_left_where_the_result_begins(scripts: Typed, behind: int) -> None:
    script = f'printf %20000s; printf %s "$TOKEN"; printf %{behind}s end; '
    outcome = await scripts.run({"TOKEN": "correct-horse-battery"}, command=["sh", "-c", script])
    stdout = msgspec.json.decode(outcome.result or b"")["stdout"]
    assert len(stdout) > 16_000
    assert stdout.strip(" *") == "end"


@pytest.mark.parametrize("behind", [1490, 1500])
async def test_no_part_of_a_secret_is_left_where_the_failure_begins(scripts: Typed, behind: int) -> None:
    script = f'(head -c 5000 /dev/zero | tr "\\0" "*"; printf %s "$TOKEN"; printf %{behind}s end) >&2; exit 1'
    outcome = await scripts.run({"TOKEN": "correct-horse-battery"}, command=["sh", "-c", script])
    assert outcome.failure is not None
    assert outcome.failure.message.partition("…")[2].strip(" *") == "end"


async def test_outputs_are_stored_by_their_names(scripts: Typed) -> None:
    script = "mkdir -p a/b; echo 1 > a/b/one.csv; echo 2 > two.csv; echo 3 > three.txt"
    outcome = await scripts.run(command=["sh", "-c", script], outputs=["**/*.csv", "three.*"])
    assert outcome.failure is None, outcome.failure
    assert [(each.name, each.size) for each in outcome.outputs] == [
        ("a/b/one.csv", 2),
        ("two.csv", 2),
        ("three.txt", 2),
    ]


async def test_an_output_that_is_missing_fails_the_job(scripts: Typed, folder: Path) -> None:
    assert "left no file 'x.csv'" in await scripts.failure(command=["true"], outputs=["x.csv"])
    folder.joinpath("secret").write_text("secret")
    told = await scripts.failure(command=["ln", "-s", f"{folder}/secret", "x.csv"], outputs=["x.csv"])
    assert "left no file 'x.csv'" in told


async def test_a_checkpoint_is_there_again(scripts: Typed) -> None:
    script = 'read n < "$MAINSPRING_CHECKPOINT"; echo $((n + 1)) > "$MAINSPRING_CHECKPOINT"; test $n -ge 1'
    first = await scripts.run(command=["sh", "-c", script])
    assert first.failure is not None
    assert await scripts.object(checkpoint(1)) == b"1\n"
    data = json.dumps({"command": ["sh", "-c", script]}).encode()
    scripts.link.assign(Assignment(JOB, 2, "default", "default", "script", data, Options()))
    second = await scripts.link.outcome(JOB)
    assert second.failure is None, second.failure
    assert await scripts.object(checkpoint(2)) == b"2\n"


async def test_a_checkpoint_is_kept_while_it_runs_and_when_it_is_stopped(
    scripts: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.execute.types.files._EVERY_S", 0.01)
    save = "save() { echo $1 > new; mv new $MAINSPRING_CHECKPOINT; }; "
    waits = save + "trap 'save two; exit 1' TERM; save one; while :; do sleep 0.01; done"
    scripts.submit(command=["sh", "-c", waits])

    async def is_saved() -> bool:
        return bool(await scripts.link.objects.find(JOB, "checkpoints/"))

    await until(is_saved)
    assert await scripts.object(checkpoint(1)) == b"one\n"
    scripts.link.cancel(JOB)
    assert (await scripts.link.outcome(JOB)).type is OutcomeType.CANCELLED
    assert await scripts.object(checkpoint(1)) == b"two\n"


@pytest.mark.usefixtures("host_here")
async def test_nothing_of_it_stays_on_the_disk(
    scripts: Typed, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(open_folder))
    script = "mkdir a; touch a/b; chmod 000 a; mkdir -p $(printf 'd/%.0s' $(seq 1100)) && echo made"
    assert (await scripts.result(command=["sh", "-c", script]))["stdout"] == "made\n"
    assert os.listdir(open_folder) == []


# Arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": []}, "arguments.command: names no program"),
        ({"command": ["a\0b"]}, "arguments.command: holds a NUL"),
        ({"command": ["a"], "env": {"A=B": "c"}}, "'A=B' is no name"),
        ({"command": ["a"], "env": {"AWS_SECRET_ACCESS_KEY\nX": "1"}}, "is no name for a variable of a job"),
        ({"command": ["a"], "env": {"1A": "1"}}, "'1A' is no name for a variable of a job"),
        ({"command": ["a"], "env": {"": "1"}}, "'' is no name for a variable of a job"),
        ({"command": ["a"], "env": {"MAINSPRING_CHECKPOINT": "c"}}, "is no name for a variable of a job"),
        ({"command": ["a"], "files": {"../x": ""}}, "'../x' is no name of a file"),
        ({"command": ["a"], "files": {"/etc/x": ""}}, "'/etc/x' is no name of a file"),
        ({"command": ["a"], "files": {"x": "", "x/y": ""}}, "arguments.files: 'x' cannot be a file and a folder"),
        ({"command": ["a"], "files": {"x/y/z": "", "x": ""}}, "arguments.files: 'x' cannot be a file and a folder"),
        (
            {"command": ["a"], "files": {"checkpoint/x": ""}},
            "arguments.files: 'checkpoint' cannot be a file and a folder",
        ),
        ({"command": ["a"], "outputs": ["../*"]}, "'../*' is no name of a file"),
        ({"command": ["a"], "limits": {"memory_mb": 0}}, "memory_mb"),
        ({"command": ["a"], "limits": {"memory": 1}}, "memory"),
        ({"command": ["a"], "isolation": "none"}, "isolation"),
        ({"command": "ls -l"}, "command"),
    ],
)
async def test_what_cannot_be_run_is_refused_at_submit(scripts: Typed, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidError, match=re.escape(said)):
        await scripts.run(**arguments)


# Where it may run


def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ability()
    less = Ability(None, "there is no bubblewrap", found.tree, found.users)
    for place in ("sandbox.ability", "types.script"):
        monkeypatch.setattr(f"mainspring.execute.{place}.ability", lambda: less)


async def test_without_a_sandbox_it_runs_bare_unless_one_is_required(
    scripts: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_bubblewrap(monkeypatch)
    result = await scripts.result(command=["sh", "-c", "env | sort; pwd"], env={"A": "1"})
    assert result["isolation"] == "bare"
    lines = result["stdout"].splitlines()
    names = {line.partition("=")[0] for line in lines[:-1]}
    assert names <= {
        "A",
        "HOME",
        "LANG",
        "MAINSPRING_CHECKPOINT",
        "MAINSPRING_MARK",
        "PATH",
        "PWD",
        "TERM",
        "TMPDIR",
        "_",
        "SHLVL",
        "OLDPWD",
    }
    assert f"HOME={lines[-1]}" in lines
    assert "no sandbox on this machine" in await scripts.failure(command=["true"], isolation="required")
    assert missing() is None
    assert "not sandboxed: there is no bubblewrap" in describe()


async def test_the_policy_of_the_worker(scripts: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_ISOLATION", "off")
    assert (await scripts.result(command=["true"]))["isolation"] == "bare"
    assert "MAINSPRING_ISOLATION=off" in await scripts.failure(command=["true"], isolation="required")
    assert "MAINSPRING_ISOLATION=off" in describe()
    monkeypatch.setenv("MAINSPRING_ISOLATION", "required")
    without_bubblewrap(monkeypatch)
    assert "no sandbox on this machine" in await scripts.failure(command=["true"])
    assert "no sandbox on this machine" in (missing() or "")
    monkeypatch.setenv("MAINSPRING_ISOLATION", "strict")
    assert "'strict' is none of auto, required, off" in (missing() or "")


async def test_the_owner_of_a_worker_has_the_last_word(scripts: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    told = await scripts.failure(command=["true"], network=True)
    assert "MAINSPRING_SCRIPT_NETWORK=allow" in told
    monkeypatch.setenv("MAINSPRING_SCRIPT_NETWORK", "allow")
    assert (await scripts.result(command=["true"], network=True))["exit_code"] == 0
    monkeypatch.setenv("MAINSPRING_MAX_LIMITS", "file_mb=1")
    outcome = await scripts.run(command=["true"], limits=Limits(file_mb=2))
    assert outcome.failure is not None
    assert outcome.failure.message == (
        "limits.file_mb: the job asks for 2, and its worker allows 1 (MAINSPRING_MAX_LIMITS)"
    )
    assert not outcome.retry
    outcome = await scripts.run(command=["sh", "-c", "exec head -c 3000000 /dev/zero > big"])
    assert outcome.failure is not None
    assert "limit of 1 MB for one file" in outcome.failure.message
    assert TYPE.about is not None
    assert "file_mb=1" in TYPE.about()
    monkeypatch.setenv("MAINSPRING_MAX_LIMITS", "much")
    assert "MAINSPRING_MAX_LIMITS" in (TYPE.missing() or "")


async def test_a_bare_program_has_its_limits_and_a_user_of_its_own() -> None:
    told = await shell("id -u; ulimit -c; cat /proc/self/status | grep NoNewPrivs", bare=True)
    assert "NoNewPrivs:\t1" in told.stdout
    if os.geteuid() == 0:
        assert told.stdout.split()[0] != "0"
    hungry = "import os\nheld = [bytearray(os.urandom(1) * 1_000_000) for _ in range(10_000)]"
    for counted in (True, False):
        told = await python(hungry, bare=True, counted=counted, limits=Limits(memory_mb=64))
        assert told.killed == "memory limit of 64 MB" or "MemoryError" in told.stderr


@pytest.mark.usefixtures("sandbox")
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as such a user already")
def test_a_worker_that_is_not_root_can_do_it_too(folder: Path) -> None:
    code = """
import asyncio
from job_types.programs import python, shell
async def main():
    for bare in (False, True):
        told = await shell("id -u; cat x", files={"x": b"content"}, bare=bare)
        print(told.code, told.stdout.split())
    told = await python("import os\\nfor _ in range(50): os.fork() or os._exit(0)", limits=None)
    print(told.code)
asyncio.run(main())
"""
    tests = Path(__file__).parents[1]
    folder.chmod(0o777)
    packages = [str(tests.parent / "src"), str(tests), *(path for path in sys.path if "site-packages" in path)]
    env = {
        "PYTHONPATH": ":".join(packages),
        "PATH": os.environ["PATH"],
        "TMPDIR": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    interpreter = Path("/usr/bin") / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not interpreter.exists():
        pytest.skip("other users cannot run this Python")
    command = ["setpriv", "--reuid", "60000", "--regid", "60000", "--clear-groups", str(interpreter), "-c", code]
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.splitlines() == ["0 ['1000', 'content']", "0 ['60000', 'content']", "0"], done.stderr


# Python that waits


@pytest.mark.usefixtures("sandbox", "host_here")
async def test_a_warm_python_is_as_a_cold_one() -> None:
    """The same program in both: arguments, paths, environment, limits, tracebacks, exit codes."""
    show = """
import os, resource, sys
print(sys.argv, sys.path[0], __name__, os.getcwd(), sorted(os.environ.items()), os.listdir(), sys.stdin.read())
print([resource.getrlimit(number) for number in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_CPU)])
print(os.listdir("/proc/self/fd"), os.getpid() > 1)
"""
    files = {"show.py": show.encode(), "deep/show.py": show.encode(), "bad.py": b"def f():\n    1 / 0\nf()\n"}
    for rest in (
        ["show.py", "a", "-b"],
        ["deep/show.py"],
        ["-c", show, "x", "y"],
        ["-m", "show", "z"],
        ["bad.py"],
        ["no.py"],
        ["-c", "import sys; sys.exit(5)"],
        ["-c", "import os; os.kill(os.getpid(), 11)"],
        ["-c", "1 +"],
    ):
        options: dict[str, Any] = {"files": files, "stdin": b"in", "env": {"A": "1"}, "limits": Limits(cpu_s=7.0)}
        cold = await run(["/usr/bin/python3", *rest], **options)
        warm = await warm_run(["python3", *rest], **options)
        assert (warm.code, warm.stdout) == (cold.code, cold.stdout), rest
        assert python_said(warm.stderr) == python_said(cold.stderr), rest


def python_said(text: str) -> str:
    """Without its own frames, and without what the shell says that started it."""
    return "\n".join(line for line in text.splitlines() if "frozen runpy" not in line and line != "Segmentation fault")


async def one_is_ready() -> bool:
    return any(warm.is_ready() for warm in warmed()._waiting)


async def warm_run(command: list[str], **options: Any) -> Any:
    await asyncio.to_thread(warmed().refill, order(command))
    await until(one_is_ready)
    waiting = list(warmed()._waiting)
    told = await run(command, **options)
    assert len(set(waiting) - set(warmed()._waiting)) == 1, "it did not take one that waits"
    return told


@pytest.mark.usefixtures("sandbox", "host_here")
async def test_a_warm_python_has_the_limits_of_its_program() -> None:
    hungry = "import os\nheld = [bytearray(os.urandom(1) * 1_000_000) for _ in range(10_000)]"
    told = await warm_run(["python3", "-c", hungry], limits=Limits(memory_mb=32))
    assert told.killed == "memory limit of 32 MB" or "MemoryError" in told.stderr
    told = await warm_run(["python3", "-c", "print(len(bytearray(700_000_000)))"], limits=Limits(memory_mb=1024))
    assert told.stdout == "700000000\n", told


@pytest.mark.usefixtures("sandbox", "host_here")
async def test_one_that_has_died_is_no_loss() -> None:
    await asyncio.to_thread(warmed().refill, order(["python3", "-c", ""]))
    for warm in list(warmed()._waiting):
        os.kill(warm.inner, 9)
        await asyncio.to_thread(os.waitid, os.P_PID, warm.first.pid, os.WEXITED | os.WNOWAIT)
    dead = set(warmed()._waiting)
    told = await run(["python3", "-c", "print('done')"])
    assert (told.code, told.stdout) == (0, "done\n")
    assert not dead & set(warmed()._waiting), "they keep the place of others"
    assert not any(warm.folder.root.exists() for warm in dead)


@pytest.mark.usefixtures("sandbox")
async def test_one_that_cannot_be_started_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    like = order(["python3", "-c", ""])
    made = Warmed()
    with monkeypatch.context() as full:
        full.setattr("tempfile.tempdir", str(folder))
        full.setattr("socket.socketpair", no_more_files)
        await asyncio.to_thread(made.refill, like)
        assert (made._waiting, os.listdir(folder)) == ([], [])
    await asyncio.to_thread(made.refill, like)
    assert len(made._waiting) == READY, "that was then"
    await asyncio.to_thread(made.clear)


def no_more_files(*_: object) -> Any:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize(
    "given",
    [
        {"command": ["python3", "-O", "x.py"]},
        {"command": ["python3"]},
        {"command": ["python3", "folder"]},
        {"command": ["python3", "-c", ""], "env": {"PYTHONHASHSEED": "1"}},
        {"command": ["python3", "-c", ""], "env": {"PATH": "/elsewhere"}},
        {"command": ["python3", "-c", ""], "env": {"TZ": "Asia/Tokyo"}},
        {"command": ["python3", "-c", ""], "env": {"MALLOC_ARENA_MAX": "1"}},
        {"command": ["python3", "-c", ""], "env": {"GLIBC_TUNABLES": ""}},
        {"command": ["python3", "-c", ""], "network": True},
        {"command": ["python3", "-c", ""], "bare": True},
        {"command": ["bash", "-c", ""]},
    ],
)
def test_what_would_start_otherwise_starts_cold(given: dict[str, Any]) -> None:
    assert not _suits(order(**given))


@pytest.fixture(autouse=True, scope="module")
def cleared() -> Any:
    yield
    warmed().clear()


# Trying out


@pytest.mark.usefixtures("sandbox")
def test_a_bubblewrap_that_does_not_work_is_passed_over(monkeypatch: pytest.MonkeyPatch, open_folder: Path) -> None:
    broken = open_folder / "bwrap"
    broken.write_text("#!/bin/sh\necho bwrap: Unknown option --size >&2; exit 1\n")
    broken.chmod(0o755)
    works = ability().binary
    assert works is not None
    monkeypatch.setattr("mainspring.execute.sandbox.ability.find_binaries", lambda: [str(broken), works])
    assert ability.__wrapped__().binary == works
    monkeypatch.setattr("mainspring.execute.sandbox.ability.find_binaries", lambda: [str(broken)])
    told = ability.__wrapped__()
    assert (told.binary, told.why_not) == (None, "bubblewrap does not work: bwrap: Unknown option --size")
    monkeypatch.setattr("mainspring.execute.sandbox.ability.find_binaries", list)
    assert "there is no bubblewrap: install" in (ability.__wrapped__().why_not or "")


@pytest.mark.parametrize("end", ["sooner", "later"])
@pytest.mark.usefixtures("sandbox")
def test_what_bubblewrap_says_is_passed_on_however_far_it_got(
    end: str, monkeypatch: pytest.MonkeyPatch, open_folder: Path
) -> None:
    """As where /proc may not be mounted: it has told the number of its process by then."""
    broken = open_folder / "bwrap"
    broken.write_text(FAILING[end])
    broken.chmod(0o755)
    monkeypatch.setattr("mainspring.execute.sandbox.ability.find_binaries", lambda: [str(broken)])
    assert ability.__wrapped__().why_not == "bubblewrap does not work: bwrap: Can't mount proc"


_TELLING = """#!/usr/bin/python3
import os, sys
info, block = (int(sys.argv[sys.argv.index(name) + 1]) for name in ("--info-fd", "--block-fd"))
os.write(info, b'{"child-pid": %d}' % os.getpid())
"""
FAILING = {  # before it is told to begin, or then
    "sooner": _TELLING + 'os.write(2, b"bwrap: Can\'t mount proc"); os.close(block); os.close(info); sys.exit(1)',
    "later": _TELLING + 'os.close(info); sys.exit("bwrap: Can\'t mount proc")',
}
