"""Servers and the workers at them, each a process."""

import socket
from typing import Any

from faults.harness import Child, Site, until

REMOTE = "select count(*) from session where ended_at is null and remote"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def serve(site: Site, port: int, **config: Any) -> Child:
    child = site.start("child_server", port=port, **config)
    child.hear("ready")
    return child


def works(site: Site, url: str, **config: Any) -> Child:
    before = site.value(REMOTE)
    child = site.start("child_remote", url=url, **config)
    child.hear("ready")
    until(lambda: site.value(REMOTE) > before, "the worker registers")
    return child
