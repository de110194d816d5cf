"""Waiting for what may take a moment: disks (`in_thread`), and what has to be done to its end (`surely`)."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TypeVar

T = TypeVar("T")

_THREADS = 4


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """In threads apart from those of `launch`, so that programs with many files do not keep others from starting."""
    return await asyncio.get_running_loop().run_in_executor(_files(), partial(function, *args))


@cache
def _files() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "mainspring-files")


async def surely(work: Awaitable[T]) -> T:
    """To its end: whoever is cancelled meanwhile hears of it afterwards."""
    working = asyncio.ensure_future(work)
    cancelled = False
    while not working.done():
        try:
            await asyncio.wait((working,))
        except asyncio.CancelledError:
            cancelled = True
    result = working.result()
    if cancelled:
        raise asyncio.CancelledError
    return result
