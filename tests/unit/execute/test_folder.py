"""The private folders of programs: how they are measured, whom they are open to, when they are swept."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.execute.sandbox import folder as module
from mainspring.execute.sandbox.folder import Folder


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
