"""Many jobs in one request: three forms, one answer per job, one bad job spoils nothing."""

import json
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest

from api.site import Answer, Site
from mainspring.store.service import Quota, TenantRecord

LATER = {"delay": "1h"}
FORMS = ("application/json", "application/x-ndjson", "application/msgpack", "application/vnd.msgpack", "maps")


def encoded(form: str, items: list[Any]) -> tuple[bytes, str]:
    if form == "application/json":
        return json.dumps(items).encode(), form
    if form == "application/x-ndjson":
        return b"\n".join(json.dumps(item).encode() for item in items), form
    if form == "maps":
        return b"".join(msgpack.packb(item) for item in items), "application/msgpack"
    return msgpack.packb(items), form


def decoded(answer: Answer) -> list[Any]:
    form = answer.headers["Content-Type"]
    if form == "application/json":
        return list(answer.document)
    if form == "application/x-ndjson":
        return [json.loads(line) for line in answer.body.splitlines()]
    return list(msgpack.unpackb(answer.body))


async def submit(site: Site, form: str, items: list[Any]) -> list[Any]:
    data, media = encoded(form, items)
    answer = await site.ask("POST", "/v1/jobs/batch", data=data, headers={"Content-Type": media}, key="submitter")
    assert (answer.status, answer.headers["Content-Type"]) == (200, media), answer
    return decoded(answer)


@pytest.mark.parametrize("form", FORMS)
async def test_one_answer_per_job_in_order(site: Site, form: str) -> None:
    items = [
        {"kind": "add", "arguments": {"a": 1}, "options": LATER},
        {"kind": "add", "arguments": {"a": 1}, "options": {"priority": 11}},
        {"kind": "nothing"},
        {"kind": "add", "arguments": {"a": 2}, "options": LATER | {"key": "k"}},
        {"kind": "add", "arguments": {"a": 3}, "options": LATER | {"key": "k"}},
        {"kind": "add", "arguments": {"a": 2}, "options": LATER | {"key": "k"}},
        {"arguments": {}},
        7,
        {"kind": "add", "arguments": {"a": 4}, "options": LATER},
    ]
    answers = await submit(site, form, items)
    told = [answer["problem"]["type"].rpartition("/")[2] if "problem" in answer else "ok" for answer in answers]
    assert told == ["ok", "invalid", "invalid", "ok", "conflict", "ok", "invalid", "invalid", "ok"]
    assert [answers[1]["problem"]["field"], answers[6]["problem"]["field"]] == ["priority", "kind"]
    assert (answers[5]["id"], answers[5]["existed"]) == (answers[3]["id"], True)
    assert await site.count() == 3
    jobs = (await site.ask("GET", "/v1/jobs")).document["jobs"]
    assert {job["id"] for job in jobs} == {answers[place]["id"] for place in (0, 3, 8)}


@pytest.mark.parametrize("form", FORMS)
async def test_many_chunks_keep_their_order(site: Site, form: str) -> None:
    items = [{"kind": "add", "arguments": {"a": place}, "options": LATER} for place in range(5_001)]
    items[4_000] = {"kind": "nothing"}
    answers = await submit(site, form, items)
    assert len(answers) == 5_001
    assert "problem" in answers[4_000]
    for place in (0, 1_999, 2_000, 5_000):
        read = await site.ask("GET", f"/v1/jobs/{answers[place]['id']}")
        assert read.document["arguments"] == {"a": place}
    assert await site.count() == 5_000


@pytest.mark.parametrize("form", FORMS)
async def test_nothing(site: Site, form: str) -> None:
    assert await submit(site, form, []) == []


# One item of an NDJSON body, and the field that its problem names; the items around it are accepted.
LINES: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "item"),
    "NaN": (b'{"kind": "add", "arguments": {"a": NaN}}', "item"),
    "a kind twice": (b'{"kind": "add", "kind": "add"}', "item"),
    "a name twice": (b'{"kind": "add", "arguments": {"a": 1, "a": 2}}', "arguments"),
    "half a pair": (b'{"kind": "add", "arguments": {"a": "\\udc00"}}', "item"),
    "not UTF-8": (b'{"kind": "add", "arguments": {"a": "\xff"}}', "arguments"),
    "65 deep": (b'{"kind": "add", "arguments": {"a": %s}}' % (b"[" * 64 + b"]" * 64), "arguments"),
    "100k deep": (b'{"kind": "add", "arguments": {"a": %s}}' % (b"[" * 100_000 + b"]" * 100_000), "item"),
    "an unknown field": (b'{"kind": "add", "args": {}}', "args"),
}


async def test_one_bad_line_spoils_nothing(site: Site) -> None:
    good = b'{"kind": "add", "arguments": {"a": 1}, "options": {"delay": 99}}'
    body = b"\n".join([good, *(line for line, _ in LINES.values()), b"", good, b""])
    answer = await site.ask("POST", "/v1/jobs/batch", data=body, headers={"Content-Type": "application/x-ndjson"})
    first, *answers, last = decoded(answer)
    assert ("id" in first, "id" in last) == (True, True)
    assert {name: told["problem"]["field"] for name, told in zip(LINES, answers, strict=True)} == {
        name: field for name, (_, field) in LINES.items()
    }
    assert await site.count() == 2


BODIES = {
    "an object": b"{}",
    "half an array": b'[{"kind": "add"}',
    "two arrays": b"[][]",
    "100k deep": b"[" * 100_000,
    "not UTF-8": b"\xff",
}


async def test_what_is_no_array_is_refused_as_a_whole(site: Site) -> None:
    for name, body in BODIES.items():
        answer = await site.ask("POST", "/v1/jobs/batch", data=body)
        assert (answer.status, answer.document["field"]) == (422, "body"), (name, answer)
    assert await site.count() == 0


PACKED = {
    "cut off": msgpack.packb([{"kind": "add"}])[:-1],
    "an array that claims too much": b"\xdd\xff\xff\xff\xff",
    "a map that claims too much": b"\xdf\xff\xff\xff\xff",
    "a text that claims too much": b"\xdb\xff\xff\xff\xff",
    "never used": b"\xc1",
    "very deep": b"\x91" * 100_000 + b"\xc0",
    "many long arrays in each other": b"\xdd\x00\x01\x86\xa0" * 20_000,
    "not UTF-8": b"\x81\xa1\xff\x01",
    "keys that are no texts": b"\x81\x01\x01",
}
PACKED_ITEMS: dict[str, Any] = {
    "NaN": {"a": float("nan")},
    "infinite": {"a": float("inf")},
    "bytes": {"a": b"\x00"},
    "2^64 - 1": {"a": 2**64 - 1},
    "a NUL": {"a": "\0"},
}


async def test_messagepack_that_cannot_be_read(site: Site) -> None:
    for name, body in PACKED.items():
        answer = await site.ask("POST", "/v1/jobs/batch", data=body, headers={"Content-Type": "application/msgpack"})
        assert (answer.status, answer.document["field"]) == (422, "body"), (name, answer)


async def test_messagepack_that_json_does_not_have(site: Site) -> None:
    items = [{"kind": "add", "arguments": arguments} for arguments in PACKED_ITEMS.values()]
    repeated = b"\x82\xa4kind\xa3add\xa4kind\xa3add"
    timestamp = msgpack.packb({"kind": "add", "arguments": {"a": msgpack.Timestamp(1)}})
    body = b"".join(msgpack.packb(item) for item in items) + repeated
    answer = await site.ask("POST", "/v1/jobs/batch", data=body, headers={"Content-Type": "application/msgpack"})
    assert all("problem" in told for told in decoded(answer)), decoded(answer)
    answer = await site.ask("POST", "/v1/jobs/batch", data=timestamp, headers={"Content-Type": "application/msgpack"})
    assert answer.status == 422
    assert await site.count() == 0


async def test_a_quota_is_an_answer(site: Site) -> None:
    store = site.app.store
    await store.put_tenants([TenantRecord("default", Quota(queued=3_000), store.clock.now())])
    await site.serving.parts.quotas.run_once()
    answers = await submit(site, "application/json", [{"kind": "add", "arguments": {"a": 1}, "options": LATER}] * 4_000)
    refused = [answer["problem"] for answer in answers if "problem" in answer]
    assert (len(refused), {problem["type"] for problem in refused}) == (2_000, {"/v1/problems/limited"})
    assert refused[0]["retry_after_s"] > 0
    assert await site.count() == 2_000
    alone = await site.ask("POST", "/v1/jobs/batch", [{"kind": "add", "arguments": {"a": 1}}], key="viewer")
    assert alone.status == 403
