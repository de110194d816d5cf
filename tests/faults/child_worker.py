"""A process that runs the application until it is told to stop. Says `ready` when work has begun."""

import os
import sys

from msgspec import Struct, json

from faults import timing
from faults.scene import declare_ticks, make_jobs
from mainspring.store.opening import StoreSettings


class Config(Struct):
    store: StoreSettings
    lease_s: float | None = None
    patience_s: float | None = None
    slots: int = 50
    grace_s: float = 5.0
    everywhere: bool = True  # serve every kind, also `only_here`
    slow_looks: bool = False
    schedules: int = 0  # so many that fire every few seconds
    every_s: int = 1
    killer: bool = False  # serve a kind that ends its worker


_TEST = os.dup(1)
os.dup2(2, 1)  # whatever else is printed goes where nobody has to read it


def say(line: str) -> None:
    """To the test."""
    os.write(_TEST, f"{line}\n".encode())


def main(config: Config) -> None:
    if config.lease_s is not None:
        timing.shorten_lease(config.lease_s)
    if config.patience_s is not None:
        timing.shorten_patience(config.patience_s)
    if config.slow_looks:
        timing.slow_looks()
    jobs = make_jobs(config.store, everywhere=config.everywhere)
    declare_ticks(jobs, config.schedules, config.every_s)
    if config.killer:
        jobs.app.job(name="killer", pool="thread")(lambda: os._exit(9))
    jobs.app.sync.run(slots=config.slots, grace=config.grace_s, ready=lambda: say("ready"))


if __name__ == "__main__":
    main(json.decode(sys.argv[1], type=Config))
