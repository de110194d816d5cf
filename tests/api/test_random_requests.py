"""Random requests after docs/reference/openapi.json: never a 5xx, and no answer that the file does not describe."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.site import make_app, running
from api.walking import STREAMS
from mainspring import Context
from mainspring.access.roles import PERMISSIONS, Role

FILE = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
PARTED = ("application/x-ndjson", "text/event-stream")  # of which the file describes a line, or nothing
EXAMPLES = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 12  # per operation


@schemathesis.serializer("application/msgpack", "application/vnd.msgpack", "application/x-msgpack")
def packed(_: object, value: Any) -> bytes:
    return bytes(msgpack.packb(value, default=str))


@schemathesis.deserializer("application/msgpack", "application/vnd.msgpack", "application/x-msgpack")
def unpacked(_: object, response: schemathesis.Response) -> Any:
    return msgpack.unpackb(response.content)


@schemathesis.serializer("application/x-ndjson")
def lines(_: object, value: Any) -> bytes:
    items = value if isinstance(value, list) else [value]
    return b"\n".join(json.dumps(item, default=str).encode() for item in items)


@schemathesis.deserializer("application/x-ndjson")
def parted(_: object, response: schemathesis.Response) -> Any:
    return [json.loads(line) for line in response.content.splitlines()]


ENDLESS = ("queue_events", "all_events")
ENDING = tuple(stream for stream in STREAMS if stream not in ENDLESS)  # with the job that they are about

described = schemathesis.openapi.from_path(FILE).exclude(operation_id=list(ENDLESS))


class Background:
    """A server in a thread: schemathesis blocks."""

    def __init__(self, folder: Path) -> None:
        self.url = ""
        self.keys: dict[str, str] = {}
        self.job = ""  # which has ended, and has left something everywhere
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(30)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = make_app(f"sqlite:///{self._folder}/jobs.db")

        @app.job()
        async def talk(ctx: Context) -> None:
            ctx.log("said")
            await ctx.emit("given")

        async with running(app) as site:
            self.url, self.keys, self.job = site.url, site.keys, await site.submit("talk")
            await site.ended(self.job)
            self._ready.set()
            await self._stop.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    made = Background(tmp_path_factory.mktemp("random"))
    yield made
    made.stop()


@described.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_sent(case: "schemathesis.Case[Any]", server: Background) -> None:
    operation: str = case.operation.definition.raw["operationId"]
    roles = PERMISSIONS.get(operation, frozenset())
    role = Role.ADMIN if not roles or Role.ADMIN in roles else min(roles)
    headers = {"Authorization": f"Bearer {server.keys[f'{role}*']}"}
    if operation not in ENDING:
        case.call_and_validate(base_url=server.url, headers=headers, checks=CHECKS)
        return
    case.path_parameters = {"id": server.job}
    for media in case.operation.definition.raw["responses"]["200"]["content"]:
        checks = [check for check in CHECKS if check is not response_schema_conformance or media not in PARTED]
        case.call_and_validate(base_url=server.url, headers={**headers, "Accept": media}, checks=checks, timeout=20)
