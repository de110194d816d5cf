"""The calls to obstore, each as one that blocks its thread. Errors are the driver's own, but for those of opening."""

import contextlib
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.errors import InvalidError
from mainspring.objects.failures import unavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PIECE = 4 * 1_048_576
MEMORY = "memory://"  # for tests

_PART = 5 * 1_048_576  # of an upload, which has at most 10,000
_AT_ONCE = 4  # parts of one upload under way: with the number of threads, what bounds memory
_RETRY: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}


def open_store(url: str, folder: Path | None) -> "ObjectStore":
    """Makes the folder, which nobody else may look into."""
    from obstore.exceptions import BaseError
    from obstore.store import LocalStore, MemoryStore, S3Store

    try:
        if folder is not None:
            _make(folder)
            return LocalStore(folder, automatic_cleanup=True)
        return MemoryStore() if url.startswith(MEMORY) else S3Store.from_url(url, retry_config=_RETRY)
    except OSError as error:
        raise unavailable(url, error) from None
    except (BaseError, ValueError) as error:
        raise InvalidError("objects", f"{url!r} cannot be used: {error}") from None


def _make(folder: Path) -> None:
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in made:
        _sync(each.parent)


def put(store: "ObjectStore", place: str, data: Any) -> None:
    import obstore

    obstore.put(store, place, data, chunk_size=_PART, max_concurrency=_AT_ONCE)


def create(store: "ObjectStore", place: str, data: bytes) -> bool:
    """False where it is there already."""
    import obstore
    from obstore.exceptions import AlreadyExistsError

    try:
        obstore.put(store, place, data, mode="create")
    except AlreadyExistsError:
        return False
    return True


def open_object(store: "ObjectStore", place: str) -> tuple[int, str | None, bytes]:
    """Its size, what tells whether it is still the same, and its first bytes: all of a small one."""
    import obstore

    found = obstore.get(store, place)
    size, mark = found.meta["size"], found.meta["e_tag"]
    return size, mark, bytes(found.bytes()) if size <= PIECE else read_range(store, place, 0, PIECE, mark)


def read_range(store: "ObjectStore", place: str, start: int, end: int, mark: str | None) -> bytes:
    """A request of its own: whoever reads slowly holds no connection."""
    import obstore

    return bytes(obstore.get(store, place, options={"range": (start, end), "if_match": mark}).bytes())


def list_below(store: "ObjectStore", folder: str) -> list[Any]:
    import obstore

    return [each for batch in obstore.list(store, folder, chunk_size=1000) for each in batch]


def list_folders(store: "ObjectStore", prefix: str) -> list[str]:
    import obstore

    return list(obstore.list_with_delimiter(store, prefix)["common_prefixes"])


def delete(store: "ObjectStore", places: list[str]) -> None:
    import obstore

    obstore.delete(store, places)


def sync(_: "ObjectStore", place: str, folder: Path) -> None:
    """A file, and every folder on its way: that it is there. One that somebody has removed meanwhile needs no more."""
    path = folder / place
    with contextlib.suppress(FileNotFoundError):
        for each in (path, *path.parents):
            _sync(each)
            if each == folder:
                break


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
