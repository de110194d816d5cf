"""A real browser without a window, driven through its DevTools socket: no driver has to be installed beside it."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0")
_PATIENCE_S = 30


class Tab:
    """One page. `complaints`: what the browser wrote to its console, such as a breach of the page's policy."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self.complaints: list[str] = []
        self.urls: list[str] = []

    async def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while (message := await self._socket.receive_json()).get("id") != number:
            self._note(message)
        assert "error" not in message, message
        return message["result"]

    def _note(self, message: dict[str, Any]) -> None:
        if message["method"] == "Log.entryAdded" and message["params"]["entry"]["level"] != "verbose":
            self.complaints.append(message["params"]["entry"]["text"])
        if message["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(message["params"]))
        if message["method"] == "Network.requestWillBeSent":
            self.urls.append(message["params"]["request"]["url"])

    async def open(self, url: str) -> None:
        for domain in ("Log", "Runtime", "Page", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def run(self, script: str) -> Any:
        """What an expression gives; promises are waited for."""
        answer = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait for what another process does."""
        async with asyncio.timeout(_PATIENCE_S):
            while not await self.run(condition):  # noqa: ASYNC110  (the browser tells no other way)
                await asyncio.sleep(0.02)

    async def type(self, text: str) -> None:
        """Into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def press(self, key: str, text: str = "") -> None:
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": {"Enter": 13, "Tab": 9}[key], "text": text}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **pressed)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)


def _program() -> str:
    named = os.environ.get("MAINSPRING_TEST_BROWSER")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium here; MAINSPRING_TEST_BROWSER=PATH names one")
    return found


@asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Tab]:
    """A browser with one page, until the block ends. `folder`: where it may write."""
    flags = [*_FLAGS, f"--user-data-dir={folder}/browser", "about:blank"]
    process = await asyncio.create_subprocess_exec(_program(), *flags, stderr=asyncio.subprocess.PIPE)
    try:
        async with aiohttp.ClientSession() as session:
            address = await _address(process)
            async with session.get(f"http://{address}/json/list") as response:
                (target,) = [one for one in await response.json() if one["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Tab(socket)
    finally:
        process.kill()
        await process.communicate()


async def _address(process: asyncio.subprocess.Process) -> str:
    """It says where it listens."""
    assert process.stderr is not None
    async with asyncio.timeout(_PATIENCE_S):
        async for line in process.stderr:
            if b"DevTools listening on ws://" in line:
                return line.decode().split("ws://")[1].split("/")[0]
    raise AssertionError("the browser ended before it listened")
