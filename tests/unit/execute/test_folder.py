"""The private folders of programs: how they are measured, whom they are open to, when they are swept."""

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.execute.sandbox import folder as module
from mainspring.execute.sandbox.folder import Folder, sweep_folders


@pytest.fixture
def made(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.make(None)
    return folder


def test_what_goes_away_does_not_end_the_look(made: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that makes and removes files all the time would else never be measured."""
    walk = module._walk

    def racing(*folders: Path) -> "Iterator[os.DirEntry[str]]":
        for entry in walk(*folders):
            if entry.name == "gone":
                os.unlink(entry.path)
            elif entry.name == "taken":
                os.rmdir(entry.path)
            yield entry

    monkeypatch.setattr(module, "_walk", racing)
    for place in (made.work, made.tmp):  # whichever is looked at first
        place.joinpath("gone").touch()
        place.joinpath("taken").mkdir()
    made.tmp.joinpath("big").write_bytes(bytes(3_000_000))
    made.work.joinpath("big").write_bytes(bytes(3_000_000))
    assert made.excess(5) == "disk limit of 5 MB"
    assert made.excess(7) is None


def test_nobody_else_may_look_into_them(made: Folder) -> None:
    """Also where the folder above lets others through, to its own user."""
    assert [stat.S_IMODE(place.stat().st_mode) for place in (made.work, made.tmp)] == [0o700, 0o700]


def test_folders_of_workers_that_only_seem_to_be_gone_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker in a container beside this one shares the disk, not the numbers of processes."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("mainspring-job-99999999-new", "mainspring-job-99999999-old", f"mainspring-job-{os.getpid()}-mine"):
        tmp_path.joinpath(name, "work").mkdir(parents=True)
        if not name.endswith("new"):
            os.utime(tmp_path / name, (time.time() - 90_000,) * 2)
    sweep_folders()
    assert set(os.listdir(tmp_path)) == {"mainspring-job-99999999-new", f"mainspring-job-{os.getpid()}-mine"}
