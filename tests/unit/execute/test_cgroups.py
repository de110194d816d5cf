"""Groups of version 2, which this machine may not have: on folders that look like them. Version 1 is tried for real elsewhere."""

import os
from pathlib import Path

import pytest

from mainspring.execute.sandbox.cgroups import Group, Tree, find_tree
from mainspring.execute.sandbox.limits import Limits


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """The group of a service that may make others: `Delegate=yes`."""
    made = tmp_path / "system.slice" / "mainspring.service"
    made.mkdir(parents=True)
    for name, text in (
        ("cgroup.controllers", "cpuset cpu io memory pids\n"),
        ("cgroup.procs", f"{os.getpid()}\n"),
        ("cgroup.type", "domain\n"),
        ("cgroup.subtree_control", ""),
    ):
        made.joinpath(name).write_text(text)
    return made


def found(root: Path, own: str = "/system.slice/mainspring.service") -> Tree | None:
    return find_tree(f"0::{own}\n", f"tmpfs /tmp tmpfs rw 0 0\ncgroup2 {root} cgroup2 rw,nosuid 0 0\n")


def test_a_service_moves_into_a_leaf_and_makes_groups_beside_it(service: Path, tmp_path: Path) -> None:
    leaf = service / "mainspring-worker"
    leaf.mkdir()
    leaf.joinpath("cgroup.procs").write_text("")
    tree = found(tmp_path)
    assert tree is not None
    assert tree.unified
    assert leaf.joinpath("cgroup.procs").read_text() == str(os.getpid())
    assert service.joinpath("cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    room = service / f"mainspring-{os.getpid()}"
    assert room.joinpath("cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert [tree.has(each) for each in ("memory", "pids", "cpu", "io")] == [True, True, True, False]
    tree.make(Limits(memory_mb=64, processes=10))
    (group,) = room.glob("*/")
    told = {file.name: file.read_text() for file in group.iterdir()}
    assert told == {"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "12"}


def test_a_worker_that_is_in_its_leaf_already_stays_there(service: Path, tmp_path: Path) -> None:
    leaf = service / "mainspring-worker"
    leaf.mkdir()
    leaf.joinpath("cgroup.controllers").write_text("memory pids")
    leaf.joinpath("cgroup.procs").write_text("")
    tree = found(tmp_path, "/system.slice/mainspring.service/mainspring-worker")
    assert tree is not None
    assert tree.folders["memory"] == str(service / f"mainspring-{os.getpid()}")


def test_what_a_worker_with_the_same_number_has_left_does_not_count(service: Path, tmp_path: Path) -> None:
    """In a container it is always the same: the program of a new group would have been out of memory long ago."""
    left = service / f"mainspring-{os.getpid()}" / "1"
    left.mkdir(parents=True)
    (service / "mainspring-worker").mkdir()
    assert found(tmp_path) is not None
    assert not left.exists()


def test_others_are_not_moved(service: Path, tmp_path: Path) -> None:
    service.joinpath("cgroup.procs").write_text(f"1\n{os.getpid()}\n")
    assert found(tmp_path) is None
    assert not service.joinpath("mainspring-worker").exists()


def test_no_controllers_no_groups(service: Path, tmp_path: Path) -> None:
    service.joinpath("cgroup.controllers").write_text("")
    assert found(tmp_path) is None
    assert found(tmp_path, "/elsewhere") is None
    assert find_tree("", "") is None


def test_what_a_group_says(tmp_path: Path) -> None:
    group = Group({"memory": tmp_path}, unified=True)
    assert (group.out_of_memory(), group.peak_mb()) == (False, None)
    tmp_path.joinpath("memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 1\n")
    tmp_path.joinpath("memory.peak").write_text("3145728\n")
    assert (group.out_of_memory(), group.peak_mb()) == (True, 3.0)
    tmp_path.joinpath("memory.events").write_text("max 9\noom 0\noom_kill 0\n")
    assert not group.out_of_memory()


def test_version_1_has_a_tree_for_each_controller(tmp_path: Path) -> None:
    for name in ("memory", "cpu,cpuacct"):
        tmp_path.joinpath(name, "own").mkdir(parents=True)
    own = "7:cpu,cpuacct:/own\n4:memory:/own\n3:pids:/\n0::/\n"
    mounts = "".join(
        f"cgroup {tmp_path}/{place} cgroup rw,relatime,{names} 0 0\n"
        for place, names in (("memory", "memory"), ("cpu,cpuacct", "cpu,cpuacct"), ("missing", "pids"))
    )
    tree = find_tree(own, mounts)
    assert tree is not None
    assert not tree.unified
    assert set(tree.folders) == {"memory", "cpu"}
    tree.make(Limits(memory_mb=1))
    (folder,) = tmp_path.joinpath("memory", "own", f"mainspring-{os.getpid()}").glob("*/")
    assert folder.joinpath("memory.limit_in_bytes").read_text() == "1048576"
