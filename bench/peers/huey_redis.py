"""Huey on Redis."""

from pathlib import Path

from bench.peers.huey_common import COMMON_SETTINGS, REDIS, HueyPeer
from bench.peers.redis_server import RedisServer, durability


class HueyRedis(HueyPeer):
    """Huey with its tasks in a Redis server."""

    name = "huey-redis"
    storage = REDIS

    def __init__(self) -> None:
        super().__init__()
        self._server: RedisServer | None = None

    @property
    def settings(self) -> str:
        return f"{COMMON_SETTINGS}; waits on the queue with a blocking read (default); Redis: {durability()}"

    def open_storage(self, workdir: Path) -> str:
        self._server = RedisServer(workdir)
        return self._server.url

    def close_storage(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None
