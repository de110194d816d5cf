"""Bodies and heads that lie, never end, or never come: refused at once, with bounded memory."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from api.site import Site
from mainspring.api import bodies, protocol
from mainspring.api.limits import MAX_BATCH_BODY, MAX_BATCH_ITEMS, MAX_BODY, MAX_HEAD

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connection(site: Site) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.serving.settings.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def head(site: Site, *more: str, path: str = "/v1/jobs") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {site.keys['operator']}"]
    return "\r\n".join([*lines, "Content-Type: application/json", *more, "", ""]).encode()


async def status_of(reader: asyncio.StreamReader) -> int:
    """Of the next answer, which is a problem document."""
    async with asyncio.timeout(10):
        told = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in told.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    assert b"application/problem+json" in told
    problem = json.loads(await reader.readexactly(length))
    status: int = problem["status"]
    assert told.startswith(b"HTTP/1.1 %d " % status)
    return status


async def test_a_body_that_says_it_is_too_large_is_not_read(site: Site) -> None:
    for path, limit in (("/v1/jobs", MAX_BODY), ("/v1/jobs/batch", MAX_BATCH_BODY)):
        async with connection(site) as (reader, writer):
            writer.write(head(site, f"Content-Length: {limit + 1}", path=path))
            assert await status_of(reader) == 413
    async with connection(site) as (reader, writer):
        writer.write(head(site, f"Content-Length: {2**63 - 1}"))
        assert await status_of(reader) == 413


async def test_the_limit_to_the_byte(site: Site) -> None:
    document = json.dumps({"kind": "add", "arguments": {"a": 1}, "options": {"delay": "1h"}})
    for size, status in ((MAX_BODY, 201), (MAX_BODY + 1, 413)):
        answer = await site.ask("POST", "/v1/jobs", data=document.ljust(size).encode())
        assert answer.status == status, answer


async def test_a_body_without_an_end(site: Site) -> None:
    async with connection(site) as (reader, writer):
        writer.write(head(site, "Transfer-Encoding: chunked"))
        answered = asyncio.create_task(status_of(reader))
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        sent = 0
        while not answered.done():
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(0)
            sent += 0x10000
        assert await answered == 413
        assert sent < 20 * MAX_BODY


async def test_a_length_shorter_than_the_body(site: Site) -> None:
    """What follows is another request, and not one that HTTP allows: that ends the connection."""
    async with connection(site) as (reader, writer):
        writer.write(head(site, "Content-Length: 2") + b'{}{"kind": "add"}')
        assert await status_of(reader) in (400, 422)
    assert await site.count() == 0


async def test_a_length_longer_than_the_body(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SILENCE_S", 0.1)
    async with connection(site) as (reader, writer):
        writer.write(head(site, "Content-Length: 1000") + b'{"kind": "add", "arguments": {"a": 1}}')
        assert await status_of(reader) == 408
    assert await site.count() == 0


async def test_whoever_leaves_in_the_middle_has_submitted_nothing(site: Site) -> None:
    async with connection(site) as (_, writer):
        writer.write(head(site, "Content-Length: 1000") + b'{"kind": "add", "arguments": {"a": 1}}')
        await writer.drain()
    assert (await site.ask("GET", "/v1/jobs")).status == 200
    assert await site.count() == 0


HEADS = {
    "two lengths": ["Content-Length: 2", "Content-Length: 3"],
    "a length and chunks": ["Content-Length: 2", "Transfer-Encoding: chunked"],
    "a length that is no number": ["Content-Length: many"],
    "a negative length": ["Content-Length: -1"],
    "a control character": ["Mainspring-Tenant: a\x00b"],
    "a folded header": ["Mainspring-Tenant: a", " b"],
    "a name with a space": ["Main spring: a"],
}


@pytest.mark.parametrize("lines", HEADS.values(), ids=HEADS.keys())
async def test_heads_that_http_does_not_allow(site: Site, lines: list[str]) -> None:
    async with connection(site) as (reader, writer):
        writer.write(head(site, *lines) + b"{}")
        assert await status_of(reader) in (400, 422)
    assert await site.count() == 0


async def test_no_http_at_all(site: Site) -> None:
    async with connection(site) as (reader, writer):
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n")
        assert await status_of(reader) == 400
        assert await reader.read() == b""


async def test_a_head_without_an_end(site: Site) -> None:
    async with connection(site) as (reader, writer):
        writer.write(b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX: ")
        answered = asyncio.create_task(status_of(reader))
        sent = 0
        while not answered.done():
            writer.write(b"a" * 4096)
            await asyncio.sleep(0)
            sent += 4096
        assert await answered == 431
        assert sent < 100 * MAX_HEAD


async def test_a_head_that_does_not_come(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.05)
    for begun in (b"", b"GET /v1/jobs HT"):
        async with connection(site) as (reader, writer):
            writer.write(begun)
            async with asyncio.timeout(10):
                assert await reader.read() == b""


async def test_an_answer_to_whoever_asks_before_he_sends(site: Site) -> None:
    async with connection(site) as (reader, writer):
        writer.write(head(site, "Content-Length: 2", "Expect: 100-continue"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(b"{}")
        assert await status_of(reader) == 422


async def test_too_many_jobs_in_one_batch(site: Site) -> None:
    lines = b'{"kind":"add"}\n' * (MAX_BATCH_ITEMS + 1)
    answer = await site.ask("POST", "/v1/jobs/batch", data=lines, headers={"Content-Type": "application/x-ndjson"})
    assert (answer.status, answer.document["type"]) == (413, "/v1/problems/too-large")
    assert await site.count() == 0
