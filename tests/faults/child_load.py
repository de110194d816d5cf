"""A process that submits all the time until it is told to stop. Says `ready`, and at the end `done` and what became of its jobs."""

import asyncio
import random
import sys
import threading

from msgspec import Struct, json

from faults import timing
from faults.child_worker import say
from faults.load import Done, Load
from faults.scene import make_jobs
from mainspring.store.opening import StoreSettings


class Config(Struct):
    store: StoreSettings
    acks: str
    seed: int
    most: int = 200  # jobs at once
    pause_s: float = 0.2
    patience_s: float | None = None


async def run(config: Config) -> Done:
    jobs, pauses = make_jobs(config.store), random.Random(config.seed)
    load = Load(jobs, config.acks, config.seed, config.most)
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    threading.Thread(target=lambda: (sys.stdin.readline(), loop.call_soon_threadsafe(told.set)), daemon=True).start()
    async with jobs.app:
        say("ready")
        while not told.is_set():
            await load.submit()
            await asyncio.wait([asyncio.ensure_future(told.wait())], timeout=pauses.uniform(0, 2 * config.pause_s))
    return load.done


def main(config: Config) -> None:
    if config.patience_s is not None:
        timing.shorten_patience(config.patience_s)
    say(f"done {json.encode(asyncio.run(run(config))).decode()}")


if __name__ == "__main__":
    main(json.decode(sys.argv[1], type=Config))
