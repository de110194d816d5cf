"""A real server for the pages that talk to one, and the shell that they talk with."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_KEY = re.compile(r"msk_\w{12}_[\w-]{43}")
_SERVER = "from mainspring.cli import main; main()"


@contextmanager
def served(place: Path, application: str) -> Iterator[dict[str, str]]:
    """Serve this application; the variables that a user would set."""
    (place / "served.py").write_text(application)
    command = [sys.executable, "-c", _SERVER, "server", "served:app", "--port", "0", "--store", "sqlite:///served.db"]
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield _variables(server)
        finally:
            server.terminate()
            server.communicate(timeout=60)


def _variables(server: "subprocess.Popen[str]") -> dict[str, str]:
    told = ""
    assert server.stdout is not None
    for line in server.stdout:
        told += line
        address, key = _ADDRESS.search(told), _KEY.search(told)
        if address and key:
            return {"MAINSPRING_SERVER": address[0], "MAINSPRING_KEY": key[0]}
    raise AssertionError(f"the server ended: {told}")


def run_shell(code: str, place: Path) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], cwd=place, capture_output=True, text=True, timeout=60, check=False
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "/v1/problems/" not in told, told
