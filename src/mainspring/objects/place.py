"""One place for the objects of a whole installation: a folder, or S3 by URL.

Used by nodes; workers elsewhere reach it through them. Guarantees: an object is there as a whole or not at all; when `put`
returns it is durable; `find` is in the order of names; memory is bounded, however large an object is. Nothing is kept open, and
nothing is made before the first `put`. A place of another installation is refused at the first use, see `claim`.

Calls are obstore's plain ones, on threads of our own: its others touch Python from threads that the end of the process does not
wait for, and a command that ends right after one dies of it.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring.core.objects import JOBS, Found, prefix_of
from mainspring.core.partition import parse_id
from mainspring.errors import InvalidError, NotFoundError, StoreUnavailableError
from mainspring.objects import driver
from mainspring.objects.claim import MARK, Agree, claimed
from mainspring.objects.failures import unavailable
from mainspring.objects.feeding import Feed, begun

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")
Data = bytes | Path | AsyncIterable[bytes]

_THREADS = 8


class ObjectPlace:
    """The objects of jobs. `url`: a path, or s3://bucket/prefix (its keys and endpoint from the usual AWS_… variables). `agree`: a
    setting of the installation; None: nobody asks whose place it is."""

    def __init__(self, url: str, agree: Agree | None = None) -> None:
        self.url = url
        self.folder = None if url.startswith(("s3://", driver.MEMORY)) else Path(url).absolute()
        self._agree = agree
        self._claimed = agree is None or url.startswith(driver.MEMORY)
        self._opened: ObjectStore | None = None
        self._threads = ThreadPoolExecutor(_THREADS, "mainspring-objects")
        self._feeds = ThreadPoolExecutor(_THREADS, "mainspring-uploads")  # wait for whoever sends, and nobody for them

    async def put(self, job: bytes, name: str, data: Data) -> None:
        """Store, or replace."""
        await self._use(write=True)
        await self._put(prefix_of(job) + name, data)

    async def get(self, job: bytes, name: str) -> AsyncGenerator[bytes, None]:
        """Its bytes, a piece at a time; `NotFoundError` where there is no such object."""
        place = prefix_of(job) + name
        if not await self._use():
            raise _missing(place)
        size, mark, first = await self._call(driver.open_object, place)
        yield first
        for start in range(len(first), size, driver.PIECE):
            yield await self._call(driver.read_range, place, start, min(size, start + driver.PIECE), mark)

    async def read(self, job: bytes, name: str) -> bytes:
        """All of a small one."""
        return b"".join([piece async for piece in self.get(job, name)])

    async def find(self, job: bytes, prefix: str = "", after: str = "") -> list[Found]:
        """Those of a job whose names begin with `prefix`, in the order of names, from behind `after` on."""
        root = prefix_of(job)
        found = await self._listed(root + prefix)
        named = [Found(each["path"].removeprefix(root), each["size"]) for each in found]
        return sorted((each for each in named if each.name > after), key=lambda each: each.name)

    async def delete(self, job: bytes, prefix: str = "") -> int:
        """All of a job, or those whose names begin with `prefix`; how many."""
        places = [each["path"] for each in await self._listed(prefix_of(job) + prefix)]
        if places:
            await self._call(driver.delete, places)
        return len(places)

    async def days(self) -> list[str]:
        """The days of which there are objects, such as 2026-03-31; oldest first. Some servers list empty ones too."""
        return sorted(await self._folders(JOBS))

    async def jobs_of(self, day: str) -> list[bytes]:
        """The jobs of a day that have objects, oldest first."""
        return sorted(filter(None, map(_job_of, await self._folders(f"{JOBS}{day}/"))))

    async def probe(self) -> None:
        """Can objects be written? An error says why not. Leaves nothing behind."""
        if self.folder is not None:
            there = next(folder for folder in (self.folder, *self.folder.parents) if folder.exists())
            if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
                raise unavailable(self.url, PermissionError("Permission denied"))
            await self._use()
            return
        await self._use()
        place = f"probe/{secrets.token_hex(8)}"
        await self._put(place, b"")
        await self._call(driver.delete, [place])

    def close(self) -> None:
        """After the last call."""
        self._threads.shutdown(wait=False)
        self._feeds.shutdown(wait=False)

    # whose place it is

    async def _use(self, *, write: bool = False) -> bool:
        """Is there anything? `write`: there will be. InvalidError where the place is another's."""
        if not self._claimed:
            assert self._agree is not None
            self._claimed = await claimed(self.url, self._agree, self._read_mark, self._make_mark, write=write)
        return self._claimed

    async def _read_mark(self) -> str | None:
        if self.folder is not None and not self.folder.is_dir():
            return None
        try:
            return str((await self._call(driver.open_object, MARK))[2], "ascii", "replace")
        except NotFoundError:
            return None

    async def _make_mark(self, mark: str) -> bool:
        made = await self._call(driver.create, MARK, mark.encode())
        if self.folder is not None:
            await self._call(driver.sync, MARK, self.folder)
        return made

    # obstore, on a thread

    async def _put(self, place: str, data: Data) -> None:
        if isinstance(data, bytes | Path):
            await self._call(driver.put, place, data)
        else:
            first, rest = await begun(data, driver.PIECE)
            await (self._call(driver.put, place, first) if rest is None else self._feed(place, Feed(first, rest)))
        if self.folder is not None:
            await self._call(driver.sync, place, self.folder)

    async def _feed(self, place: str, feed: Feed) -> None:
        putting = asyncio.ensure_future(self._call(driver.put, place, feed, threads=self._feeds))
        try:
            await asyncio.shield(putting)
        except asyncio.CancelledError:
            feed.stop()
            await asyncio.wait([putting])
            putting.exception()  # is that it was stopped
            raise
        except StoreUnavailableError:
            if feed.error is not None:
                raise feed.error from None
            raise

    async def _listed(self, prefix: str) -> list[Any]:
        """obstore lists below whole folders only."""
        folder, _, rest = prefix.rpartition("/")
        if not await self._use():
            return []
        found = await self._call(driver.list_below, folder)
        return [each for each in found if each["path"].startswith(f"{folder}/{rest}")]

    async def _folders(self, prefix: str) -> list[str]:
        found = await self._call(driver.list_folders, prefix) if await self._use() else []
        return [each.rstrip("/").rpartition("/")[2] for each in found]

    async def _call(self, function: Callable[..., T], *args: Any, threads: ThreadPoolExecutor | None = None) -> T:
        """`function` with the driver's store first; `args`: a place, and more."""
        call = partial(function, self._store(), *args)
        try:
            return await asyncio.get_running_loop().run_in_executor(threads or self._threads, call)
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise unavailable(self.url, error) from error
            raise _missing(args[0]) from None
        except Exception as error:
            raise unavailable(self.url, error) from error

    def _store(self) -> "ObjectStore":
        if self._opened is None:
            self._opened = driver.open_store(self.url, self.folder)
        return self._opened


def _job_of(name: str) -> bytes | None:
    try:
        return parse_id(name)
    except InvalidError:
        return None


def _missing(place: str) -> NotFoundError:
    return NotFoundError(f"there is no object {place}")
