"""Server-sent events: what a listener hears, where he goes on, and when his stream ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from api.site import UNKNOWN, Site
from mainspring.api import streams
from mainspring.verbs import events as log


class Listener:
    """Reads one stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.comments = 0

    async def next(self) -> dict[str, Any] | None:
        """The next event; None at the end of the stream."""
        fields: dict[str, Any] = {}
        async with asyncio.timeout(15):
            async for line in self._response.content:
                text = line.decode().rstrip("\n")
                if text.startswith(":"):
                    self.comments += 1
                elif text:
                    name, _, value = text.partition(": ")
                    fields[name] = json.loads(value) if name == "data" else value
                elif fields:
                    return fields
        return None

    async def comment(self) -> None:
        """Until the next comment."""
        async with asyncio.timeout(15):
            assert (await self._response.content.readline()).startswith(b":")


@asynccontextmanager
async def listening(site: Site, path: str, key: str = "viewer", **headers: str) -> AsyncIterator[Listener]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    given["Authorization"] = f"Bearer {site.keys[key]}"
    async with site.client.get(site.url + path, headers=given) as response:
        assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream")
        yield Listener(response)


async def test_jobs_as_they_end(each_site: Site) -> None:
    site = each_site
    async with listening(site, "/v1/events") as listener, listening(site, "/v1/queues/sums/events") as queue:
        broken, added = await site.submit("broken"), await site.submit()
        heard = [await listener.next(), await listener.next()]
        assert {event["data"]["id"]: event["data"]["state"] for event in heard if event} == {
            broken: "failed",
            added: "completed",
        }
        only = await queue.next()
        assert only is not None
        assert (only["event"], only["data"]["id"], only["data"]["queue"]) == ("ended", added, "sums")
    async with listening(site, "/v1/events", Last_Event_ID=heard[0]["id"]) as listener:  # type: ignore[index]
        following = await listener.next()
        assert following == heard[1]


async def test_other_tenants_hear_nothing(site: Site) -> None:
    async with listening(site, "/v1/events", key="other-viewer") as listener:
        await site.ended(await site.submit())
        mine = await site.submit(key="other-submitter")
        event = await listener.next()
        assert event is not None
        assert (event["data"]["id"], event["data"]["tenant"]) == (mine, "other")


async def test_one_job_until_it_has_ended(site: Site) -> None:
    job = await site.submit(delay="1h")
    async with listening(site, f"/v1/jobs/{job}/events") as listener:
        first = await listener.next()
        assert first is not None
        assert first["data"]["state"] == "pending"
        await site.ask("POST", f"/v1/jobs/{job}/cancel")
        heard = []
        while (event := await listener.next()) is not None:
            heard.append(event)
        assert (heard[-1]["event"], heard[-1]["data"]["state"]) == ("ended", "cancelled")
    assert (await site.ask("GET", f"/v1/jobs/{UNKNOWN}/events")).status == 404


async def test_an_old_event_is_a_reset(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "KEPT", 1)
    for _ in range(2):
        await site.ended(await site.submit())
    async with listening(site, "/v1/events", Last_Event_ID=f"1000000-{UNKNOWN}") as listener:
        event = await listener.next()
        assert event is not None
        assert event["event"] == "reset"


@pytest.mark.parametrize("given", ["hello", "1", f"-1-{UNKNOWN}", f"1-{UNKNOWN}x", f"{'9' * 30}-{UNKNOWN}"])
async def test_what_is_no_event(site: Site, given: str) -> None:
    answer = await site.ask("GET", "/v1/events", headers={"Last-Event-ID": given})
    assert (answer.status, answer.document["field"]) == (422, "Last-Event-ID")


async def test_comments_keep_the_connection(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "COMMENT_S", 0.02)
    monkeypatch.setattr(streams, "CHECK_S", 0.01)
    async with listening(site, "/v1/events") as listener:
        for _ in range(3):
            await listener.comment()
            await site.client.get(site.url + "/v1/health/live")
            assert (await listener._response.content.readline()) == b"\n"


async def test_a_stream_ends_with_its_key(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CHECK_S", 0.01)
    made = (await site.ask("POST", "/v1/keys", {"name": "short", "role": "viewer"}, key="admin")).document
    site.keys["short"] = made["key"]
    async with listening(site, "/v1/events", key="short") as listener:
        await listener.comment()
        await site.ask("DELETE", f"/v1/keys/{made['id']}", key="admin")
        assert await listener.next() is None


async def test_a_stream_ends_with_the_server(site: Site) -> None:
    async with listening(site, "/v1/events") as listener:
        await listener.comment()
        site.serving.drain()
        assert await listener.next() is None
