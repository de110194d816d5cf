"""The type http against real servers: what is sent, what comes back, and where it never goes."""

import asyncio
import gzip
import hashlib
import hmac
import io
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from execute.typed import Typed, typed

from mainspring.core.partition import format_id
from mainspring.errors import InvalidError
from mainspring.execute.http import bodies, exchange
from mainspring.execute.types.http import TYPE
from mainspring.wire import OutcomeType

JOB_ID = format_id(bytes(15) + b"\x07")


class Receiver:
    """A server that remembers what it was asked; each path is one behaviour."""

    def __init__(self) -> None:
        self.requests: list[tuple[web.BaseRequest, bytes]] = []
        self.gate = asyncio.Event()
        self.left = asyncio.Event()
        self.begun = asyncio.Event()
        self.url = ""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append((request, await request.read()))
        answer: Callable[[web.BaseRequest], Any] = getattr(self, request.path.split("/")[1] or "json")
        found: web.StreamResponse = await answer(request)
        return found

    async def json(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {"ETag": '"7"', "X-Other": "1", "Set-Cookie": "a=b"}
        return web.json_response({"ok": True, "n": [1, None]}, headers=headers)

    async def status(self, request: web.BaseRequest) -> web.StreamResponse:
        _, _, status, *after = request.path.split("/")
        headers = {"Retry-After": after[0].replace("_", " ")} if after else {}
        return web.Response(status=int(status), text="because\n of  this", headers=headers)

    async def go(self, request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": request.query["to"], "Set-Cookie": "a=b"})

    async def loop(self, request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "/loop"})

    async def body(self, request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"x" * int(request.query["size"]), content_type="text/plain")

    async def picture(self, request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"\x89PNG\0\xff", content_type="image/png")

    async def zipped(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {"Content-Encoding": "gzip"}
        return web.Response(body=gzip.compress(b"0" * 1_000_000), headers=headers, content_type="text/plain")

    async def half(self, request: web.BaseRequest) -> web.StreamResponse:
        """The start of a body, and no end while anybody listens."""
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begin")
        self.begun.set()
        try:
            await self.gate.wait()
        finally:
            self.left.set()
        return response

    async def broken(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def endless(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65_536)
        except (ConnectionError, asyncio.CancelledError):
            self.left.set()
            raise


async def serve(receiver: Receiver, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> Any:
    runner = web.ServerRunner(web.Server(receiver, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=tls).start()
    found = runner.addresses[0][1]
    receiver.url = f"{'http' if tls is None else 'https'}://{host}:{found}"
    return runner


@pytest.fixture
async def http() -> AsyncIterator[Typed]:
    async with typed(TYPE) as made:
        yield made


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    runner = await serve(receiver)
    yield receiver
    receiver.gate.set()
    await runner.cleanup()


@pytest.fixture(autouse=True)
def _allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_ALLOW_HOSTS", "127.0.0.1/32")


async def test_the_answer_is_the_result(http: Typed, server: Receiver) -> None:
    outcome = await http.run(url=server.url)

    assert outcome.type is OutcomeType.COMPLETED
    assert json.loads(outcome.result or b"") == {
        "status": 200,
        "headers": {"Content-Type": "application/json; charset=utf-8", "ETag": '"7"'},
        "body": {"ok": True, "n": [1, None]},
        "output": None,
        "size": 28,
    }
    assert outcome.usage is not None
    assert (outcome.usage.sent_bytes, outcome.usage.received_bytes) == (0, 28)


async def test_what_is_sent(http: Typed, server: Receiver) -> None:
    secrets = {"TOKEN": "s3cr3t/+", "PIN": '12"34'}
    await http.result(
        secrets=secrets,
        url=server.url + "/json?key={secret:TOKEN}",
        method="POST",
        headers={"Authorization": "Bearer {secret:TOKEN}"},
        body={"pin": "{secret:PIN}", "n": 1},
    )
    request, body = server.requests[0]

    assert request.method == "POST"
    assert request.query["key"] == "s3cr3t/+"
    assert request.headers["Authorization"] == "Bearer s3cr3t/+"
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Idempotency-Key"] == JOB_ID
    assert request.headers["Host"] == server.url.removeprefix("http://")
    assert json.loads(body) == {"pin": '12"34', "n": 1}


@pytest.mark.parametrize(
    ("path", "given", "fine"),
    [
        ("/status/404", {"expect": [404]}, True),
        ("/status/200", {"expect": [404]}, False),
        ("/status/299", {}, True),
        ("/status/304", {}, False),
    ],
)
async def test_what_is_expected_is_a_success(
    http: Typed, server: Receiver, path: str, given: dict[str, Any], fine: bool
) -> None:
    outcome = await http.run(url=server.url + path, **given)
    assert (outcome.type is OutcomeType.COMPLETED) is fine


async def test_a_refusal_is_final_and_says_what_was_answered(http: Typed, server: Receiver) -> None:
    message = await http.failure(
        secrets={"T": "hidden-part"}, url=server.url + "/status/404?token=open", headers={"X": "{secret:T}"}
    )
    assert message == f"GET {server.url}/status/404?… answered 404 Not Found: because of this"


async def test_a_secret_in_the_url_is_not_shown(http: Typed, server: Receiver) -> None:
    outcome = await http.run(secrets={"S": "status-404-hidden"}, url=server.url + "/status/404/{secret:S}")
    assert outcome.failure is not None
    assert outcome.failure.message.startswith(f"GET {server.url}/status/404/{{secret:S}} answered 404")
    assert "hidden" not in str(outcome)


async def test_a_url_may_be_a_secret(http: Typed, server: Receiver) -> None:
    outcome = await http.run(secrets={"HOOK": server.url + "/json"}, url="{secret:HOOK}")
    assert outcome.type is OutcomeType.COMPLETED


@pytest.mark.parametrize(
    ("path", "after_s"),
    [("/status/503/7", 7), ("/status/429/999999999", 86_400), ("/status/500", None), ("/status/408", None)],
)
async def test_what_may_pass_is_tried_again_when_the_server_says(
    http: Typed, server: Receiver, path: str, after_s: float | None
) -> None:
    outcome = await http.run(url=server.url + path, method="POST")

    assert outcome.type is OutcomeType.FAILED
    assert outcome.retry
    assert outcome.retry_after_s == after_s
    assert outcome.failure is not None
    assert " answered " in outcome.failure.message


@pytest.mark.parametrize("after", ["Mon, 01 Jan 99999999999 00:00:00 GMT", "soon", "Mon, 01 Jan 2030 00:00:00 -0000"])
async def test_retry_after_that_is_no_time_leaves_it_to_the_job(http: Typed, server: Receiver, after: str) -> None:
    outcome = await http.run(url=f"{server.url}/status/503/{after.replace(' ', '_')}")
    assert (outcome.retry, outcome.retry_after_s) == (True, None)
    assert outcome.failure is not None
    assert " answered 503 " in outcome.failure.message


async def test_retry_after_may_be_a_date(http: Typed, server: Receiver) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True).replace(" ", "_")
    outcome = await http.run(url=f"{server.url}/status/503/{at}")
    assert outcome.retry_after_s == pytest.approx(60, abs=5)


async def test_the_job_may_say_after_which_statuses_to_try_again(http: Typed, server: Receiver) -> None:
    assert (await http.run(url=server.url + "/status/404", retry_on_status=[404])).retry


async def test_no_status_is_both_expected_and_tried_again(http: Typed) -> None:
    with pytest.raises(InvalidError, match=r"arguments\.retry_on_status: 202 .* completes the job"):
        http.submit(url="https://example.org", retry_on_status=[202, 503])
    with pytest.raises(InvalidError, match=r"arguments\.retry_on_status: 404 .* completes the job"):
        http.submit(url="https://example.org", expect=[404], retry_on_status=[404])


async def test_nobody_there_is_tried_again(http: Typed) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        outcome = await http.run(url=url)
    assert outcome.retry
    assert outcome.failure is not None
    assert outcome.failure.message.startswith(f"GET {url}: no connection: ")


async def test_redirects_on_the_same_host_are_followed_without_cookies(http: Typed, server: Receiver) -> None:
    result = await http.result(url=server.url + "/go?to=/json")
    assert result["body"] == {"ok": True, "n": [1, None]}
    assert "Cookie" not in server.requests[1][0].headers


async def test_redirects_elsewhere_are_not(http: Typed, server: Receiver) -> None:
    other = f"http://localhost:{server.url.rpartition(':')[2]}"
    assert f"redirects to {other}" in await http.failure(url=f"{server.url}/go?to={other}/json")
    assert len(server.requests) == 1


@pytest.mark.parametrize("to", ["https://127.0.0.1/", "http://127.0.0.1:1/", "ftp://127.0.0.1/", "file:///etc/passwd"])
async def test_another_scheme_or_port_is_elsewhere(http: Typed, server: Receiver, to: str) -> None:
    assert "redirects to" in await http.failure(url=f"{server.url}/go?to={to}")


async def test_redirects_have_an_end(http: Typed, server: Receiver) -> None:
    assert "more than 5 times" in await http.failure(url=server.url + "/loop")
    assert len(server.requests) == 6


async def test_a_redirect_can_be_the_answer(http: Typed, server: Receiver) -> None:
    assert (await http.result(url=server.url + "/go?to=/json", expect=[302]))["headers"]["Location"] == "/json"
    assert "answered 302" in await http.failure(url=server.url + "/go?to=/json", method="POST")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "017700000001", "127.1", "0", "0.0.0.0", "[::ffff:127.0.0.1]"],
)
async def test_what_is_not_public_is_refused_however_it_is_spelt(
    http: Typed, server: Receiver, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.delenv("MAINSPRING_ALLOW_HOSTS")
    message = await http.failure(url=f"http://{host}:{server.url.rpartition(':')[2]}/json")

    assert "MAINSPRING_ALLOW_HOSTS=" in message or "neither a name nor an address in its usual form" in message
    assert not server.requests


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that `moving.example` has, one after the other, as its owner's DNS server would tell."""
    given: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        return real(given.pop(0) if host == "moving.example" else host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return given


async def test_an_address_that_is_refused_is_not_why_another_one_fails(
    http: Typed, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name with two addresses, one of them inside: what happens at the other is what counts."""
    port = int(server.url.rpartition(":")[2])
    real = socket.getaddrinfo

    def resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
        places = ["127.0.0.2", "127.0.0.1"] if host == "both.example" else [host]
        return [found for place in places for found in real(place, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    outcome = await http.run(url=f"http://both.example:{port}/broken")
    assert outcome.failure is not None
    assert outcome.retry, outcome.failure.message
    assert server.requests


async def test_a_name_that_moves_inside_after_it_was_looked_at(
    http: Typed, server: Receiver, answers: list[str]
) -> None:
    port = server.url.rpartition(":")[2]
    answers += ["127.0.0.1", "127.0.0.2"]
    inside = Receiver()
    runner = await serve(inside, "127.0.0.2", int(port))
    try:
        # One look is all there is: what was checked is what is connected to.
        assert (await http.result(url=f"http://moving.example:{port}/json"))["status"] == 200
        assert answers == ["127.0.0.2"]
        # And each connection is checked, also the next one to the same name.
        answers.insert(0, "127.0.0.1")
        assert "is 127.0.0.2, which is not a public" in await http.failure(
            url=f"http://moving.example:{port}/go?to=/json"
        )
        assert not inside.requests
    finally:
        await runner.cleanup()


async def test_proxies_of_the_environment_are_not_asked(
    http: Typed, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await http.result(url=server.url))["status"] == 200


@pytest.fixture
async def safe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Receiver, Path]]:
    """A server with https for the name localhost, and the file that makes it trusted."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    receiver = Receiver()
    runner = await serve(receiver, tls=context)
    receiver.url = receiver.url.replace("127.0.0.1", "localhost")
    exchange.trusted.cache_clear()
    yield receiver, folder / "ca.pem"
    exchange.trusted.cache_clear()
    await runner.cleanup()


async def test_https_is_for_the_name_in_the_url(
    http: Typed, safe: tuple[Receiver, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, file = safe
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    assert (await http.result(url=server.url))["status"] == 200

    outcome = await http.run(url=server.url.replace("localhost", "127.0.0.1"))
    assert outcome.failure is not None
    assert "certificate is not trusted" in outcome.failure.message


async def test_who_is_not_trusted_gets_nothing(http: Typed, safe: tuple[Receiver, Path]) -> None:
    outcome = await http.run(url=safe[0].url)
    assert outcome.failure is not None
    assert "certificate is not trusted" in outcome.failure.message
    assert not safe[0].requests


def _is_signed(request: web.BaseRequest, body: bytes, key: str) -> bool:
    """As a receiver would write it, from the documentation alone."""
    at, given = (part.partition("=")[2] for part in request.headers["Mainspring-Signature"].split(","))
    digest = hashlib.sha256(body).hexdigest()
    text = f"{at}\n{request.method}\n{request.raw_path}\n{digest}"
    made = hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
    return hmac.compare_digest(made, given) and abs(int(at) - datetime.now(UTC).timestamp()) < 300


async def test_a_receiver_knows_a_signed_request(http: Typed, server: Receiver) -> None:
    await http.result(
        secrets={"KEY": "shared secret"},
        url=server.url + "/json?a=ä b%2F".replace(" ", "%20"),
        method="POST",
        body="hello",
        sign="KEY",
    )
    request, body = server.requests[0]
    assert _is_signed(request, body, "shared secret")
    assert not _is_signed(request, b"other", "shared secret")
    assert not _is_signed(request, body, "another secret")


async def test_each_hop_is_signed_for_itself(http: Typed, server: Receiver) -> None:
    await http.result(secrets={"KEY": "shared secret"}, url=server.url + "/go?to=/json", sign="KEY")
    assert all(_is_signed(request, body, "shared secret") for request, body in server.requests)


async def test_a_secret_that_the_job_has_not(http: Typed, server: Receiver) -> None:
    assert "no secret 'NOPE'" in await http.failure(url=server.url, headers={"A": "{secret:NOPE}"})
    assert "no secret 'KEY'" in await http.failure(url=server.url, sign="KEY")


async def test_a_large_answer_is_an_output(http: Typed, server: Receiver) -> None:
    outcome = await http.run(url=server.url + "/body?size=200000")
    assert outcome.type is OutcomeType.COMPLETED
    result = json.loads(outcome.result or b"")
    assert (result["body"], result["output"], result["size"]) == (None, "response", 200_000)
    assert [(stored.name, stored.size, stored.media) for stored in outcome.outputs] == [
        ("response", 200_000, "text/plain")
    ]
    assert await http.object("outputs/000001/response") == b"x" * 200_000


async def test_a_slow_disk_keeps_nobody_waiting(http: Typed, server: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes is written beside the worker's event loop."""
    written_in: list[threading.Thread] = []
    real = Path.open

    class Slow(io.FileIO):
        def write(self, data: Any) -> int:
            written_in.append(threading.current_thread())
            return super().write(data) or 0

    monkeypatch.setattr(Path, "open", lambda path, *mode: Slow(path, "w") if mode == ("wb",) else real(path, *mode))
    assert (await http.result(url=server.url + "/body?size=200000"))["size"] == 200_000
    assert written_in
    assert threading.current_thread() not in written_in


async def test_an_answer_that_is_no_text_is_an_output(http: Typed, server: Receiver) -> None:
    outcome = await http.run(url=server.url + "/picture")
    assert outcome.outputs[0].media == "image/png"
    assert await http.object("outputs/000001/response") == b"\x89PNG\0\xff"


@asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[str]:
    """The URL of a server that answers with these very bytes."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(say, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"HTTP/1.1 200 OK\r\nX\0: 1\r\n\r\n", b"hello\r\n\r\n"],
)
async def test_what_is_no_answer_is_said_without_the_query(http: Typed, answer: bytes) -> None:
    async with saying(answer) as url:
        outcome = await http.run(url=f"{url}?customer=7")
    assert outcome.failure is not None
    assert outcome.retry
    assert outcome.failure.message.startswith(f"GET {url}?…: no answer in HTTP: ")
    assert "customer" not in str(outcome.failure)


@pytest.mark.parametrize("kind", [b"image/\xe9", b"a/b c", b"a/" + b"b" * 400, b"text/html; charset=\xff"])
async def test_headers_that_nobody_should_send_are_no_failure(http: Typed, kind: bytes) -> None:
    async with saying(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nContent-Length: 2\r\n\r\n\0\1") as url:
        outcome = await http.run(url=url)
    assert outcome.failure is None
    assert await http.object("outputs/000001/response") == b"\0\1"
    assert json.loads(outcome.result or b"")["headers"]["Content-Type"] == kind.decode(errors="replace")


async def test_what_is_packed_stays_packed(http: Typed, server: Receiver) -> None:
    result = await http.result(url=server.url + "/zipped")
    assert result["headers"]["Content-Encoding"] == "gzip"
    assert gzip.decompress(await http.object("outputs/000001/response")) == b"0" * 1_000_000
    assert server.requests[0][0].headers["Accept-Encoding"] == "identity"


async def test_no_answer_is_larger_than_the_bound(
    http: Typed, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_RESPONSE_BYTES", 1_000_000)
    assert "larger than 1,000,000 bytes" in await http.failure(url=server.url + "/endless")
    await asyncio.wait_for(server.left.wait(), 5)


@pytest.mark.parametrize(
    ("path", "received"), [("/json", 28), ("/status/404", 17), ("/status/503", 17), ("/go?to=http://a.example", 0)]
)
async def test_what_went_over_the_network_is_measured_however_it_ends(
    http: Typed, server: Receiver, path: str, received: int
) -> None:
    usage = (await http.run(url=server.url + path, body="hello")).usage
    assert usage is not None
    assert (usage.sent_bytes, usage.received_bytes) == (5, received)


async def test_also_where_there_is_no_end(http: Typed, server: Receiver) -> None:
    usage = (await http.run(url=server.url + "/half", timeout_s=0.2)).usage
    assert usage is not None
    assert (usage.sent_bytes, usage.received_bytes) == (0, 5)


async def test_nothing_goes_to_nobody(http: Typed) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        outcome = await http.run(url=f"http://127.0.0.1:{closed.getsockname()[1]}/", body="hello")
    assert outcome.usage is not None
    assert (outcome.usage.sent_bytes, outcome.usage.received_bytes) == (0, 0)


async def test_a_cancel_leaves_in_the_middle_of_a_body(http: Typed, server: Receiver) -> None:
    job = http.submit(url=server.url + "/half")
    await asyncio.wait_for(server.begun.wait(), 5)
    http.link.cancel(job)
    assert (await http.link.outcome(job)).type is OutcomeType.CANCELLED
    await asyncio.wait_for(server.left.wait(), 5)


async def test_so_does_a_timeout(http: Typed, server: Receiver) -> None:
    outcome = await http.run(url=server.url + "/half", timeout_s=0.2)
    assert outcome.failure is not None
    assert outcome.failure.reason == "timeout"
    await asyncio.wait_for(server.left.wait(), 5)
