"""Submits over HTTP: what a request holds, what is sent again, and what a lost answer means."""

import uuid
from collections.abc import Sequence

import pytest
from aiohttp import web
from msgspec import json

from client.serving import connected, cut
from mainspring.client import submitting
from mainspring.client.submitting import CHUNK, MOST_BYTES, batches, submit
from mainspring.core.draft import Draft
from mainspring.core.options import NO_OPTIONS, parse_options
from mainspring.core.partition import make_id
from mainspring.errors import InvalidError, LimitedError, NotFoundError, ServerError

KEYED = parse_options(key="k")


def drafts(count: int, size: int = 0) -> list[Draft]:
    return [Draft("send", b'{"to":"%s%d"}' % (b"x" * size, number), NO_OPTIONS) for number in range(count)]


def answers(body: bytes) -> bytes:
    return b"".join(
        json.encode({"id": str(uuid.UUID(bytes=make_id(1, 2, place)))}) + b"\n"
        for place, _ in enumerate(body.splitlines())
    )


def test_a_request_is_lines_with_the_options_that_were_said() -> None:
    said = parse_options(queue="mail", tags=["a"], delay="10m")
    (batch,) = batches([Draft("send", b'{"to":1}', said), Draft('o"dd', b"{}", NO_OPTIONS)], None)
    first, second = batch.body.splitlines()
    assert json.decode(first) == {
        "kind": "send",
        "arguments": {"to": 1},
        "options": {"queue": "mail", "tags": ["a"], "delay": 600.0},
    }
    assert json.decode(second) == {"kind": 'o"dd', "arguments": {}}


def test_a_request_is_neither_too_many_jobs_nor_too_many_bytes() -> None:
    made = list(batches(drafts(2 * CHUNK + 1), None))
    assert [batch.count for batch in made] == [CHUNK, CHUNK, 1]
    large = list(batches(drafts(5, size=MOST_BYTES // 2 - 100), None))
    assert [batch.count for batch in large] == [2, 2, 1]
    assert [batch.count for batch in batches(drafts(2, size=MOST_BYTES * 2), None)] == [1, 1]
    assert list(batches([], None)) == []


def test_a_request_is_for_one_tenant() -> None:
    tenants = [None, None, "acme", "acme", "other"]
    options = {name: NO_OPTIONS if name is None else parse_options(tenant=name) for name in set(tenants)}
    made = list(batches([Draft("send", b"{}", options[name]) for name in tenants], None))
    assert [(batch.tenant, batch.count) for batch in made] == [(None, 2), ("acme", 2), ("other", 1)]
    assert b"tenant" not in made[1].body
    assert [batch.tenant for batch in batches(drafts(1), "acme")] == ["acme"]
    with pytest.raises(InvalidError, match="tenant"):
        list(batches([Draft("send", b"{}", options["other"])], "acme"))


def test_only_jobs_with_a_claim_may_be_sent_again() -> None:
    unique = Draft("send", b"{}", parse_options(unique="1h"))
    keyed = Draft("send", b"{}", KEYED)
    assert next(batches([unique, keyed], None)).repeatable
    assert not next(batches([keyed, *drafts(1)], None)).repeatable


def test_a_key_overrides_a_kinds_unique() -> None:
    from mainspring.core.options import merged

    (batch,) = batches([Draft("send", b"{}", merged(parse_options(unique="1h"), KEYED))], None)
    assert json.decode(batch.body)["options"] == {"key": "k"}


async def test_answers_are_in_the_order_of_the_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitting, "CHUNK", 3)
    seen: list[bytes] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        assert request.headers["Content-Type"] == "application/x-ndjson"
        seen.append(body)
        lines = [json.decode(line)["arguments"]["to"] for line in body.splitlines()]
        made = [{"id": str(uuid.UUID(bytes=make_id(1, 2, int(place)))), "existed": place == "4"} for place in lines]
        return web.Response(body=b"".join(json.encode(item) + b"\n" for item in made))

    async with connected(handler) as transport:
        made = await submit(transport, drafts(10), None)
    assert len(seen) == 4
    assert [answer.id for answer in made] == [make_id(1, 2, place) for place in range(10)]
    assert [answer.existed for answer in made] == [place == 4 for place in range(10)]


async def test_a_lost_answer_is_told_where_jobs_have_no_key() -> None:
    seen: list[bytes] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(await request.read())
        cut(request)
        return web.Response()

    async with connected(handler) as transport:
        with pytest.raises(ServerError, match=r"0 of 2 jobs were accepted; whether the others were is not known.*key"):
            await submit(transport, drafts(2), None)
    assert len(seen) == 1


async def test_jobs_with_keys_are_sent_again() -> None:
    seen: list[bytes] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(await request.read())
        if len(seen) == 1:
            cut(request)
        return web.Response(body=answers(seen[-1]))

    async with connected(handler) as transport:
        (made,) = await submit(transport, [Draft("send", b"{}", KEYED)], None)
    assert made.id == make_id(1, 2, 0)
    assert seen[0] == seen[1]


async def test_a_server_that_is_not_there_took_nothing() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response()

    async with connected(handler, retry_for_s=0.2) as transport:
        transport.url = "http://127.0.0.1:1"
        with pytest.raises(ServerError, match="is the server running") as caught:
            await submit(transport, drafts(1), None)
    assert not caught.value.uncertain
    assert "not known" not in str(caught.value)


def item(slug: str, **more: object) -> dict[str, object]:
    problem = {"type": f"/v1/problems/{slug}", "title": "no", "status": 400, "detail": "because", **more}
    return {"problem": problem}


async def answered(*items: object) -> Sequence[object]:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(body=b"".join(json.encode(one) + b"\n" for one in items))

    async with connected(handler) as transport:
        return await submit(transport, drafts(2), None)


async def test_a_conflict_is_an_answer_and_another_refusal_is_raised() -> None:
    good = {"id": str(uuid.UUID(bytes=make_id(1, 2, 3)))}
    first, second = await answered(good, item("conflict"))
    assert (first.conflict, second.conflict) == (False, True)  # type: ignore[attr-defined]
    with pytest.raises(NotFoundError, match="because"):
        await answered(good, item("not-found"))
    with pytest.raises(LimitedError, match="1 of 2 jobs were accepted before") as caught:
        await answered(item("limited", field="queued", retry_after_s=3.0), good)
    assert (caught.value.field, caught.value.retry_after_s) == ("queued", 3.0)


@pytest.mark.parametrize("items", [(), ({"id": "x"},), ({}, {}), ("text", 1)])
async def test_an_answer_that_is_none_is_a_servers_error(items: tuple[object, ...]) -> None:
    with pytest.raises(ServerError):
        await answered(*items)
