"""Logs and partial results over HTTP: the three forms, who may read them, where a listener goes on, and when a stream ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from api.site import UNKNOWN, Site, running
from api.test_events import listening
from mainspring import App, Context
from mainspring.api import streams
from mainspring.core.segments import ERR, OUT
from mainspring.verbs import pieces

EVENTS = {"Accept": "text/event-stream"}
LINES = {"Accept": "application/x-ndjson"}


class Gates:
    """What jobs wait for."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def site(folder: Path, gates: Gates, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(pieces, "POLL_S", 0.02)
    app = App(f"sqlite:///{folder}/jobs.db")

    @app.job(retries=0)
    async def talk(ctx: Context) -> None:
        ctx.log("one\ntwo")
        ctx.log("careful", "warning")
        await ctx._services.write(OUT, b"\x1b[31mred\n")
        await ctx._services.write(ERR, b"<script>alert(1)</script>\n")
        await ctx.emit({"number": 1})
        await ctx.emit("zwei")

    @app.job()
    async def wait(ctx: Context) -> None:
        ctx.log("begun")
        await ctx.emit(1)
        gates.begun.set()
        await gates.go_on.wait()
        ctx.log("ended")
        await ctx.emit(2)

    async with running(app) as made:
        yield made


TEXT = "one\ntwo\ncareful\n\x1b[31mred\n<script>alert(1)</script>\n"


async def test_a_log_as_text(site: Site) -> None:
    job = await site.submit("talk")
    await site.ended(job)
    answer = await site.ask("GET", f"/v1/jobs/{job}/logs", key="viewer")
    assert (answer.status, answer.body.decode()) == (200, TEXT)
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert (await site.ask("GET", f"/v1/jobs/{job}/logs?attempt=2")).body == b""
    assert (await site.ask("GET", f"/v1/jobs/{job}/logs?follow=true")).body.decode() == TEXT


async def test_a_log_as_lines_of_json(site: Site) -> None:
    job = await site.submit("talk")
    await site.ended(job)
    answer = await site.ask("GET", f"/v1/jobs/{job}/logs", headers=LINES)
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    parts = [json.loads(line) for line in answer.body.splitlines()]
    assert [(part["stream"], part["text"]) for part in parts] == [
        ("info", "one\ntwo\n"),
        ("warning", "careful\n"),
        ("stdout", "\x1b[31mred\n"),
        ("stderr", "<script>alert(1)</script>\n"),
    ]
    assert {part["attempt"] for part in parts} == {1}
    rest = await site.ask("GET", f"/v1/jobs/{job}/logs?after={parts[1]['id']}", headers=LINES)
    assert [json.loads(line) for line in rest.body.splitlines()] == parts[2:]


async def test_a_log_as_events_that_go_on_where_they_broke_off(site: Site, gates: Gates) -> None:
    job = await site.submit("wait")
    await gates.begun.wait()
    async with listening(site, f"/v1/jobs/{job}/logs", **EVENTS) as listener:
        first = await listener.next()
        assert first is not None
        assert (first["event"], first["data"]["text"]) == ("log", "begun\n")
    gates.go_on.set()
    async with listening(site, f"/v1/jobs/{job}/logs", Last_Event_ID=first["id"], **EVENTS) as listener:
        second, end = await listener.next(), await listener.next()
        assert second is not None
        assert second["data"]["text"] == "ended\n"
        assert end == {"event": "end", "data": {}}
        assert await listener.next() is None


async def test_partial_results(site: Site, gates: Gates) -> None:
    job = await site.submit("wait")
    async with listening(site, f"/v1/jobs/{job}/partial", **EVENTS) as listener:
        first = await listener.next()
        assert first == {"id": "1-1", "event": "partial", "data": {"id": "1-1", "attempt": 1, "value": 1}}
        gates.go_on.set()
        second, end = await listener.next(), await listener.next()
        assert second is not None
        assert (second["data"]["value"], end) == (2, {"event": "end", "data": {}})
    answer = await site.ask("GET", f"/v1/jobs/{job}/partial?after=1-1")
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.body == b'{"id":"1-2","attempt":1,"value":2}\n'


@pytest.mark.parametrize("room", ["logs", "partial"])
@pytest.mark.parametrize("headers", [{}, EVENTS])
async def test_jobs_of_other_tenants_are_none(site: Site, room: str, headers: dict[str, str]) -> None:
    job = await site.submit("talk")
    for key, id in (("other-admin", job), ("viewer", UNKNOWN)):
        answer = await site.ask("GET", f"/v1/jobs/{id}/{room}", key=key, headers=headers)
        assert (answer.status, answer.document["title"]) == (404, "There is no such thing")
    assert (await site.ask("GET", f"/v1/jobs/{job}/{room}", key="worker", headers=headers)).status == 403


@pytest.mark.parametrize(
    ("query", "headers", "field"),
    [
        ("?after=1", {}, "after"),
        ("?attempt=0", {}, "attempt"),
        ("?attempt=x", {}, "attempt"),
        ("?follow=perhaps", {}, "follow"),
        ("?tail=1", {}, "tail"),
        ("", {"Last-Event-ID": "1-1-1"}, "Last-Event-ID"),
        ("", {"Last-Event-ID": "1", **EVENTS}, "after"),
    ],
)
async def test_questions_that_make_no_sense(site: Site, query: str, headers: dict[str, str], field: str) -> None:
    job = await site.submit("talk")
    answer = await site.ask("GET", f"/v1/jobs/{job}/logs{query}", headers=headers)
    assert (answer.status, answer.document["field"]) == (422, field)


def spoil(folder: Path, room: str, number: int) -> None:
    """Make a piece one that does not open."""
    (first,) = (folder / "jobs.db.objects").rglob(f"{room}/*/0000000001")
    first.with_name(f"{number:010}").write_bytes(b"\x93mainspring-sealed-object-1\n\x00 and no more")


@pytest.mark.parametrize("room", ["logs", "partial"])
@pytest.mark.parametrize("query", ["?follow=false", "?follow=true"])
@pytest.mark.parametrize("headers", [{}, LINES, EVENTS])
async def test_what_cannot_be_read_at_all_is_an_error(
    site: Site, folder: Path, room: str, query: str, headers: dict[str, str]
) -> None:
    job = await site.submit("talk")
    await site.ended(job)
    spoil(folder, room, 1)
    answer = await site.ask("GET", f"/v1/jobs/{job}/{room}{query}", headers=headers)
    assert (answer.status, answer.document["title"]) == (503, "Secrets cannot be used on this server")


@pytest.mark.parametrize(("room", "headers"), [("logs", {}), ("logs", LINES), ("partial", LINES)])
async def test_what_breaks_off_is_not_taken_for_whole(
    site: Site, folder: Path, room: str, headers: dict[str, str]
) -> None:
    job = await site.submit("talk")
    await site.ended(job)
    spoil(folder, room, 3)
    with pytest.raises(aiohttp.ClientPayloadError):
        await site.ask("GET", f"/v1/jobs/{job}/{room}", headers=headers)


async def test_events_that_break_off_have_no_end(site: Site, folder: Path) -> None:
    job = await site.submit("talk")
    await site.ended(job)
    spoil(folder, "partial", 3)
    async with listening(site, f"/v1/jobs/{job}/partial", **EVENTS) as listener:
        heard = [await listener.next() for _ in range(3)]
    assert [event and event["event"] for event in heard] == ["partial", "partial", None]


async def test_a_stream_of_lines_breaks_off_with_its_key(
    site: Site, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "CHECK_S", 0.01)
    made = (await site.ask("POST", "/v1/keys", {"name": "short", "role": "viewer"}, key="admin")).document
    headers = {"Authorization": f"Bearer {made['key']}"}
    job = await site.submit("wait")
    await gates.begun.wait()
    async with site.client.get(f"{site.url}/v1/jobs/{job}/logs?follow=true", headers=headers) as response:
        assert response.status == 200
        await site.ask("DELETE", f"/v1/keys/{made['id']}", key="admin")
        async with asyncio.timeout(15):
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()
