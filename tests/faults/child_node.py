"""A process that schedules and executes nothing: a node without a worker. Says `ready` when it has joined."""

import asyncio
import signal
import sys

from msgspec import Struct, json

from faults import timing
from faults.child_worker import say
from faults.scene import declare_ticks, make_jobs
from mainspring.verbs.declaring import synchronise
from mainspring.node import Node
from mainspring.store.opening import StoreSettings

_DAY_S = 86_400.0


class Config(Struct):
    store: StoreSettings
    lease_s: float | None = None
    patience_s: float | None = None
    schedules: int = 0


async def run(config: Config) -> None:
    jobs = make_jobs(config.store)
    declare_ticks(jobs, config.schedules)
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with jobs.app as app:
        await synchronise(app.store, *app.declared)
        node = Node(app.store, keep_s=_DAY_S, keep_failed_s=_DAY_S, leave=told.set)
        await node.start()
        say("ready")
        await told.wait()
        await node.stop()


def main(config: Config) -> None:
    if config.lease_s is not None:
        timing.shorten_lease(config.lease_s)
    if config.patience_s is not None:
        timing.shorten_patience(config.patience_s)
    asyncio.run(run(config))


if __name__ == "__main__":
    main(json.decode(sys.argv[1], type=Config))
