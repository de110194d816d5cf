"""Programs, run as a worker runs them: really sandboxed, or bare."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from mainspring.execute.sandbox.ability import ability
from mainspring.execute.sandbox.host import attend
from mainspring.execute.sandbox.launch import Order
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.sandbox.run import started
from mainspring.execute.sandbox.words import Request, Talk, pair, send_request, take_request
from mainspring.wire import Usage

PYTHON = "/usr/bin/env"  # `env python3`, which never starts warm


class HostHere:
    """What a host does, done in this process and its event loop: for tests that have to get between."""

    def __init__(self) -> None:
        self._ours, self._theirs = pair()
        self._loop = asyncio.get_running_loop()
        self._programs: list[asyncio.Future[None]] = []

    def ask(self, request: Request) -> socket.socket:
        end = send_request(self._ours, request)
        taken = take_request(self._theirs)
        assert taken is not None
        self._loop.call_soon_threadsafe(self._attend, *taken)
        return end

    def _attend(self, end: socket.socket, file: int) -> None:
        self._programs.append(asyncio.ensure_future(attend(Talk(end), file)))

    async def close(self) -> None:
        await asyncio.gather(*self._programs, return_exceptions=True)
        self._ours.close()
        self._theirs.close()


class Told(Struct, frozen=True):
    """What a program did."""

    code: int
    killed: str | None
    stdout: str
    stderr: str
    usage: Usage


class Heard:
    """Keeps what a program writes."""

    def __init__(self) -> None:
        self.streams = {1: b"", 2: b""}

    async def write(self, stream: int, data: bytes) -> None:
        self.streams[stream] += data


def order(command: Sequence[str], *, bare: bool = False, counted: bool = True, **options: Any) -> Order:
    """`counted`: in groups, if there are any on this machine."""
    found = ability()
    tree = found.tree if counted else None
    return Order(command=command, binary=None if bare else found.binary, uid=found.users.take(), tree=tree, **options)


async def run(
    command: Sequence[str], *, files: Mapping[str, bytes] = {}, limits: Limits | None = None, **options: Any
) -> Told:
    heard = Heard()
    async with started(order(command, limits=limits or Limits(), **options), files) as running:
        ended = await running.finish(heard.write)
    stdout, stderr = (heard.streams[number].decode(errors="replace") for number in (1, 2))
    return Told(ended.exit_code, ended.killed, stdout, stderr, running.usage)


async def shell(script: str, **options: Any) -> Told:
    return await run(["sh", "-c", script], **options)


async def python(code: str, **options: Any) -> Told:
    """A fresh interpreter of the machine's own Python."""
    return await run([PYTHON, "python3", "-c", code], **options)


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Another process is involved: look again and again, within bounds."""
    async with asyncio.timeout(20):
        while not await true():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def stay_behind(marker: str) -> str:
    """Away from its parent, its group, its session and its terminal."""
    return f"(setsid nohup sh -c 'trap \"\" TERM HUP INT; : > ready; while :; do sleep 1; done' {marker} >/dev/null 2>&1 &) ; "


def alive(marker: str) -> list[str]:
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                if place.joinpath("cmdline").read_bytes().endswith(b"\0" + marker.encode() + b"\0"):
                    found.append(place.name)
    return found


async def is_alive(marker: str) -> bool:
    return bool(alive(marker))
