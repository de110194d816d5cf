"""Runs an order in a process of its own: `perform`. Guarantees: the process is gone when this returns or is cancelled."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from mainspring.errors import MainspringError
from mainspring.execute.addresses import VARIABLE
from mainspring.execute.metering import peak_mb
from mainspring.execute.sandbox.descriptors import Descriptors
from mainspring.execute.sandbox.launch import no_half_start
from mainspring.execute.sandbox.process import Process, reading, signal_of
from mainspring.execute.sql.order import Answer, Order
from mainspring.wire import Usage

_CODE = "import sys; sys.path[:] = {path!r}; from mainspring.execute.sql.child import main; main({parent})"
# No other variable: a driver would take a password, a home or a proxy from them that are not the job's.
_KEPT = (VARIABLE, "PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPYCACHEPREFIX")
_CHUNK = 65_536
_LAST_WORDS = 500


class ProcessEndedError(MainspringError):
    """It ended without an answer."""


async def perform(order: Order, use: Callable[[Usage], None]) -> Answer:
    """`use` is told what the process has used, however it ends."""
    process = _start(order)
    peak: float | None = None
    try:
        said, complaints = await asyncio.gather(*map(_read, process.take_streams()))
        if code := await process.wait():
            raise ProcessEndedError(_epitaph(code, complaints))
        answer = msgspec.json.decode(said, type=Answer)
        peak = answer.peak_mb
        return answer
    finally:
        peak = peak or peak_mb(process.pid)
        process.kill_first()
        await process.wait()
        process.close()
        use(replace(process.usage, peak_mb=peak))


def _start(order: Order) -> Process:
    path = [entry for entry in sys.path if os.path.isabs(entry)]  # nothing that depends on where it runs
    code = _CODE.format(path=path, parent=os.getpid())
    with Descriptors() as fds:
        (stdout, out), (stderr, err) = fds.pipe(), fds.pipe()
        first = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=fds.memory(msgspec.json.encode(order)),
            stdout=out,
            stderr=err,
            cwd="/",
            env=_environment(order.folder),
            start_new_session=True,
        )
        with no_half_start(first):
            process = Process(first, inner=None, control=None, streams=(stdout, stderr), group=None)
        fds.keep(stdout, stderr)
        return process


async def _read(fd: int) -> bytes:
    async with reading(fd, _CHUNK) as reader:
        return await reader.read()


def _environment(home: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": home, "TMPDIR": home, "TZ": "UTC", "LANG": "C.UTF-8"}


def _epitaph(code: int, complaints: bytes) -> str:
    name = signal_of(code)
    how = f"ended with code {code}" if name is None else f"was killed by {name}"
    text = complaints.decode(errors="replace").strip()[-_LAST_WORDS:]
    return f"the process of the SQL job {how}" + (f": {text}" if text else "; was there enough memory for it?")


def make_folder(scratch: Path) -> Path:
    """Where the process works, and nobody else."""
    folder = (scratch / "sql").resolve()
    folder.mkdir(mode=0o700)
    return folder
