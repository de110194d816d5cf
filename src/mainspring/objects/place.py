"""One place for the objects of a whole installation: a folder, or S3 by URL.

Used by nodes; workers elsewhere reach it through them. Guarantees: an object is there as a whole or not at all; when `put`
returns it is durable; `find` is in the order of names. Nothing is kept open, and nothing is made before the first `put`.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.core.objects import Found, prefix_of
from mainspring.errors import InvalidError, NotFoundError, StoreUnavailableError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

Data = bytes | Path | AsyncIterable[bytes]

_PIECE = 1_048_576
_AT_ONCE = 4  # parts of one upload under way: what bounds its memory
_SCHEMES = ("s3://", "memory://")


class ObjectPlace:
    """The objects of jobs. `url`: a path, or s3://bucket/prefix (its keys and endpoint from the usual AWS_… variables)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._folder = None if url.startswith(_SCHEMES) else Path(url).absolute()
        self._opened: ObjectStore | None = None

    async def put(self, job: bytes, name: str, data: Data) -> None:
        """Store, or replace."""
        import obstore

        place = prefix_of(job) + name
        source = data if isinstance(data, bytes | Path) else _Source(data)
        try:
            await self._call(obstore.put_async, place, source, chunk_size=5 * _PIECE, max_concurrency=_AT_ONCE)
        except StoreUnavailableError:
            if isinstance(source, _Source) and source.error is not None:
                raise source.error from None
            raise
        if self._folder is not None:
            await asyncio.to_thread(_sync, self._folder / place)

    async def get(self, job: bytes, name: str) -> AsyncGenerator[bytes, None]:
        """Its bytes, a piece at a time; `NotFoundError` where there is no such object."""
        import obstore

        found: Any = await self._call(obstore.get_async, prefix_of(job) + name)
        async for piece in found.stream(min_chunk_size=_PIECE):
            yield bytes(piece)

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
        import obstore

        places = [each["path"] for each in await self._listed(prefix_of(job) + prefix)]
        if places:
            await self._call(obstore.delete_async, places)
        return len(places)

    async def _listed(self, prefix: str) -> list[Any]:
        """obstore lists below whole folders only."""
        import obstore

        if self._is_new():
            return []
        folder, _, rest = prefix.rpartition("/")
        store = self._store()
        try:
            batches = [batch async for batch in obstore.list(store, folder, chunk_size=1000)]
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._unavailable(error) from error
        return [each for batch in batches for each in batch if each["path"].startswith(f"{folder}/{rest}")]

    async def _call(self, function: Any, *args: Any, **options: Any) -> Any:
        store = self._store()
        try:
            return await function(store, *args, **options)
        except FileNotFoundError:
            raise NotFoundError(f"there is no object {args[0]}") from None
        except Exception as error:
            raise self._unavailable(error) from error

    def _is_new(self) -> bool:
        """A folder that nothing was put into: looking does not make it."""
        return self._opened is None and self._folder is not None and not self._folder.exists()

    def _store(self) -> "ObjectStore":
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> "ObjectStore":
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, from_url

        try:
            if self._folder is not None:
                return LocalStore(self._folder, automatic_cleanup=True, mkdir=True)
            return from_url(self.url)
        except (BaseError, OSError, ValueError) as error:
            raise InvalidError("objects", f"{self.url!r} cannot be used: {error}") from None

    def _unavailable(self, error: Exception) -> StoreUnavailableError:
        return StoreUnavailableError(f"the objects at {self.url} cannot be reached: {error}")


class _Source:
    """What somebody else gives, and why that broke off: which is not the place's fault."""

    def __init__(self, data: AsyncIterable[bytes]) -> None:
        self._data = data
        self.error: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._data:
                yield piece
        except Exception as error:
            self.error = error
            raise


def _sync(path: Path) -> None:
    """The file, and that it is there."""
    for each in (path, path.parent):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
