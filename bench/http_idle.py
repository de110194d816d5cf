"""Many idle workers at a server: sessions that wait for jobs and report every three seconds, all from this one process.

`python -m bench.http_idle URL COUNT` with the key in MAINSPRING_KEY prints `ready` when all wait, and goes on until it is killed.
"""

import asyncio
import os
import random
import sys

import aiohttp

from mainspring.runtime.loop import new_event_loop

_TOGETHER = 50
_HEARTBEAT_S = 3.0


class Idle:
    """One worker that never gets anything."""

    def __init__(self, http: aiohttp.ClientSession, name: str) -> None:
        self._http = http
        self._name = name

    async def register(self) -> None:
        asked = {"protocol": 1, "name": self._name, "slots": 10, "kinds": ["nobody_submits_this"]}
        async with self._http.post("/v1/workers", json=asked) as answer:
            self._address = f"/v1/workers/{(await answer.json())['session']}"

    async def pull(self) -> None:
        number = 0
        while True:
            number += 1
            async with self._http.post(f"{self._address}/pull", json={"number": number, "free": 10}) as answer:
                answer.raise_for_status()
                await answer.read()

    async def report(self) -> None:
        await asyncio.sleep(random.random() * _HEARTBEAT_S)
        while True:
            async with self._http.post(f"{self._address}/report", json={"outcomes": [], "running": []}) as answer:
                answer.raise_for_status()
                await answer.read()
            await asyncio.sleep(_HEARTBEAT_S)


async def main(url: str, count: int) -> None:
    headers = {"Authorization": f"Bearer {os.environ['MAINSPRING_KEY']}"}
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector, timeout=timeout) as http:
        workers = [Idle(http, f"idle-{number}") for number in range(count)]
        tasks = []
        for start in range(0, count, _TOGETHER):  # registering takes as long as it takes: heartbeats begin with each
            some = workers[start : start + _TOGETHER]
            await asyncio.gather(*(worker.register() for worker in some))
            tasks += [asyncio.ensure_future(work) for worker in some for work in (worker.pull(), worker.report())]
        print("ready", flush=True)
        await asyncio.gather(*tasks)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(sys.argv[1], int(sys.argv[2])))
