"""What a submit over HTTP costs the server: jobs per second, and per second of its processor time.

    python -m bench.http [single|json|ndjson|msgpack …]

The server is a process of its own on a SQLite file in memory, with keys; the client is here. Processor time is what counts: the
client takes a core, and the machine may have others to serve.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import msgpack  # type: ignore[import-untyped]

from bench.cpu import cpu_s

JOBS = 10_000  # in one batch
BATCHES = 8
SINGLE = 8_000
CONNECTIONS = 32

_APP = """
from mainspring import App
app = App()

@app.job()
async def send(to: str, subject: str, count: int = 1) -> None: ...
"""


def item(place: int) -> dict[str, object]:
    return {
        "kind": "send",
        "arguments": {"to": "ada@example.org", "subject": "hello", "count": place},
        "options": {"delay": "1h"},
    }


FORMS: dict[str, tuple[str, Callable[[list[dict[str, object]]], bytes]]] = {
    "json": ("application/json", lambda items: json.dumps(items).encode()),
    "ndjson": ("application/x-ndjson", lambda items: b"\n".join(json.dumps(item).encode() for item in items)),
    "msgpack": ("application/msgpack", lambda items: bytes(msgpack.packb(items))),
}


@contextmanager
def server(folder: Path) -> Iterator[tuple[int, str, str]]:
    """Its process, address and key."""
    (folder / "tasks.py").write_text(_APP)
    command = [str(Path(sys.executable).parent / "mainspring"), "server", "tasks:app", "--port", "0", "--json"]
    process = subprocess.Popen(
        [*command, "--store", f"sqlite:///{folder}/jobs.db"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        url = next(json.loads(line)["url"] for line in process.stdout if '"serving"' in line)
        key = next(line.strip() for line in process.stdout if "msk_" in line)
        yield process.pid, url, key
    finally:
        process.terminate()
        process.communicate(timeout=60)


async def single(session: aiohttp.ClientSession) -> int:
    body = json.dumps(item(0)).encode()

    async def some() -> None:
        for _ in range(SINGLE // CONNECTIONS):
            await _post(session, "/v1/jobs", body, "application/json", 201)

    await asyncio.gather(*(some() for _ in range(CONNECTIONS)))
    return SINGLE


async def batches(session: aiohttp.ClientSession, form: str) -> int:
    media, encode = FORMS[form]
    body = encode([item(place) for place in range(JOBS)])

    async def some() -> None:
        for _ in range(BATCHES // 2):
            await _post(session, "/v1/jobs/batch", body, media, 200)

    await asyncio.gather(some(), some())
    return JOBS * BATCHES


async def _post(session: aiohttp.ClientSession, path: str, body: bytes, media: str, status: int) -> None:
    async with session.post(path, data=body, headers={"Content-Type": media}) as response:
        answer = await response.read()
        if response.status != status or b"problem" in answer:
            raise SystemExit(f"{path} answered {response.status}: {answer[:300]!r}")


async def measure(pid: int, url: str, key: str, names: list[str]) -> None:
    async with aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {key}"}) as session:
        for name in names:
            work: Awaitable[int] = single(session) if name == "single" else batches(session, name)
            before_s, began_s = cpu_s(pid), time.perf_counter()
            jobs = await work
            took_s, used_s = time.perf_counter() - began_s, cpu_s(pid) - before_s
            print(f"{name:8}  {jobs / took_s:9,.0f} jobs/s  {jobs / used_s:9,.0f} per second of the server's processor")


def main() -> None:
    names = sys.argv[1:] or ["single", *FORMS]
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder, server(Path(folder)) as (pid, url, key):
        asyncio.run(measure(pid, url, key, names))


if __name__ == "__main__":
    main()
