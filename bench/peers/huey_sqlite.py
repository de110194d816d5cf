"""Huey on SQLite."""

from pathlib import Path

from bench.peers.huey_common import COMMON_SETTINGS, SQLITE, HueyPeer


class HueySqlite(HueyPeer):
    """Huey with its tasks in an SQLite file."""

    name = "huey-sqlite"
    settings = (
        f"{COMMON_SETTINGS}; polls the queue every 0.1 s, slower when idle (default); SQLite: WAL, synchronous FULL "
        "(defaults)"
    )
    storage = SQLITE

    def open_storage(self, workdir: Path) -> str:
        return str(workdir / "huey.db")
