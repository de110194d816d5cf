"""A process that schedules and executes nothing: a node without a worker. Says `ready`; leaves when it is told to stop."""

import asyncio
import signal
import sys

from msgspec import Struct, json

from faults import timing
from faults.child_worker import say
from faults.scene import declare_ticks, make_jobs
from mainspring.app.running import open_patiently
from mainspring.node import Node
from mainspring.store.opening import StoreSettings
from mainspring.verbs.declaring import synchronise

_DAY_S = 86_400.0


class Config(Struct):
    store: StoreSettings
    lease_s: float
    schedules: int = 0
    every_s: int = 1


async def main(config: Config) -> None:
    timing.shorten_lease(config.lease_s)
    jobs, told = make_jobs(config.store), asyncio.Event()
    declare_ticks(jobs, config.schedules, config.every_s)
    app = jobs.app
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await open_patiently(app)
    await synchronise(app.store, *app.declared)
    node = Node(app.store, app.engine.objects, keep_s=_DAY_S, keep_failed_s=_DAY_S, leave=told.set)
    await node.start()
    say("ready")
    await told.wait()
    await node.stop()
    await app.__aexit__()


if __name__ == "__main__":
    asyncio.run(main(json.decode(sys.argv[1], type=Config)))
