"""A server as a whole: health, stopping, TLS, ports, its own description."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from api.site import Site, make_app, running
from mainspring import InvalidError
from mainspring.app.serving import Serving, listen
from mainspring.config import ServeSettings, serve_settings
from mainspring.errors import StoreUnavailableError


async def test_health_and_version_need_no_key(site: Site) -> None:
    for path in ("/v1/health/live", "/v1/health/ready"):
        answer = await site.ask("GET", path, key=None)
        assert (answer.status, answer.document) == (200, {"status": "ok", "detail": ""})
    version = (await site.ask("GET", "/v1/version", key=None)).document
    assert (version["protocol"], version["store"]) == (1, "sqlite")


async def test_not_ready_while_the_store_is_away(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailableError("connection to db.internal:5432 refused for user mainspring")

    monkeypatch.setattr(site.app.store, "read_keys", away)
    answer = await site.ask("GET", "/v1/health/ready", key=None)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert "db.internal" not in answer.body.decode()
    assert (await site.ask("GET", "/v1/health/live", key=None)).status == 200


async def test_stopping_lets_everybody_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(make_app(f"sqlite:///{folder}/jobs.db")) as site:
        job = await site.submit(delay="1h")
        waiter, both_wait = site.app.engine.waiter, asyncio.Barrier(3)
        wait_any = waiter.wait_any

        async def noticed(*given: Any) -> Any:
            await both_wait.wait()
            return await wait_any(*given)

        monkeypatch.setattr(waiter, "wait_any", noticed)
        one = asyncio.create_task(site.ask("GET", f"/v1/jobs/{job}/wait?timeout_s=60"))
        many = asyncio.create_task(site.ask("POST", "/v1/jobs/wait", {"ids": [job], "timeout_s": 60}))
        async with asyncio.timeout(10):
            await both_wait.wait()
        site.serving.drain()
        async with asyncio.timeout(10):
            assert (await one).status == 204
            assert (await many).document["ended"] == []
        assert (await site.ask("GET", "/v1/health/ready", key=None)).status == 503
        assert (await site.ask("GET", "/v1/health/live", key=None)).status == 200
        late = await site.ask("GET", f"/v1/jobs/{job}/wait?timeout_s=60")
        assert (late.status, "stopping" in late.document["detail"], "Retry-After" in late.headers) == (503, True, True)
    with pytest.raises(aiohttp.ClientConnectorError):
        async with aiohttp.ClientSession() as session:
            await session.get(site.url + "/v1/health/live")


async def test_tls(folder: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    cert, key = folder / "cert.pem", folder / "key.pem"
    for blob in issued.cert_chain_pems:
        blob.write_to_path(cert, append=True)
    issued.private_key_pem.write_to_path(key)
    settings = serve_settings(port=0, tls_cert=str(cert), tls_key=str(key), environ={})
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with running(
        make_app(f"sqlite:///{folder}/jobs.db"), settings, connector=aiohttp.TCPConnector(ssl=trusting)
    ) as site:
        assert site.url.startswith("https://")
        assert (await site.ended(await site.submit()))["result"] == 3
        async with aiohttp.ClientSession() as stranger:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await stranger.get(site.url + "/v1/health/live")


def test_a_certificate_that_is_none(folder: Path) -> None:
    (folder / "cert.pem").write_text("hello")
    settings = ServeSettings(port=0, tls_cert=str(folder / "cert.pem"), tls_key=str(folder / "cert.pem"))
    with pytest.raises(InvalidError, match="cannot be used") as caught:
        Serving(settings)
    assert caught.value.field == "tls_cert"


async def test_the_first_start_makes_a_key_once(folder: Path) -> None:
    for first in (True, False):
        async with running(make_app(f"sqlite:///{folder}/jobs.db")) as site:
            assert (site.serving.first_key is not None) == first
            if site.serving.first_key is not None:
                site.keys["first"] = site.serving.first_key
                assert (await site.ask("GET", "/v1/tenants", key="first")).status == 200


def test_a_taken_port() -> None:
    taken = Serving(ServeSettings(port=0))
    try:
        with pytest.raises(InvalidError, match="is taken by another program") as caught:
            listen(ServeSettings(port=taken.settings.port))
        assert caught.value.field == "port"
    finally:
        taken.close()


async def test_a_server_knows_its_url(folder: Path) -> None:
    settings = serve_settings(port=0, url="http://10.0.0.1:8420", environ={})
    async with running(make_app(f"sqlite:///{folder}/jobs.db"), settings) as site:
        (node,) = (await site.ask("GET", "/v1/nodes")).document
        assert node["url"] == "http://10.0.0.1:8420"


WRONG = {
    "no keys for everybody": ({"host": "0.0.0.0", "keys": False}, "no_keys"),
    "no keys by name": ({"host": "jobs.example.org", "keys": False}, "no_keys"),
    "half of TLS": ({"tls_cert": "cert.pem"}, "tls_key"),
    "the other half": ({"tls_key": "key.pem"}, "tls_cert"),
    "no such file": ({"tls_cert": "/nowhere", "tls_key": "/nowhere"}, "tls_cert"),
    "a port too high": ({"port": 65_536}, "port"),
}


@pytest.mark.parametrize(("given", "field"), WRONG.values(), ids=WRONG.keys())
def test_settings_that_cannot_be(given: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        serve_settings(**given, environ={})  # type: ignore[arg-type]
    assert caught.value.field == field


def test_settings_from_the_environment() -> None:
    found = serve_settings(environ={"MAINSPRING_HOST": "::1", "MAINSPRING_PORT": "99", "MAINSPRING_URL": "https://a.b"})
    assert (found.address, found.url) == ("http://[::1]:99", "https://a.b")
    with pytest.raises(InvalidError):
        serve_settings(environ={"MAINSPRING_PORT": "many"})


async def test_the_api_describes_itself_without_a_key(site: Site) -> None:
    assert (await site.ask("GET", "/v1/openapi.json", key=None)).document["openapi"] == "3.1.0"
