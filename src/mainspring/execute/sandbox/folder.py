"""The private folders of one program: `work`, where it starts, and `tmp`. Files in, files out, how much they hold.

The program owns them and may have put anything there: links to elsewhere, pipes, folders that nobody may read, a tree deeper than
a path is long. So nothing is opened through a link, only plain files are, and what cannot be looked at counts as too much.
Everything here may wait for a disk: call it in a thread.
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mainspring.errors import InvalidError

_SMALLEST = 4096  # what an empty file or a folder costs
_MB = 1024 * 1024
_PREFIX = "mainspring-job-"
_LEFT_S = 86_400.0
_ACCOUNTS = {
    "passwd": "root:x:0:0::/:/bin/sh\njob:x:1000:1000::/work:/bin/sh\n",
    "group": "root:x:0:\njob:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
}


class Folder:
    """Below `root`, which is the worker's and must be there, empty."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.tmp = root / "tmp"
        self.etc = root / "etc"  # the few files of a system that are different in a sandbox

    def make(self, uid: int | None) -> None:
        self.etc.mkdir()
        for name, text in _ACCOUNTS.items():
            self.etc.joinpath(name).write_text(text)
        for folder in (self.work, self.tmp):
            folder.mkdir(mode=0o700)
            _give(folder, uid)
        self.root.chmod(0o711 if uid is not None else 0o700)

    def put(self, files: Mapping[str, bytes], uid: int | None) -> None:
        """Only before the program runs: nobody else is here yet."""
        for name, data in files.items():
            *parts, last = checked_name("files", name).split("/")
            place = self.work
            for part in parts:
                place = place / part
                if not place.is_dir():
                    place.mkdir()
                    _give(place, uid)
            place.joinpath(last).write_bytes(data)
            _give(place / last, uid)

    def find(self, patterns: Sequence[str]) -> list[str]:
        """The files of `work` that the patterns name, in order. A pattern that names none is an error: somebody waits for it."""
        files = sorted(self._files())
        found: dict[str, None] = {}
        for pattern in patterns:
            form = re.compile(_expression(pattern))
            matching = [name for name in files if form.fullmatch(name)]
            if not matching:
                raise InvalidError("outputs", f"the program has left no file {pattern!r}")
            found |= dict.fromkeys(matching)
        return list(found)

    def open(self, name: str) -> int | None:
        """A descriptor of a plain file in `work`, reached through no link; None where there is none."""
        *parts, last = name.split("/")
        try:
            fd = os.open(self.work, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
            for part in parts:
                fd = _deeper(fd, part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
            fd = _deeper(fd, last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            return None
        return fd

    def excess(self, megabytes: int, nameless: int = 0) -> str | None:
        """In words, if the folders hold more than this; looked at no further than needed to know. `nameless`: bytes of files that
        are deleted and still open."""
        left = megabytes * _MB - nameless
        try:
            for entry in _walk(self.work, self.tmp):
                if left < 0:
                    break
                left -= _size(entry)
        except OSError:
            return "a folder that is too deep, or closed, to be measured"
        return f"disk limit of {megabytes} MB" if left < 0 else None

    def clear(self) -> None:
        """Remove everything below `root`, whatever was done to it; the program has ended."""
        for folder in (self.work, self.tmp, self.etc):
            try:
                shutil.rmtree(folder)
            except FileNotFoundError:
                continue
            except (OSError, RecursionError):
                subprocess.run(["chmod", "-R", "u+rwx", "--", folder], check=False, capture_output=True)
                subprocess.run(["rm", "-rf", "--", folder], check=False, capture_output=True)

    def remove(self) -> None:
        self.clear()
        shutil.rmtree(self.root, ignore_errors=True)

    def _files(self) -> Iterator[str]:
        for entry in _walk(self.work):
            if entry.is_file(follow_symlinks=False):
                yield os.path.relpath(entry.path, self.work)


def new_folder(uid: int | None) -> Folder:
    folder = Folder(Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")))
    try:
        folder.make(uid)
    except BaseException:
        folder.remove()
        raise
    return folder


def sweep_folders() -> None:
    """Remove what is left of workers that are gone; processes of a container beside this one may only seem to be."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if not Path("/proc", owner).exists() and left.stat().st_mtime < time.time() - _LEFT_S:
                Folder(left).remove()


def remove_folders_of(pid: int) -> None:
    """Of a process that is gone and may have left some."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{pid}-*"):
        Folder(left).remove()


def checked_name(field: str, name: str) -> str:
    """Of a file below the working folder."""
    parts = name.split("/")
    if "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise InvalidError(
            field, f"{name!r} is no name of a file in the working folder: leave out '/' at the ends and '..'"
        )
    return name


def _give(path: Path, uid: int | None) -> None:
    if uid is not None:
        os.chown(path, uid, uid)


def _deeper(fd: int, part: str, flags: int) -> int:
    try:
        return os.open(part, flags | os.O_CLOEXEC, dir_fd=fd)
    finally:
        os.close(fd)


def _size(entry: "os.DirEntry[str]") -> int:
    try:
        return max(_SMALLEST, entry.stat(follow_symlinks=False).st_blocks * 512)
    except FileNotFoundError:  # gone while we looked
        return 0


def _walk(*folders: Path) -> "Iterator[os.DirEntry[str]]":
    """Everything below them, through no link. A program that runs may take away what was there a moment ago."""
    waiting = [str(folder) for folder in folders]
    while waiting:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _expression(pattern: str) -> str:
    """`*` and `?` stay within a folder, `**/` is any number of folders.

    What comes after one of several stars is taken where it is found first, for good: `(?>…)`. In any other way a pattern could take
    for ever, and nothing else would run meanwhile.
    """
    first, *rest = ("/".join(map(_in_folder, part.split("/"))) for part in re.split(r"(?<![^/])\*\*/", pattern))
    return first + _after_stars("(?:[^/]+/)*", rest)


def _in_folder(pattern: str) -> str:
    first, *rest = (re.escape(part).replace(r"\?", "[^/]") for part in pattern.split("*"))
    return first + _after_stars("[^/]*", rest)


def _after_stars(star: str, parts: list[str]) -> str:
    """The last part is at the end, so that one is looked for from there."""
    *found_first, last = parts or [""]
    return "".join(f"(?>{star}?{part})" for part in found_first) + (star + last if parts else "")
