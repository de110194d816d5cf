"""What podman, docker, crun and runc are told, and whose a container is. They run for real in tests/job_types."""

import os
import stat
from pathlib import Path

import pytest
from msgspec import json, structs

from mainspring.errors import InvalidError, MainspringError
from mainspring.execute.containers.ability import Ability, may_pull, problem_of, sweep
from mainspring.execute.containers.bundle import Bundles, description
from mainspring.execute.containers.clients import environment
from mainspring.execute.containers.engines import Engine
from mainspring.execute.containers.leftovers import is_left, name_for, place, shortened
from mainspring.execute.containers.plan import Plan
from mainspring.execute.containers.run import _remove as remove
from mainspring.execute.sandbox.folder import Folder
from mainspring.execute.sandbox.launch import LaunchError
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.types.catalogue import type_kind
from mainspring.execute.types.container import TYPE

PLAN = Plan(
    name="mainspring-x",
    image="alpine:3",
    command=["echo", "--privileged"],
    env={"WORD": "hello"},
    secrets={"TOKEN": "s3cret"},
    limits=Limits(memory_mb=64, processes=7, file_mb=1, cpu_s=3),
    uid=60_900,
)
ROOT = structs.replace(PLAN, image=None, root=Path("/roots/small"))


@pytest.fixture
def home(folder: Path) -> Folder:
    made = Folder(folder)
    made.make(None)
    return made


def docker(pull: bool = False) -> Engine:
    return Engine("docker", "/usr/bin/docker", pull=pull)


def test_the_command_line_of_docker(home: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    line = " ".join(docker().start(PLAN, home))
    assert line == (
        f"/usr/bin/docker run --rm --name mainspring-x --hostname job --env-file {home.etc}/env --read-only "
        f"--volume {home.work}:/work:Z --volume {home.tmp}:/tmp:Z --workdir /work --user 60900:60900 --cap-drop ALL "
        "--security-opt no-new-privileges --stop-timeout 0 --network none --log-driver none --memory 64m "
        "--memory-swap 64m --pids-limit 7 --cpu-shares 205 --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --ulimit core=0:0 "
        "--ulimit fsize=1048576:1048576 --ulimit cpu=4:4 --pull never alpine:3 echo --privileged"
    )


def test_secrets_are_in_a_file_that_only_the_worker_reads(home: Folder) -> None:
    assert not [word for word in docker().start(PLAN, home) if "s3cret" in word]
    file = home.etc / "env"
    assert file.read_text() == "WORD=hello\nTOKEN=s3cret\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    config = Bundles("runc", "runc", home.root)
    config.start(ROOT, home)
    assert stat.S_IMODE((home.etc / "config.json").stat().st_mode) == 0o600


def test_a_variable_of_several_lines_is_refused_where_it_would_become_two(home: Folder) -> None:
    with pytest.raises(InvalidError, match=r"env\.PEM: has several lines"):
        docker().start(structs.replace(PLAN, env={"PEM": "a\nLD_PRELOAD=b"}), home)


@pytest.mark.parametrize(("pull", "word"), [(False, "never"), (True, "missing")])
def test_images_are_fetched_only_where_that_is_allowed(home: Folder, pull: bool, word: str) -> None:
    line = docker(pull).start(PLAN, home)
    assert line[line.index("--pull") + 1] == word


def test_the_network_is_there_for_those_who_ask(home: Folder) -> None:
    line = docker().start(structs.replace(PLAN, network=True), home)
    assert "--network" not in line
    assert {"type": "network"} in description(ROOT, home, owner=0)["linux"]["namespaces"]
    assert {"type": "network"} not in description(structs.replace(ROOT, network=True), home, owner=0)["linux"][
        "namespaces"
    ]


def test_podman_runs_root_folders_too(home: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    podman = Engine("podman", "podman", pull=False)
    line = podman.start(structs.replace(ROOT, secrets={}), home)
    assert line[-4:] == ["--rootfs", "/roots/small", "echo", "--privileged"]
    assert line[line.index("--userns") + 1] == "keep-id"
    assert podman.takes == {"image", "root"}
    assert docker().takes == {"image"}
    assert podman.remove("x") == ["podman", "rm", "--force", "--volumes", "--ignore", "x"]
    assert docker().remove("x") == ["/usr/bin/docker", "rm", "--force", "--volumes", "x"]


def test_a_podman_that_takes_no_secret_is_not_started(home: Folder) -> None:
    with pytest.raises(LaunchError, match=r"it takes no secret: .*/nowhere/podman"):
        Engine("podman", "/nowhere/podman", pull=False).start(PLAN, home)
    with pytest.raises(LaunchError, match="it takes no secret: cat: secret"):
        Engine("podman", "cat", pull=False).start(PLAN, home)


def test_what_crun_and_runc_read(home: Folder) -> None:
    runtime = Bundles("crun", "crun", Path("/state"))
    assert runtime.start(ROOT, home) == ["crun", "--root", "/state", "run", "--bundle", str(home.etc), "mainspring-x"]
    assert runtime.remove("x") == ["crun", "--root", "/state", "delete", "--force", "x"]
    said = json.decode((home.etc / "config.json").read_bytes())
    assert said["root"] == {"path": "/roots/small", "readonly": True}
    assert said["process"]["user"] == {"uid": 60_900, "gid": 60_900}
    assert said["process"]["capabilities"] == {}
    assert said["process"]["noNewPrivileges"] is True


def test_root_limits_by_a_cgroup_and_others_are_alone_in_a_namespace_of_users(home: Folder) -> None:
    by_root = description(ROOT, home, owner=0)["linux"]
    assert by_root["resources"]["memory"] == {"limit": 64 * 1024 * 1024}
    assert by_root["resources"]["pids"] == {"limit": 7}
    by_other = description(ROOT, home, owner=1000)["linux"]
    assert "resources" not in by_other
    assert by_other["uidMappings"] == [{"containerID": 0, "hostID": 1000, "size": 1}]
    assert description(ROOT, home, owner=1000)["process"]["user"] == {"uid": 0, "gid": 0}


def test_a_name_says_whose_a_container_is() -> None:
    own = name_for("0190", 3)
    assert own.startswith("mainspring-")
    assert own.endswith("-0190-3")
    assert not is_left(own)
    machine = own.split("-")[1]
    assert is_left(f"mainspring-{machine}-{os.getpid()}-1-0190-3")  # the number is used again
    assert is_left(f"mainspring-{machine}-{2**22 + 1}-5-0190-3")
    assert not is_left(f"mainspring-ffffffff-{2**22 + 1}-5-0190-3")  # of another machine
    assert not is_left("somebody-elses")
    assert not is_left(f"mainspring-{machine}-x")


def test_the_name_of_a_secret_says_whose_it_is_in_64_characters() -> None:
    own = shortened(name_for("0190a1b2-0000-7000-8000-000000000007", 1_000_000))
    assert len(f"{own}-99") <= 64
    assert not is_left(own)
    assert is_left("-".join([*own.split("-")[:3], "1", *own.split("-")[4:]]))
    assert own != shortened(name_for("0190a1b2-0000-7000-8000-000000000007", 2))


def test_a_place_that_others_could_write_to_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(folder))
    made = place()
    assert place() == made
    made.chmod(0o777)
    with pytest.raises(MainspringError, match="open to others"):
        place()
    made.rmdir()
    made.symlink_to("/")
    with pytest.raises(MainspringError, match="somebody else's, or open"):
        place()


GOOD = ["alpine", "python:3.12-slim", "docker.io/library/python:3.12", "localhost:5000/team/app", "a/b_c/d__e.f-g:V1_x"]
BAD = [
    "",
    "-v",
    "A",
    "dir:/etc",
    "docker://alpine",
    "docker-archive:x",
    "a b",
    "a:",
    "a//b",
    "/a",
    "a@sha256:12",
    "a" * 600,
]


@pytest.mark.parametrize("image", [*GOOD, f"a@sha256:{'0' * 64}"])
def test_names_of_images(image: str) -> None:
    assert type_kind("container").encode((image,), {})


@pytest.mark.parametrize("image", BAD)
def test_what_is_no_name_of_an_image(image: str) -> None:
    with pytest.raises(InvalidError, match=r"arguments\.image: .* is no name of an image"):
        type_kind("container").encode((image,), {})


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "neither": ({}, r"arguments\.image: give an image, or"),
    "both": ({"image": "a", "root": "b"}, r"arguments\.image: give an image, or"),
    "no program": ({"root": "a"}, r"arguments\.command: names no program"),
    "a NUL": ({"image": "a", "command": ["a\0"]}, r"arguments\.command: holds a NUL"),
    "our variable": ({"image": "a", "env": {"MAINSPRING_KEY": "x"}}, r"arguments\.env: 'MAINSPRING_KEY' is no name"),
    "a file outside": ({"image": "a", "files": {"../x": ""}}, r"arguments\.files: '\.\./x' is no name"),
}


@pytest.mark.parametrize(("arguments", "problem"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_submitted(arguments: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidError, match=problem):
        type_kind("container").encode((), arguments)


def test_a_worker_without_a_runtime_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mainspring.execute.types.container.ability", lambda: Ability(None, None, ["docker: no daemon"])
    )
    assert TYPE.missing() == "none of podman, docker, crun and runc works here (docker: no daemon): install podman"
    monkeypatch.delenv("MAINSPRING_CONTAINER_ROOTS", raising=False)
    runc = Bundles("runc", "runc", Path("/"))
    monkeypatch.setattr("mainspring.execute.types.container.ability", lambda: Ability(None, runc, []))
    assert (TYPE.missing() or "").startswith("runc runs root folders only: set MAINSPRING_CONTAINER_ROOTS")
    monkeypatch.setenv("MAINSPRING_CONTAINER_ROOTS", "/nowhere")
    assert (TYPE.missing() or "").endswith("names /nowhere, which is no folder")
    monkeypatch.setenv("MAINSPRING_CONTAINER_ROOTS", "/")
    assert TYPE.missing() is None


def test_the_policy_of_pulls_is_one_of_two_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_CONTAINER_PULL", "always")
    with pytest.raises(InvalidError, match="expected never or missing"):
        may_pull()


def test_programs_of_engines_get_nothing_of_the_workers_secrets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor may their clients hand it on: also those that ask and remove."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("MAINSPRING_KEY", "s3cret")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/docker.sock")
    seen = folder / "seen"
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\nenv >> {seen}\n")
    program.chmod(0o755)
    engine = Engine("docker", str(program), pull=False)
    assert problem_of(engine) is None
    sweep(engine)
    remove(engine.remove("mainspring-x"), "mainspring-x")
    assert seen.read_text().count("DOCKER_HOST=unix:///run/docker.sock") == 3
    assert "s3cret" not in seen.read_text()
    assert not {"AWS_SECRET_ACCESS_KEY", "MAINSPRING_KEY"} & set(environment())
