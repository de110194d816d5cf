"""A server that executes nothing itself: the HTTP API and a node. Says `ready` when requests can come."""

import sys

from msgspec import Struct, json

from faults import timing
from faults.child_worker import say
from mainspring import App
from mainspring.app.serving import Serving
from mainspring.config import ServeSettings
from mainspring.store.opening import StoreSettings


class Config(Struct):
    store: StoreSettings
    port: int
    lease_s: float | None = None


def main(config: Config) -> None:
    if config.lease_s is not None:
        timing.shorten_lease(config.lease_s)
    app = App(config.store.url)
    app.store_settings = config.store
    url = f"http://127.0.0.1:{config.port}"
    serving = Serving(ServeSettings(port=config.port, keys=False, url=url))
    app.sync.run(serving=serving, ready=lambda: say("ready"))


if __name__ == "__main__":
    main(json.decode(sys.argv[1], type=Config))
