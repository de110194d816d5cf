"""Runs an order in a process of its own: `perform`. Guarantees: the process is gone when this returns or is cancelled."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import msgspec

from mainspring.errors import MainspringError
from mainspring.execute.addresses import VARIABLE
from mainspring.execute.sql.order import Answer, Order

_CODE = "import sys; sys.path[:] = {path!r}; from mainspring.execute.sql.child import main; main({parent})"
# No other variable: a driver would take a password, a home or a proxy from them that are not the job's.
_KEPT = (VARIABLE, "PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPYCACHEPREFIX")
_LAST_WORDS = 500


class ProcessEndedError(MainspringError):
    """It ended without an answer."""


async def perform(order: Order) -> Answer:
    path = [entry for entry in sys.path if os.path.isabs(entry)]  # nothing that depends on where it runs
    code = _CODE.format(path=path, parent=os.getpid())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        env=_environment(order.folder),
        start_new_session=True,
    )
    try:
        said, complaints = await process.communicate(msgspec.json.encode(order))
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise ProcessEndedError(_epitaph(process.returncode, complaints))
    return msgspec.json.decode(said, type=Answer)


def _environment(home: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": home, "TMPDIR": home, "TZ": "UTC", "LANG": "C.UTF-8"}


def _epitaph(code: int, complaints: bytes) -> str:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    text = complaints.decode(errors="replace").strip()[-_LAST_WORDS:]
    return f"the process of the SQL job {how}" + (f": {text}" if text else "; was there enough memory for it?")


def make_folder(scratch: Path) -> Path:
    """Where the process works, and nobody else."""
    folder = (scratch / "sql").resolve()
    folder.mkdir(mode=0o700)
    return folder
