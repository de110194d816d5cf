"""Triggers over HTTP: what a lost answer means, with a key and without."""

import pytest
from aiohttp import web

from client.serving import connected, cut
from mainspring.client.asking import Asker
from mainspring.client.schedules import RemoteSchedules
from mainspring.errors import InvalidError, ServerError
from mainspring.verbs.documents import Submitted


class Losing:
    """A server whose first answer gets lost."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        self.keys.append(request.headers.get("Idempotency-Key"))
        if len(self.keys) == 1:
            cut(request)
        return web.json_response({"id": "made", "existed": True})


async def test_a_trigger_with_a_key_is_sent_again() -> None:
    server = Losing()
    async with connected(server) as transport:
        made = await RemoteSchedules(Asker(transport, None)).trigger("daily", "kö 1")
    assert (made, server.keys) == (Submitted(id="made", existed=True), ["kö 1", "kö 1"])


async def test_a_trigger_without_a_key_is_sent_once() -> None:
    server = Losing()
    async with connected(server) as transport:
        with pytest.raises(ServerError) as caught:
            await RemoteSchedules(Asker(transport, None)).trigger("daily")
    assert (caught.value.uncertain, server.keys) == (True, [None])


@pytest.mark.parametrize("key", [" a", "a ", ""])
async def test_a_key_that_a_header_cannot_carry_is_refused(key: str) -> None:
    server = Losing()
    async with connected(server) as transport:
        with pytest.raises(InvalidError, match=r"^key"):
            await RemoteSchedules(Asker(transport, None)).trigger("daily", key)
    assert server.keys == []
