"""A node and a worker in a process of its own, with whatever version of the code it finds. Ends when its stdin does.

The arguments: the store, the log of effects, a name, and a lease, where it shall not be the real one.
"""

import asyncio
import os
import sys
from typing import Any

from msgspec import json

from faults import timing
from mainspring.execute.registry import Kind, Registry
from mainspring.execute.worker import Worker
from mainspring.node import Node
from mainspring.store.opening import StoreSettings, open_store


async def main(settings: StoreSettings, log: str, name: str) -> None:
    effects = os.open(log, os.O_WRONLY | os.O_APPEND)

    async def work(number: int) -> None:
        os.write(effects, f"{number} {name}\n".encode())

    registry = Registry()
    registry.add(Kind("work", work))
    store = await open_store(settings)
    node = Node(store, *_objects(), keep_s=3600, keep_failed_s=3600, name=name)
    worker = Worker(registry, node.desk, slots=20, name=name)
    await node.start()
    running = asyncio.create_task(worker.run())
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await worker.stop()
    await running
    await node.stop()
    await store.close()


def _objects() -> list[Any]:
    """Older code has none."""
    try:
        from mainspring.objects.place import ObjectPlace
    except ImportError:
        return []
    return [ObjectPlace("memory:///")]


if __name__ == "__main__":
    given, log_, name_, *leases = sys.argv[1:]
    for lease in leases:
        timing.shorten_lease(float(lease))
    asyncio.run(main(json.decode(given, type=StoreSettings), log_, name_))
