"""Which files of a worker the jobs of type `sql` may read: those below the folders that its owner names, and no others.

MAINSPRING_SQL_ROOT holds the folders, with ':' between; without it there are none. A path that a job gives is relative to one of
them, or absolute and below one; it may have `*`. What counts is where a file really is, so a link that leads out of the folders
leads nowhere.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from mainspring.errors import InvalidError

VARIABLE = "MAINSPRING_SQL_ROOT"

READERS = {
    ".parquet": "read_parquet",
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}
_MAX_FILES = 10_000


def roots(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders, where they really are."""
    found = []
    for name in filter(None, environ.get(VARIABLE, "").split(os.pathsep)):
        if not Path(name).is_absolute() or not Path(name).is_dir():
            raise InvalidError(VARIABLE, f"{name!r} is not the absolute path of a folder")
        found.append(Path(name).resolve())
    return found


def find_files(field: str, path: str, allowed: list[Path]) -> list[Path]:
    """The files that a job's path stands for, at least one."""
    if not allowed:
        raise InvalidError(field, f"this worker gives no files to SQL jobs; its owner may, with {VARIABLE}=FOLDER")
    for root in allowed:
        found = [file for file in _matches(root, path) if _is_below(file, allowed)]
        if len(found) > _MAX_FILES:
            raise InvalidError(field, f"more than {_MAX_FILES:,} files are {path!r}")
        if found:
            return found
    raise InvalidError(field, f"there is no file {path!r} below the folders of {VARIABLE}")


def reader_of(field: str, path: str) -> str:
    """DuckDB's function for a file of this name."""
    suffix = Path(path.removesuffix(".gz").removesuffix(".zst")).suffix.lower()
    if suffix not in READERS:
        raise InvalidError(
            field,
            f"{path!r} ends with none of {', '.join(READERS)}; rows of a SQLite file or a PostgreSQL database "
            'are {"database": …, "query": "SELECT …"}',
        )
    return READERS[suffix]


def _matches(root: Path, path: str) -> list[Path]:
    given = root / path
    if "*" not in path:
        return [given.resolve()] if given.is_file() else []
    if ".." in given.parts or not given.is_relative_to(root):
        return []
    return sorted(file.resolve() for file in root.glob(str(given.relative_to(root))) if file.is_file())


def _is_below(file: Path, allowed: list[Path]) -> bool:
    return any(file.is_relative_to(root) for root in allowed)
