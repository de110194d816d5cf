"""Files of jobs, brought here: whole and as they were stored, or not at all."""

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path, PurePosixPath
from typing import IO

from mainspring.errors import InvalidError, ServerError
from mainspring.verbs.documents import OutputDocument
from mainspring.verbs.faces import Jobs
from mainspring.verbs.results import find_output

Tell = Callable[[int, int], None]  # how much is here, and how much there is

_AT_ONCE = 4_194_304  # what is written in one go


async def read_whole(jobs: Jobs, job: str, wanted: OutputDocument) -> bytes:
    """In memory, for those who want the value."""
    pieces = [piece async for piece in checked(jobs.output(job, wanted.name), wanted)]
    return b"".join(pieces)


async def download(jobs: Jobs, job: str, name: str, path: str | os.PathLike[str], tell: Tell) -> Path:
    """Into a file, or into a folder that is there; where the file is. It appears when all of it is there and right."""
    wanted = find_output(await jobs.outputs(job), job, name)
    target = await asyncio.to_thread(_target, Path(path), name)
    file = await asyncio.to_thread(_temporary, target)
    try:
        with file:
            await _write(file, checked(jobs.output(job, name), wanted), wanted, tell)
        await asyncio.to_thread(os.replace, file.name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.name)
        raise
    return target


async def checked(pieces: AsyncGenerator[bytes, None], wanted: OutputDocument) -> AsyncGenerator[bytes, None]:
    """The same pieces; an error behind the last where they are not what was stored."""
    digest, size = hashlib.sha256(), 0
    async with aclosing(pieces):
        async for piece in pieces:
            digest.update(piece)
            size += len(piece)
            yield piece
    if size != wanted.size or digest.hexdigest() != wanted.sha256:
        raise ServerError(f"{wanted.name} did not come as it was stored: {size:,} of {wanted.size:,} bytes; try again")


async def _write(file: IO[bytes], pieces: AsyncGenerator[bytes, None], wanted: OutputDocument, tell: Tell) -> None:
    held, size = bytearray(), 0
    async with aclosing(pieces):
        async for piece in pieces:
            held += piece
            if len(held) >= _AT_ONCE:
                await asyncio.to_thread(file.write, held)
                held = bytearray()
            size += len(piece)
            tell(size, wanted.size)
    await asyncio.to_thread(file.write, held)


def _target(path: Path, name: str) -> Path:
    """What a folder is given is the last part of the name: never a place elsewhere."""
    if not path.is_dir():
        if not path.parent.is_dir():
            raise InvalidError("path", f"there is no folder {path.parent}: make it first")
        return path
    last = PurePosixPath(name).name
    if last in ("", ".", ".."):
        raise InvalidError("path", f"{name!r} is no name for a file: say which one")
    return path / last


def _temporary(target: Path) -> "tempfile._TemporaryFileWrapper[bytes]":
    return tempfile.NamedTemporaryFile(dir=target.parent, prefix=".mainspring-", delete=False)
