"""Many idle workers in one process: each has a session, a long poll that is always open, and a report every 3 s.

    python -m bench.http_idle URL COUNT

Prints a line when all of them are there, and goes on until it is killed. The key is in MAINSPRING_KEY.
"""

import asyncio
import os
import random
import sys

from msgspec import json

from mainspring.client.transport import Transport

_HEARTBEAT_S = 3.0
_POLL_S = 30.0
_AT_ONCE = 50  # registrations; a server is not met by all of its workers in one moment


async def work(transport: Transport, number: int, gate: asyncio.Semaphore) -> None:
    async with gate:
        session = await _register(transport, number)
    await asyncio.gather(_pull(transport, session), _report(transport, session))


async def _register(transport: Transport, number: int) -> str:
    said = {"protocol": 1, "name": f"idle-{number}", "slots": 1, "kinds": ["nothing"]}
    session: str = (await _post(transport, "/v1/workers", said))["session"]
    _there.release()
    return session


async def _pull(transport: Transport, session: str) -> None:
    number = 0
    while True:
        number += 1
        await _post(transport, f"/v1/workers/{session}/pull", {"number": number, "free": 1})


async def _report(transport: Transport, session: str) -> None:
    await asyncio.sleep(random.random() * _HEARTBEAT_S)
    while True:
        await _post(transport, f"/v1/workers/{session}/report", {"outcomes": [], "running": []})
        await asyncio.sleep(_HEARTBEAT_S)


async def _post(transport: Transport, path: str, document: object) -> dict[str, str]:
    reply = await transport.request("POST", path, body=json.encode(document), timeout_s=_POLL_S * 2, repeatable=True)
    return json.decode(reply.body, type=dict)


_there = asyncio.Semaphore(0)


async def main(url: str, count: int) -> None:
    transport = Transport(url, os.environ["MAINSPRING_KEY"], connections=0)
    gate = asyncio.Semaphore(_AT_ONCE)
    workers = [asyncio.create_task(work(transport, number, gate)) for number in range(count)]
    for _ in range(count):
        await _there.acquire()
    print(count, flush=True)
    await asyncio.gather(*workers)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
