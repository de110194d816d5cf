"""A process that schedules and executes nothing: a node without a worker. Says `ready`; leaves when it is told to stop."""

import asyncio
import signal
import sys

from msgspec import Struct, json

from faults import timing
from faults.child_worker import say
from faults.scene import make_jobs
from mainspring.app.running import open_patiently
from mainspring.node import Node
from mainspring.store.opening import StoreSettings


class Config(Struct):
    store: StoreSettings
    lease_s: float


async def main(config: Config) -> None:
    timing.shorten_lease(config.lease_s)
    app, told = make_jobs(config.store).app, asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await open_patiently(app)
    node = Node(app.store, keep_s=3600, keep_failed_s=3600, leave=told.set)
    await node.start()
    say("ready")
    await told.wait()
    await node.stop()
    await app.__aexit__()


if __name__ == "__main__":
    asyncio.run(main(json.decode(sys.argv[1], type=Config)))
