"""Server-sent events over connections that break."""

from contextlib import aclosing

import pytest
from aiohttp import web
from msgspec import json

from client.serving import connected, cut
from mainspring.client import events
from mainspring.client.asking import Asker
from mainspring.client.events import listen, listen_to_job
from mainspring.core.retry import Backoff
from mainspring.errors import NotFoundError


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_BACKOFF", Backoff(base_s=0.01, cap_s=0.01))


def event(word: str = "ended", number: int = 1) -> bytes:
    document = {
        "event": word,
        "id": f"job-{number}",
        "kind": "send",
        "queue": "default",
        "tenant": "default",
        "state": "completed",
        "attempt": 1,
        "at": "2030-01-01T00:00:00Z",
    }
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, word.encode(), json.encode(document))


async def stream(request: web.BaseRequest, *parts: bytes) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for part in parts:
        await response.write(part)
    return response


async def test_a_broken_stream_goes_on_behind_the_last_event() -> None:
    seen: list[str | None] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.headers.get("Last-Event-ID"))
        first = len(seen) * 2
        response = await stream(request, b": hello\n\n", event(number=first), event(number=first + 1))
        cut(request)
        return response

    async with connected(handler) as transport, aclosing(listen(Asker(transport, None), "/v1/events", "1")) as stream_:
        found = []
        async for id_, document in stream_:
            assert document is not None
            found.append((id_, document.id))
            if len(found) == 4:
                break
    assert found == [(str(number), f"job-{number}") for number in (2, 3, 4, 5)]
    assert seen == ["1", "3"]


async def test_parts_of_lines_and_resets() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        whole = b"id: 5\r\nevent: reset\r\n\r\n" + event(number=6)
        return await stream(request, *(whole[place : place + 7] for place in range(0, len(whole), 7)))

    async with connected(handler) as transport, aclosing(listen(Asker(transport, None), "/v1/events", None)) as found:
        assert await anext(found) == ("5", None)
        id_, document = await anext(found)
    assert (id_, document.id if document else None) == ("6", "job-6")


async def test_a_jobs_stream_ends_with_the_job() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return await stream(request, event("started"), event("progress"), event("ended"), event("started"))

    async with connected(handler) as transport:
        found = [document.event async for document in listen_to_job(Asker(transport, None), "/v1/jobs/x/events")]
    assert found == ["started", "progress", "ended"]


async def test_a_refusal_is_raised() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        problem = {"type": "/v1/problems/not-found", "title": "no", "status": 404, "detail": "no such job"}
        return web.Response(status=404, body=json.encode(problem))

    async with connected(handler) as transport:
        with pytest.raises(NotFoundError, match="no such job"):
            await anext(listen_to_job(Asker(transport, None), "/v1/jobs/x/events"))
