"""A process of its own: stores 200 MB, reads it again, and prints its size and by how much the peak of memory has grown."""

import asyncio
import resource
import sys
from collections.abc import AsyncIterator

from mainspring.objects.place import ObjectPlace


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def pieces(count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield bytes([number % 251]) * 1_000_000


async def main(url: str) -> None:
    place = ObjectPlace(url)
    await place.put(bytes(16), "steps/small", b"x")
    before = peak()
    await place.put(bytes(16), "steps/large", pieces(200))
    size = 0
    async for piece in place.get(bytes(16), "steps/large"):
        size += len(piece)
    print(size, peak() - before)
    place.close()


asyncio.run(main(sys.argv[1]))
