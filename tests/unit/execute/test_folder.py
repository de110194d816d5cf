"""The private folders of programs: how they are measured, whom they are open to, when they are swept."""

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.errors import InvalidError
from mainspring.execute.sandbox import folder as module
from mainspring.execute.sandbox.folder import Folder, new_folder, sweep_folders


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


def put(made: Folder, *names: str) -> None:
    made.put(dict.fromkeys(names, b""), None)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a.csv", ["a.csv"]),
        ("*.csv", ["a.csv", "b?.csv"]),
        ("b?.csv", ["b?.csv"]),
        ("?.csv", ["a.csv"]),
        ("deep/*", ["deep/a.csv"]),
        ("*/*", ["deep/a.csv"]),
        ("**/*.csv", ["a.csv", "b?.csv", "deep/a.csv", "deep/er/\n/a.csv"]),
        ("deep/**/a.csv", ["deep/a.csv", "deep/er/\n/a.csv"]),
        ("**/er/**/*", ["deep/er/\n/a.csv", "deep/er/x"]),
        ("**/**/x", ["deep/er/x"]),
        ("d*e*p/a*a*.csv", []),
        ("d*e*p/*a*", ["deep/a.csv"]),
        ("[a].csv", []),
    ],
)
def test_patterns(made: Folder, pattern: str, found: list[str]) -> None:
    put(made, "a.csv", "b?.csv", "deep/a.csv", "deep/er/\n/a.csv", "deep/er/x")
    if found:
        assert made.find([pattern]) == found
    else:
        with pytest.raises(InvalidError, match="outputs: the program has left no file"):
            made.find([pattern])


@pytest.mark.parametrize("pattern", ["**/" * 10 + "x", "*a" * 6 + "b"])
def test_no_pattern_takes_for_ever(made: Folder, pattern: str) -> None:
    """And everything else with it: nothing runs while an expression is matched."""
    put(made, "a/" * 20 + "b", "a" * 90)
    began_s = time.process_time()
    with pytest.raises(InvalidError):
        made.find([pattern])
    assert time.process_time() - began_s < 0.2


def test_a_folder_that_cannot_be_made_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk would be fuller with every attempt."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(module._ACCOUNTS, "no/such/folder", "")
    with pytest.raises(FileNotFoundError):
        new_folder(None)
    assert not os.listdir(tmp_path)
