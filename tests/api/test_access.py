"""Who may ask for what: every route without a key, with each role, and with the key of another tenant."""

import asyncio
from typing import Any

import pytest

from api.site import PROBLEM, Answer, Site
from api.walking import BY_ID, NOWHERE, STREAMS, address, body
from mainspring.access.keys import make_key
from mainspring.access.roles import INSTANCE, OPEN, PERMISSIONS, Role
from mainspring.api.app import check_permissions
from mainspring.api.operations import Operation, Room
from mainspring.api.rooms import OPERATIONS

KEYED = [operation for operation in OPERATIONS if operation.id not in OPEN]


async def ask(site: Site, operation: Operation, key: str | None, name: str = NOWHERE) -> Answer:
    """Streams are left as soon as they have begun."""
    if operation.id in STREAMS:
        headers = {} if key is None else {"Authorization": f"Bearer {site.keys[key]}"}
        async with site.client.get(site.url + address(operation, name), headers=headers) as response:
            return Answer(response.status, response.headers, b"" if response.status == 200 else await response.read())
    return await site.ask(operation.method, address(operation, name), body(operation), key=key)


def test_every_operation_has_a_row_and_every_row_an_operation() -> None:
    assert BY_ID.keys() == PERMISSIONS.keys() | OPEN


def test_an_operation_without_a_row_is_not_served() -> None:
    room = Room("Test")

    @room.get("/v1/forgotten", "forgotten")
    async def forgotten(ask: Any) -> Any:
        """Nobody decided."""

    with pytest.raises(LookupError, match="forgotten has no row"):
        check_permissions(room.operations)


async def test_every_route_without_a_key(site: Site) -> None:
    for operation in KEYED:
        answer = await ask(site, operation, None)
        assert (answer.status, answer.headers["Content-Type"]) == (401, PROBLEM), operation.id
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert answer.document["type"] == "/v1/problems/unknown-key"


WRONG_KEYS = {
    "no scheme": "msk_aaaaaaaaaaaa_" + "a" * 43,
    "another scheme": "Basic dXNlcjpwYXNz",
    "no key": "Bearer ",
    "not a key": "Bearer hello",
    "unknown": "Bearer msk_aaaaaaaaaaaa_" + "a" * 43,
    "not text": "Bearer \udcff",
}


@pytest.mark.parametrize("given", WRONG_KEYS.values(), ids=WRONG_KEYS.keys())
async def test_what_is_no_key(site: Site, given: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.serving.settings.port)
    writer.write(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: " + given.encode("utf-8", "surrogateescape"))
    writer.write(b"\r\nConnection: close\r\n\r\n")
    head, _, told = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    status = 422 if given == WRONG_KEYS["not text"] else 401
    assert head.startswith(b"HTTP/1.1 %d " % status), (head, told)


async def test_every_route_with_every_role(site: Site) -> None:
    """Whoever may not is told so, whatever else is wrong; whoever may gets any other answer."""
    for operation in KEYED:
        for role in Role:
            if operation.id == "enrol_worker" and role is Role.JOIN:
                continue  # it spends the token: see the tests of workers
            everywhere = operation.id in INSTANCE
            answer = await ask(site, operation, f"{role}*" if everywhere else str(role))
            allowed = role in PERMISSIONS[operation.id]
            assert (answer.status != 403) == allowed, (operation.id, role, answer)
            assert answer.status not in (401, 500), (operation.id, role, answer)


async def test_what_concerns_all_tenants_needs_a_key_of_all(site: Site) -> None:
    for operation in INSTANCE:
        answer = await ask(site, BY_ID[operation], "admin")
        assert (answer.status, "all tenants" in answer.document["detail"]) == (403, True), operation


async def test_another_tenants_things_do_not_exist(site: Site) -> None:
    job = await site.submit(delay="1h")
    await site.ask("POST", "/v1/queues/sums/pause")
    put = await site.ask("PUT", "/v1/templates/mine", {"kind": "add", "arguments": {"a": 1}})
    made = await site.ask("POST", "/v1/keys", {"name": "mine", "role": "viewer"}, key="admin")
    assert (put.status, made.status) == (200, 201), (put, made)
    names = {"schedules": "yearly", "templates": "mine"}
    for operation in KEYED:
        if (
            "{" not in operation.address
            or operation.id in INSTANCE
            or operation.id in ("put_template", "set_secret", "pause_queue", "resume_queue", "read_queue")
        ):
            continue
        if "{session}" in operation.address or operation.id == "queue_events":
            continue
        room = operation.address.split("/")[2]
        path = address(operation, names.get(room, NOWHERE))
        path = path.replace("01900000-0000-7000-8000-000000000000", made.document["id"] if room == "keys" else job)
        answer = await site.ask(operation.method, path, body(operation), key="other-admin")
        assert (answer.status, answer.document["type"]) == (404, "/v1/problems/not-found"), (operation.id, answer)
    assert (await site.ask("GET", "/v1/jobs", key="other-admin")).document == {"jobs": [], "next": None}
    assert (await site.ask("GET", "/v1/schedules", key="other-admin")).document == []
    assert (await site.ask("GET", "/v1/templates", key="other-admin")).document == []
    assert (await site.ask("GET", f"/v1/jobs/{job}")).document["state"] == "pending"


async def test_the_tenant_of_a_request(site: Site) -> None:
    other = {"Mainspring-Tenant": "other"}
    job = {"kind": "add", "arguments": {"a": 1}, "options": {"delay": "1h"}}
    refused = await site.ask("POST", "/v1/jobs", job, headers=other)
    assert (refused.status, "another tenant" in refused.document["detail"]) == (403, True)
    for headers, tenant in (({}, "default"), (other, "other")):
        made = (await site.ask("POST", "/v1/jobs", job, key="admin*", headers=headers)).document["id"]
        read = await site.ask("GET", f"/v1/jobs/{made}", key="admin*", headers=headers)
        assert read.document["tenant"] == tenant
    everything = await site.ask("GET", "/v1/jobs", key="admin*", headers={"Mainspring-Tenant": "*"})
    assert {one["tenant"] for one in everything.document["jobs"]} == {"default", "other"}
    named = await site.ask("POST", "/v1/jobs", job | {"options": {"tenant": "other"}})
    assert (named.status, named.document["field"]) == (422, "tenant")
    slash = await site.ask("GET", "/v1/jobs", key="admin*", headers={"Mainspring-Tenant": "a/b"})
    assert (slash.status, slash.document["field"]) == (422, "Mainspring-Tenant")


async def test_a_revoked_key_is_refused_at_once(site: Site) -> None:
    made = (await site.ask("POST", "/v1/keys", {"name": "short", "role": "viewer"}, key="admin")).document
    site.keys["short"] = made["key"]
    assert (await site.ask("GET", "/v1/jobs", key="short")).status == 200
    assert (await site.ask("DELETE", f"/v1/keys/{made['id']}", key="admin")).status == 204
    assert (await site.ask("GET", "/v1/jobs", key="short")).status == 401


async def test_a_key_with_a_rate(site: Site) -> None:
    now = site.app.store.clock.now()
    text, record = make_key("slow", Role.VIEWER, "default", now=now, created_by="test", requests_per_s=0.01)
    await site.app.store.insert_keys([record])
    site.keys["slow"] = text
    assert (await site.ask("GET", "/v1/jobs", key="slow")).status == 200
    limited = await site.ask("GET", "/v1/jobs", key="slow")
    assert (limited.status, limited.document["field"]) == (429, "requests_per_s")
    assert int(limited.headers["Retry-After"]) > 1


async def test_refusals_are_recorded_and_cannot_fill_the_chain(site: Site) -> None:
    for _ in range(20):
        await site.ask("GET", "/v1/audit", key="viewer")
    await asyncio.gather(*site.serving.parts.background)  # they are recorded after the answer
    found = await refusals(site)
    assert 1 <= len(found) <= 5
    assert found[0]["target"] == "list_audit"
    assert found[0]["actor"].startswith("viewer (")
    assert site.keys["viewer"] not in str(found)


async def refusals(site: Site) -> list[Any]:
    records = (await site.ask("GET", "/v1/audit?limit=1000", key="admin")).document
    return [record for record in records if record["action"] == "refused"]


LOCAL = {
    "a page elsewhere": ({"Origin": "http://evil.example"}, 403),
    "a sandboxed page": ({"Origin": "null"}, 403),
    "a name that leads here": ({"Host": "evil.example"}, 403),
    "by its other name": ({"Host": "localhost:1"}, 200),
}


@pytest.mark.parametrize(("headers", "status"), LOCAL.values(), ids=LOCAL.keys())
async def test_without_keys_pages_of_elsewhere_are_not_answered(
    open_site: Site, headers: dict[str, str], status: int
) -> None:
    assert (await open_site.ask("GET", "/v1/jobs", headers=headers)).status == status


async def test_without_keys_everybody_is_an_administrator(open_site: Site) -> None:
    own = {"Origin": open_site.url}
    assert (await open_site.ask("GET", "/v1/tenants", headers=own)).status == 200
    made = await open_site.ask(
        "POST", "/v1/jobs", {"kind": "add", "arguments": {"a": 1}}, headers={"Mainspring-Tenant": "x"}
    )
    assert made.status == 201
