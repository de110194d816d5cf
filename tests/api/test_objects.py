"""Objects of jobs through the worker protocol: stored and read in pieces, by whoever has the attempt and by nobody else."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from api.site import Answer, Site
from api.test_forwarding import sites, via
from api.test_workers import Shell, at_work, done, submit
from mainspring.client.link import RemoteLink
from mainspring.client.settings import ServerSettings
from mainspring.core import objects
from mainspring.errors import InvalidError, NotFoundError, SessionEndedError
from mainspring.wire import WorkerInfo

__all__ = ["sites"]

BYTES = {"Content-Type": "application/octet-stream"}
PLAN = objects.output(1, "plan ä/../.pdf")


def address(shell: Shell, assignment: Any, name: str = "") -> str:
    base = f"/v1/workers/{shell.session}/jobs/{assignment['job']}/attempts/{assignment['attempt']}/objects"
    return base + (f"/{quote(name, safe='')}" if name else "")


async def put(shell: Shell, assignment: Any, name: str, data: bytes, **ask: Any) -> Answer:
    return await shell.site.ask(
        "PUT", address(shell, assignment, name), data=data, headers=BYTES, **({"key": shell.key} | ask)
    )


async def get(shell: Shell, assignment: Any, name: str = "", **ask: Any) -> Answer:
    return await shell.site.ask("GET", address(shell, assignment, name), **({"key": shell.key} | ask))


async def find(shell: Shell, assignment: Any, prefix: str) -> Answer:
    path = address(shell, assignment) + f"?prefix={quote(prefix, safe='')}"
    return await shell.site.ask("GET", path, key=shell.key)


@pytest.mark.parametrize("size", [0, 1, 7_000_000])
async def test_what_was_put_is_there_until_it_is_replaced(site: Site, size: int) -> None:
    shell = await at_work(site)
    await submit(site)
    assignment = await shell.job()
    data = bytes(range(251)) * (size // 251 + 1)
    assert (await put(shell, assignment, PLAN, data[:size])).status == 204
    answer = await get(shell, assignment, PLAN)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/octet-stream")
    assert answer.body == data[:size]
    assert (await put(shell, assignment, PLAN, b"other")).status == 204
    assert (await put(shell, assignment, objects.step(1, "one"), b"1")).status == 204
    assert (await get(shell, assignment, PLAN)).body == b"other"
    assert (await find(shell, assignment, "outputs/")).document == [{"name": PLAN, "size": 5}]
    assert (await find(shell, assignment, "steps/000001/t")).document == []


async def test_the_next_attempt_finds_what_the_one_before_has_stored_and_does_not_touch_it(site: Site) -> None:
    shell = await at_work(site)
    await submit(site)
    first = await shell.job()
    assert (await put(shell, first, objects.checkpoint(1), b"half")).status == 204
    await shell.report(done(first) | {"type": "returned"})
    second = await shell.job()
    assert (await get(shell, second, objects.checkpoint(1))).body == b"half"
    answer = await put(shell, second, objects.checkpoint(1), b"spoiled")
    assert (answer.status, answer.document["field"]) == (422, "name")
    late = await put(shell, first, objects.checkpoint(1), b"spoiled")
    assert (late.status, late.document["type"]) == (410, "/v1/problems/session-ended")
    assert (await put(shell, second, objects.checkpoint(2), b"more")).status == 204
    assert [each["name"] for each in (await find(shell, second, "checkpoints/")).document] == ["checkpoints/000002"]


async def test_nobody_else_reaches_them(site: Site) -> None:
    shell, theirs = await at_work(site), await at_work(site, key="other-worker")
    await submit(site)
    assignment = await shell.job()
    await put(shell, assignment, PLAN, b"secret")
    for key, status in (("other-worker", 410), ("operator", 403), ("admin", 403), ("join", 403)):
        assert (await get(shell, assignment, PLAN, key=key)).status == status
        assert (await put(shell, assignment, PLAN, b"forged", key=key)).status == status
    assert (await get(theirs, assignment, PLAN)).status == 410
    await shell.report(done(assignment))
    assert (await get(shell, assignment, PLAN)).status == 410


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "outputs/000001/a.b",
        "outputs/000001/../x",
        "../x",
        "logs/1/2",
        "outputs/000001/",
        "/steps/000001/a",
        "steps/a",
    ],
)
async def test_names_that_no_object_has_are_refused(site: Site, name: str) -> None:
    shell = await at_work(site)
    await submit(site)
    assignment = await shell.job()
    for answer in (await put(shell, assignment, name, b""), await get(shell, assignment, name)):
        assert (answer.status, answer.document["field"]) == (422, "name"), answer
    for prefix in ("", "x", "../", "outputs/../../"):
        answer = await find(shell, assignment, prefix)
        assert (answer.status, answer.document["field"]) == (422, "prefix"), answer


async def test_what_is_not_there_or_no_attempt(site: Site) -> None:
    shell = await at_work(site)
    await submit(site)
    assignment = await shell.job()
    assert (await get(shell, assignment, PLAN)).status == 404
    for change in ({"job": "x"}, {"attempt": "x"}, {"attempt": "9" * 11}):
        answer = await get(shell, assignment | change, PLAN)
        assert (answer.status, answer.document["field"]) == (422, *change), answer
    answer = await site.ask("PUT", address(shell, assignment, PLAN), {"a": 1}, key="worker")
    assert answer.status == 415


async def test_an_upload_that_breaks_off_leaves_nothing(site: Site) -> None:
    shell = await at_work(site)
    await submit(site)
    assignment = await shell.job()
    host, port = site.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"PUT {address(shell, assignment, PLAN)} HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n"
    writer.write(f"{head}Authorization: Bearer {site.keys['worker']}\r\n\r\n".encode() + bytes(8_000_000))
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert await reader.read() == b""
    assert (await find(shell, assignment, "outputs/")).document == []


async def test_they_are_passed_on_to_where_the_session_lives(sites: list[Site]) -> None:
    home, away, _ = sites
    near = await at_work(home)
    await submit(home)
    assignment = await near.job()
    shell = via(near, away)
    data = bytes(range(256)) * 20_000
    assert (await put(shell, assignment, PLAN, data)).status == 204
    assert (await get(shell, assignment, PLAN)).body == data
    assert (await find(shell, assignment, "outputs/")).document == [{"name": PLAN, "size": len(data)}]
    assert (await get(shell, assignment, objects.step(1, "none"))).status == 404
    assert (await put(shell, assignment, "outputs/000009/x", b"")).status == 422


async def test_our_own_worker_sends_files_and_reads_in_pieces(site: Site, folder: Path) -> None:
    link = RemoteLink(ServerSettings(site.url, site.keys["worker"]))
    try:
        session = await link.register(WorkerInfo(name="w", slots=1, kinds=frozenset({"shell.echo"})), lambda _: None)
        await submit(site)
        (given,) = await link.pull(session, 1, 1)
        where = (session, given.job, given.attempt)
        file = folder / "data"
        file.write_bytes(bytes(range(256)) * 20_000)
        await link.put_object(*where, PLAN, file)
        await link.put_object(*where, objects.step(1, "empty"), b"")
        assert [piece async for piece in link.get_object(*where, objects.step(1, "empty"))] == []
        pieces = [piece async for piece in link.get_object(*where, PLAN)]
        assert len(pieces) > 1
        assert b"".join(pieces) == file.read_bytes()
        assert [found.size for found in await link.find_objects(*where, "outputs/")] == [5_120_000]
        broken_off = link.get_object(*where, PLAN)
        assert await anext(broken_off)
        await broken_off.aclose()
        with pytest.raises(NotFoundError):
            await anext(link.get_object(*where, objects.step(1, "none")))
        with pytest.raises(InvalidError, match="name"):
            await link.put_object(*where, "x", b"")
        with pytest.raises(SessionEndedError):
            await link.put_object(session, given.job, 7, objects.step(7, "s"), bytes(3_000_000))
    finally:
        await link.close()


# --- what a job has left, for those who may see it


async def left(site: Site, name: str = "pläne/<1>.html", media: str = "text/html") -> str:
    """A job with a file, by a worker of raw requests."""
    shell = await at_work(site)
    id_ = await submit(site)
    assignment = await shell.job()
    await put(shell, assignment, objects.output(1, name), b"<script>")
    stored = {"name": name, "size": 8, "sha256": hashlib.sha256(b"<script>").hexdigest(), "media": media}
    assert (await shell.report(done(assignment, outputs=[stored], usage={"cpu_s": 1.5})))["rejected"] == []
    return id_


async def test_a_file_is_downloaded_as_an_attachment(site: Site) -> None:
    id_ = await left(site)
    listed = (await site.ask("GET", f"/v1/jobs/{id_}/outputs", key="viewer")).document
    assert [each["name"] for each in listed] == ["pläne/<1>.html"]
    assert (await site.ask("GET", f"/v1/jobs/{id_}")).document["outputs"] == listed
    assert (await site.ask("GET", f"/v1/jobs/{id_}")).document["usage"]["cpu_s"] == 1.5
    assert (await site.ended(id_))["outputs"] == listed
    answer = await site.ask("GET", f"/v1/jobs/{id_}/outputs/{quote('pläne/<1>.html', safe='')}", key="viewer")
    assert (answer.status, answer.body) == (200, b"<script>")
    said = {name.lower(): value for name, value in answer.headers.items()}
    assert said["content-length"] == "8"
    assert said["content-type"] == "text/html"
    assert said["etag"] == f'"{hashlib.sha256(b"<script>").hexdigest()}"'
    assert said["content-disposition"] == "attachment; filename*=UTF-8''pl%C3%A4ne%2F%3C1%3E.html"
    assert said["x-content-type-options"] == "nosniff"
    assert said["content-security-policy"] == "sandbox"


async def test_files_of_another_tenant_are_not_there(site: Site) -> None:
    id_ = await left(site, "plan")
    for path in ("outputs", "outputs/plan", "result"):
        assert (await site.ask("GET", f"/v1/jobs/{id_}/{path}", key="other-admin")).status == 404
        assert (await site.ask("GET", f"/v1/jobs/{id_}/{path}", key="worker")).status == 403
        assert (await site.ask("GET", f"/v1/jobs/{id_}/{path}", key="viewer")).status == 200
    assert (await site.ask("GET", f"/v1/jobs/{id_}/outputs/none", key="viewer")).status == 404


async def test_a_result_that_is_an_output_is_read_like_any_other(site: Site) -> None:
    shell = await at_work(site)
    for data in (b'{"a": 1}', b'"' + b"x" * 5_000_000 + b'"'):
        id_ = await submit(site)
        assignment = await shell.job()
        if len(data) < 100:
            await shell.report(done(assignment, result={"a": 1}))
        else:
            await put(shell, assignment, objects.output(1, "result"), data)
            sha256 = hashlib.sha256(data).hexdigest()
            await shell.report(done(assignment, outputs=[{"name": "result", "size": len(data), "sha256": sha256}]))
        answer = await site.ask("GET", f"/v1/jobs/{id_}/result", key="viewer")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
        assert answer.body == data
    waiting = await submit(site)
    answer = await site.ask("GET", f"/v1/jobs/{waiting}/result")
    assert (answer.status, answer.document["type"]) == (409, "/v1/problems/conflict")


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "abc"},
        {"size": -1},
        {"media": "text/html\r\nX-Evil: 1"},
        {"name": ""},
        {"name": "ä" * 150},
    ],
)
async def test_an_outcome_whose_outputs_are_wrong_fails_and_leaves_others_alone(
    site: Site, change: dict[str, Any]
) -> None:
    shell = await at_work(site)
    await submit(site)
    assignment = await shell.job()
    stored = {"name": "a", "size": 1, "sha256": "0" * 64, "media": "text/plain"} | change
    assert (await shell.report(done(assignment, outputs=[stored])))["rejected"] == []
    ended = await site.ended(assignment["job"])
    assert (ended["state"], ended["reason"]) == ("failed", "result")


async def test_a_large_result_does_not_count_among_the_files(site: Site) -> None:
    shell = await at_work(site)
    listed = [{"name": str(number), "size": 0, "sha256": "0" * 64} for number in range(objects.MAX_OUTPUTS)]
    for more, state in (("result", "completed"), ("one too many", "failed")):
        await submit(site)
        assignment = await shell.job()
        await shell.report(done(assignment, outputs=[{"name": more, "size": 1, "sha256": "0" * 64}, *listed]))
        assert (await site.ended(assignment["job"]))["state"] == state


async def test_a_stream_that_breaks_off_is_not_taken_for_whole(site: Site) -> None:
    shell = await at_work(site)
    id_ = await submit(site)
    assignment = await shell.job()
    await put(shell, assignment, objects.output(1, "plan"), b"short")
    stored = {"name": "plan", "size": 9_000_000, "sha256": "0" * 64}
    await shell.report(done(assignment, outputs=[stored]))
    with pytest.raises(aiohttp.ClientPayloadError):
        await site.ask("GET", f"/v1/jobs/{id_}/outputs/plan")
