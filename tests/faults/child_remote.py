"""A process that executes the application for a server until it is told to stop. Says `ready` when it works."""

import sys

from msgspec import Struct, json

from faults.child_worker import say
from faults.scene import Jobs
from mainspring import App
from mainspring.store.opening import StoreSettings


class Config(Struct):
    store: StoreSettings  # which it does not need
    url: str
    slots: int = 50


def main(config: Config) -> None:
    jobs = Jobs(App(config.url))
    jobs.app.sync.run(slots=config.slots, grace=5.0, ready=lambda: say("ready"))


if __name__ == "__main__":
    main(json.decode(sys.argv[1], type=Config))
