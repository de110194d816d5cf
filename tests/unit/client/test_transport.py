"""The transport against real servers: what is repeated, what is not, and what a refusal becomes."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from mainspring.client.transport import Transport
from mainspring.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    LimitedError,
    MainspringError,
    NotFoundError,
    ServerError,
    SessionEndedError,
    StoreUnavailableError,
    StoreUncertainError,
    UnknownKeyError,
)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield str(site.name)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(url: str, *, retry_for_s: float = 5.0) -> AsyncIterator[Transport]:
    transport = Transport(url, "msk_key", tenant="acme", retry_for_s=retry_for_s)
    try:
        yield transport
    finally:
        await transport.close()


def problem(status: int, slug: str, headers: dict[str, str] | None = None, **more: object) -> web.Response:
    document = {"type": f"/v1/problems/{slug}", "title": "no", "status": status, "detail": "because", **more}
    return web.Response(
        status=status, body=json.dumps(document), content_type="application/problem+json", headers=headers
    )


async def test_a_request_carries_the_key_the_tenant_and_its_body() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.headers["Authorization"] == "Bearer msk_key"
        assert request.headers["Mainspring-Tenant"] == "acme"
        assert request.headers["Content-Type"] == "application/x-ndjson"
        assert request.path_qs == "/prefix/v1/jobs?limit=2"
        return web.Response(body=await request.read(), headers={"X": "y"})

    async with serving(handler) as url, connected(f"{url}/prefix/") as transport:
        reply = await transport.request(
            "POST", "/v1/jobs", body=b"{}\n", content_type="application/x-ndjson", query={"limit": "2"}
        )
    assert (reply.status, reply.body, reply.headers["X"]) == (200, b"{}\n", "y")


@pytest.mark.parametrize(
    ("status", "slug", "error"),
    [
        (401, "unknown-key", UnknownKeyError),
        (403, "forbidden", ForbiddenError),
        (404, "not-found", NotFoundError),
        (409, "conflict", ConflictError),
        (410, "session-ended", SessionEndedError),
        (503, "unavailable", StoreUnavailableError),
        (500, "uncertain", StoreUncertainError),
        (500, "anything", ServerError),
    ],
)
async def test_a_problem_is_our_error(status: int, slug: str, error: type[MainspringError]) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return problem(status, slug)

    async with serving(handler) as url, connected(url, retry_for_s=0) as transport:
        with pytest.raises(error, match="because"):
            await transport.request("GET", "/v1/jobs")


async def test_invalid_and_limited_name_their_field() -> None:
    answers = [
        problem(422, "invalid", field="kind", detail="kind: is unknown"),
        problem(429, "limited", {"Retry-After": "7"}, field="queued", detail="too many"),
    ]

    async def handler(_: web.BaseRequest) -> web.Response:
        return answers.pop(0)

    async with serving(handler) as url, connected(url, retry_for_s=0) as transport:
        with pytest.raises(InvalidError) as invalid:
            await transport.request("POST", "/v1/jobs", body=b"{}")
        with pytest.raises(LimitedError) as limited:
            await transport.request("POST", "/v1/jobs", body=b"{}")
    assert (invalid.value.field, invalid.value.problem) == ("kind", "is unknown")
    assert (limited.value.field, limited.value.retry_after_s) == ("queued", 7.0)


async def test_an_answer_that_is_no_problem_document_says_that_it_is_none() -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(status=404, text="<html>not here</html>")

    async with serving(handler) as url, connected(url) as transport:
        with pytest.raises(ServerError, match="is it a Mainspring server"):
            await transport.request("GET", "/v1/jobs", repeatable=True)


async def test_what_may_be_repeated_is_repeated_until_it_is_answered() -> None:
    seen: list[bytes] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(await request.read())
        if len(seen) == 1:
            assert request.transport is not None
            request.transport.close()
        if len(seen) == 2:
            return web.Response(status=502, text="bad gateway")
        return problem(503, "unavailable") if len(seen) == 3 else web.Response(body=b"done")

    async with serving(handler) as url, connected(url) as transport:
        reply = await transport.request("POST", "/v1/x", body=b"same", repeatable=True)
    assert (reply.body, seen) == (b"done", [b"same"] * 4)


async def test_what_may_not_be_repeated_is_sent_once_where_it_may_have_been_carried_out() -> None:
    seen: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request.path)
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with serving(handler) as url, connected(url) as transport:
        with pytest.raises(ServerError, match="no answer from"):
            await transport.request("POST", "/v1/x", body=b"{}")
    assert seen == ["/v1/x"]


async def test_what_was_certainly_not_carried_out_is_sent_again() -> None:
    seen: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request.path)
        return problem(503, "unavailable") if len(seen) == 1 else web.Response(body=b"done")

    async with serving(handler) as url, connected(url) as transport:
        assert (await transport.request("POST", "/v1/x", body=b"{}")).body == b"done"
    assert len(seen) == 2


async def test_a_server_that_is_not_there_is_a_clear_error_after_bounded_retries() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with connected(url, retry_for_s=0.3) as transport, asyncio.timeout(10):
        with pytest.raises(ServerError, match=r"no answer from http://127.0.0.1:\d+: .*is the server running"):
            await transport.request("POST", "/v1/x", body=b"{}")


async def test_a_request_that_takes_too_long_is_given_up() -> None:
    forever = asyncio.Event()

    async def handler(_: web.BaseRequest) -> web.Response:
        await forever.wait()
        return web.Response()

    async with serving(handler) as url, connected(url, retry_for_s=0) as transport:
        with pytest.raises(ServerError, match="no answer"):
            await transport.request("POST", "/v1/x", body=b"{}", timeout_s=0.05)
        forever.set()


async def test_a_stream_is_read_as_it_comes_and_refusals_are_errors() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("no"):
            return problem(404, "not-found")
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"data: 1\n")
        await response.write(b"data: 2\n")
        return response

    async with serving(handler) as url, connected(url) as transport:
        async with transport.stream("/v1/events") as lines:
            assert [line async for line in lines] == [b"data: 1\n", b"data: 2\n"]
        with pytest.raises(NotFoundError):
            async with transport.stream("/v1/no"):
                pass


@pytest.mark.parametrize("url", ["localhost:8420", "ftp://host", "http://", "http://user:word@host", "http://host?a=b"])
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidError, match="server"):
        Transport(url)
