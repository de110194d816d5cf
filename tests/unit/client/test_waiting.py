"""Waiting over HTTP: few requests for many waiters, and what becomes of them when something goes wrong."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

import pytest
from aiohttp import web
from msgspec import json

from client.serving import connected, cut
from mainspring.client import waiting
from mainspring.client.asking import Asker
from mainspring.client.waiting import MOST, RemoteWaiter
from mainspring.core.partition import make_id
from mainspring.errors import ForbiddenError, NotFoundError, SecretsError, ServerError
from mainspring.verbs.documents import WaitRequest


def name(number: int) -> str:
    return str(uuid.UUID(bytes=make_id(1, 2, number)))


def ended(
    ids: Iterable[str], unknown: Iterable[str] = (), unreadable: Mapping[str, str] = MappingProxyType({})
) -> web.Response:
    documents = [
        {"id": id_, "kind": "send", "state": "completed", "reason": None, "result": 1, "error": None} for id_ in ids
    ]
    return web.Response(
        body=json.encode({"ended": documents, "unknown": list(unknown), "unreadable": dict(unreadable)})
    )


class Desk:
    """Keeps a request until one of its jobs has ended; `end` ends jobs."""

    def __init__(self) -> None:
        self.requests: list[WaitRequest] = []
        self.over: set[str] = set()
        self._changed = asyncio.Condition()

    async def handle(self, request: web.BaseRequest) -> web.Response:
        wanted = json.decode(await request.read(), type=WaitRequest)
        self.requests.append(wanted)
        async with self._changed:
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self.over & set(wanted.ids))
        return ended(self.over & set(wanted.ids))

    async def end(self, *ids: str) -> None:
        async with self._changed:
            self.over |= set(ids)
            self._changed.notify_all()

    async def asked(self, *ids: str) -> None:
        """Until somebody has asked for them."""
        async with self._changed:
            await self._changed.wait_for(lambda: set(ids) <= {id_ for request in self.requests for id_ in request.ids})


@asynccontextmanager
async def waiter_at(handler: Callable[[web.BaseRequest], object]) -> AsyncIterator[RemoteWaiter]:
    async with connected(handler) as transport:  # type: ignore[arg-type]
        waiter = RemoteWaiter(Asker(transport, None))
        try:
            yield waiter
        finally:
            waiter.close()


async def test_all_who_wait_share_a_request() -> None:
    desk = Desk()
    async with waiter_at(desk.handle) as waiter:
        tasks = [asyncio.create_task(waiter.wait(name(number))) for number in range(100)]
        await desk.asked(name(0), name(99))
        await desk.end(*map(name, range(100)))
        assert [document.id for document in await asyncio.gather(*tasks)] == [name(number) for number in range(100)]
    assert len(desk.requests) == 1


async def test_those_who_come_later_join() -> None:
    desk = Desk()
    async with waiter_at(desk.handle) as waiter:
        tasks = []
        for number in range(MOST + 3):
            tasks.append(asyncio.create_task(waiter.wait(name(number))))
            await desk.asked(name(number))
        await desk.end(*map(name, range(MOST + 3)))
        await asyncio.gather(*tasks)
    assert [len(request.ids) for request in desk.requests[:MOST]] == [1] * MOST
    assert set(desk.requests[MOST].ids) == {name(0), name(MOST)}  # the oldest was given up, and its job joined


async def test_what_is_left_of_an_answered_request_is_asked_for_again() -> None:
    desk = Desk()
    async with waiter_at(desk.handle) as waiter:
        first, second = (asyncio.create_task(waiter.wait(name(number))) for number in range(2))
        await desk.asked(name(0))
        await desk.end(name(0))
        await first
        await desk.end(name(1))
        await second
    assert [request.ids for request in desk.requests] == [[name(0), name(1)], [name(1)]]


async def test_more_jobs_than_fit_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_MOST_IDS", 2)
    last = name(MOST * 2)

    async def handler(request: web.BaseRequest) -> web.Response:
        wanted = json.decode(await request.read(), type=WaitRequest)
        return ended([last] if last in wanted.ids else [])

    async with waiter_at(handler) as waiter:
        tasks = [asyncio.create_task(waiter.wait(name(number))) for number in range(MOST * 2 + 1)]
        assert (await tasks[-1]).id == last
        for task in tasks[:-1]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_whoever_gives_up_is_not_asked_for_again() -> None:
    desk = Desk()
    async with waiter_at(desk.handle) as waiter:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await waiter.wait(name(0))
        other = asyncio.create_task(waiter.wait(name(1)))
        await desk.asked(name(1))
        await desk.end(name(0), name(1))
        await other
    assert desk.requests[-1].ids == [name(1)]


async def test_two_wait_for_one_job() -> None:
    desk = Desk()
    async with waiter_at(desk.handle) as waiter:
        tasks = [asyncio.create_task(waiter.wait(name(0))) for _ in range(2)]
        await desk.asked(name(0))
        await desk.end(name(0))
        assert len(await asyncio.gather(*tasks)) == 2


async def test_a_result_that_cannot_be_opened_is_told_and_the_others_go_on() -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return ended([name(1)], unreadable={name(0): "there are no keys"})

    async with waiter_at(answer) as waiter:
        sealed, other = await asyncio.gather(waiter.wait(name(0)), waiter.wait(name(1)), return_exceptions=True)
    assert isinstance(sealed, SecretsError)
    assert not isinstance(other, BaseException)


async def test_an_unknown_job_is_told_and_the_others_go_on() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return ended([name(1)], unknown=[name(0)])

    async with waiter_at(handler) as waiter:
        answers = await asyncio.gather(waiter.wait(name(0)), waiter.wait(name(1)), return_exceptions=True)
    assert isinstance(answers[0], NotFoundError)
    assert answers[1].id == name(1)  # type: ignore[union-attr]


async def test_what_passes_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_AGAIN_S", 0.01)
    seen: list[int] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        await request.read()
        seen.append(1)
        if len(seen) < 3:
            cut(request)
        return ended([name(0)])

    async with waiter_at(handler) as waiter:
        assert (await waiter.wait(name(0))).state == "completed"


async def test_what_does_not_pass_is_raised() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        problem = {"type": "/v1/problems/forbidden", "title": "no", "status": 403, "detail": "not you"}
        return web.Response(status=403, body=json.encode(problem))

    async with waiter_at(handler) as waiter:
        with pytest.raises(ForbiddenError, match="not you"):
            await waiter.wait(name(0))


async def test_an_answer_that_is_none_is_raised() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(body=b'{"ended": 1}')

    async with waiter_at(handler) as waiter:
        with pytest.raises(ServerError, match="cannot be read"):
            await waiter.wait(name(0))


async def test_closing_cancels_whoever_waits() -> None:
    desk = Desk()
    async with waiter_at(desk.handle) as waiter:
        task = asyncio.create_task(waiter.wait(name(0)))
        await desk.asked(name(0))
        waiter.close()
        with pytest.raises(asyncio.CancelledError):
            await task
