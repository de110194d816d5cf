"""The worker protocol as a program without our code would speak it: register, pull, report, leave."""

import asyncio
import json
import uuid
from typing import Any

import pytest

from api.site import PROBLEM, Answer, Site
from mainspring.core.partition import parse_id

KIND = "shell.echo"


class Shell:
    """A worker of raw requests."""

    def __init__(self, site: Site, key: str = "worker") -> None:
        self.site = site
        self.key = key
        self.session = ""
        self.number = 0

    async def register(self, **about: Any) -> Answer:
        document = {"protocol": 1, "name": "shell", "slots": 4, "kinds": [KIND], **about}
        answer = await self.site.ask("POST", "/v1/workers", document, key=self.key)
        if answer.status == 201:
            self.session = answer.document["session"]
        return answer

    async def call(self, what: str, document: Any, key: str | None = None) -> Answer:
        return await self.site.ask("POST", f"/v1/workers/{self.session}/{what}", document, key=key or self.key)

    async def pull(self, free: int = 4, **more: Any) -> Any:
        self.number += 1
        answer = await self.call("pull", {"number": self.number, "free": free, **more})
        assert answer.status == 200, answer
        return answer.document

    async def job(self) -> Any:
        """One assignment."""
        while True:
            found = (await self.pull())["assignments"]
            if found:
                (assignment,) = found
                return assignment

    async def report(self, *outcomes: Any, **more: Any) -> Any:
        answer = await self.call("report", {"outcomes": list(outcomes), **more})
        assert answer.status == 200, answer
        return answer.document


async def at_work(site: Site, key: str = "worker", **about: Any) -> Shell:
    shell = Shell(site, key)
    answer = await shell.register(**about)
    assert answer.status == 201, answer
    return shell


async def submit(site: Site, key: str = "operator", options: dict[str, Any] | None = None, **arguments: Any) -> str:
    document = {"kind": KIND, "arguments": arguments, "options": {"retries": 0, "timeout": 9, **(options or {})}}
    answer = await site.ask("POST", "/v1/jobs", document, key=key)
    assert answer.status == 201, answer
    found: str = answer.document["id"]
    return found


def done(assignment: Any, **more: Any) -> dict[str, Any]:
    return {"job": assignment["job"], "attempt": assignment["attempt"], "type": "completed", **more}


async def test_a_job_through_the_protocol(each_site: Site) -> None:
    site = each_site
    shell = Shell(site)
    answer = await shell.register(features=["progress", "later"], surprise={"ignored": True})
    assert answer.status == 201
    assert answer.document | {"session": ""} == {
        "session": "",
        "protocol": 1,
        "features": ["progress"],
        "lease_s": 10.0,
        "heartbeat_s": 3.0,
        "long_poll_s": 30.0,
    }
    pulling = asyncio.create_task(shell.pull(surprise=1))
    id_ = await submit(site, text="größe", deep=[{"a": None}])
    (assignment,) = (await pulling)["assignments"]
    options = assignment.pop("options")
    assert (options["retries"], options["timeout_s"]) == (0, 9.0)
    assert assignment == {
        "job": id_,
        "attempt": 1,
        "tenant": "default",
        "queue": "default",
        "kind": KIND,
        "arguments": {"text": "größe", "deep": [{"a": None}]},
        "failures": 0,
    }
    told = await shell.report(
        running=[[id_, 1]], progress=[{"job": id_, "attempt": 1, "percent": 12.5, "message": "x"}]
    )
    assert told == {"rejected": [], "cancel": [], "drain": False}
    shown = (await site.ask("GET", f"/v1/jobs/{id_}")).document
    assert (shown["state"], shown["progress"]["percent"], shown["progress"]["message"]) == ("running", 12.5, "x")
    for _ in range(2):  # a repeated report is no late one
        assert (await shell.report(done(assignment, result={"sum": [1, 2.5]})))["rejected"] == []
    ended = await site.ended(id_)
    assert (ended["state"], ended["result"]) == ("completed", {"sum": [1, 2.5]})
    assert (await site.ask("DELETE", f"/v1/workers/{shell.session}", key="worker")).status == 204
    answer = await shell.call("pull", {"number": 99, "free": 1})
    assert (answer.status, answer.document["type"]) == (410, "/v1/problems/session-ended")


async def test_registering_makes_its_kinds_known_and_leaves_declared_ones_alone(site: Site) -> None:
    refused = await site.ask("POST", "/v1/jobs", {"kind": KIND})
    assert refused.status in (404, 422)
    before = {kind.name: kind.defaults for kind in await site.app.store.list_kinds()}
    await at_work(site, kinds=[KIND, "add"])
    after = {kind.name: kind.defaults for kind in await site.app.store.list_kinds()}
    assert after == before | {KIND: b"{}"}
    await submit(site)


@pytest.mark.parametrize(
    ("outcome", "state", "reason"),
    [
        ({"type": "completed"}, "completed", None),
        ({"type": "failed", "failure": {"message": "no luck", "type": "Oops"}}, "failed", "error"),
        ({"type": "failed", "failure": {"reason": "timeout"}}, "failed", "timeout"),
        ({"type": "failed", "failure": {"reason": "something else"}}, "failed", "error"),
        ({"type": "failed"}, "failed", "error"),
        ({"type": "cancelled"}, "cancelled", "raised"),
        ({"type": "completed", "result": "x" * 1_100_000}, "failed", "result"),
    ],
)
async def test_ways_to_end(site: Site, outcome: dict[str, Any], state: str, reason: str | None) -> None:
    shell = await at_work(site)
    id_ = await submit(site)
    assignment = await shell.job()
    assert (await shell.report(done(assignment) | outcome))["rejected"] == []
    ended = await site.ended(id_)
    assert (ended["state"], ended["reason"]) == (state, reason)


async def test_a_worker_tells_what_it_used_and_stored(site: Site) -> None:
    shell = await at_work(site)
    id_ = await submit(site)
    assignment = await shell.job()
    used = {"cpu_s": 1.5, "peak_mb": 20, "sent_bytes": 7}
    stored = {"name": "report.csv", "size": 3, "sha256": "00" * 32}
    assert await shell.report(done(assignment, usage=used, outputs=[stored]))
    await site.ended(id_)
    shown = (await site.ask("GET", f"/v1/jobs/{id_}")).document
    assert {name: shown["usage"][name] for name in used} == used
    (found,) = await site.app.store.read_ended([parse_id(id_)])
    assert found is not None
    assert found.outputs is not None
    assert found.expires_at is None


async def test_how_long_a_result_is_kept_is_not_the_workers_affair(site: Site) -> None:
    shell = await at_work(site)
    id_ = await submit(site, options={"result_ttl": "1m"})
    assert await shell.report(done(await shell.job(), result=1, result_ttl_s=3600))
    await site.ended(id_)
    (found,) = await site.app.store.read_ended([parse_id(id_)])
    (record,) = await site.app.store.read_jobs([parse_id(id_)])
    assert found is not None
    assert found.expires_at is not None
    assert record is not None
    assert record.finished_at is not None
    assert abs(found.expires_at - record.finished_at - 60_000_000) < 1_000_000


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"usage": {"cpu_s": -1}}, "outcomes[0].usage.cpu_s"),
        ({"usage": {"read_bytes": 1 << 60}}, "outcomes[0].usage.read_bytes"),
    ],
)
async def test_what_a_worker_cannot_tell(site: Site, more: dict[str, Any], field: str) -> None:
    shell = await at_work(site)
    await submit(site)
    answer = await shell.call("report", {"outcomes": [done(await shell.job(), **more)]})
    assert (answer.status, answer.document["field"]) == (422, field)


async def test_what_is_snoozed_or_returned_runs_again(site: Site) -> None:
    shell = await at_work(site)
    id_ = await submit(site)
    first = await shell.job()
    await shell.report(done(first) | {"type": "returned"})
    second = await shell.job()
    assert (second["job"], second["attempt"], second["failures"]) == (id_, 2, 0)
    await shell.report(done(second) | {"type": "snoozed", "until": "2020-01-01T00:00:00Z"})
    third = await shell.job()
    assert third["attempt"] == 3


async def test_a_repeated_pull_is_answered_with_the_same_jobs(site: Site) -> None:
    shell = await at_work(site)
    await submit(site)
    first = await shell.job()
    answer = await shell.call("pull", {"number": shell.number, "free": 4})
    assert answer.document["assignments"] == [first]


async def test_a_pull_may_be_short(site: Site) -> None:
    shell = await at_work(site)
    assert await shell.pull(wait_s=0) == {"assignments": [], "cancel": [], "drain": False}


async def test_a_cancel_wakes_a_waiting_pull(site: Site) -> None:
    shell = await at_work(site)
    id_ = await submit(site)
    assignment = await shell.job()
    pulling = asyncio.create_task(shell.pull())
    assert (await site.ask("POST", f"/v1/jobs/{id_}/cancel")).document == {"state": "requested"}
    assert (await pulling)["cancel"] == [id_]
    await shell.report(done(assignment) | {"type": "cancelled", "reason": "requested"})
    assert (await site.ended(id_))["reason"] == "requested"


async def test_an_operator_asks_a_worker_to_leave(site: Site) -> None:
    shell = await at_work(site)
    pulling = asyncio.create_task(shell.pull())
    (worker,) = [w for w in (await site.ask("GET", "/v1/workers")).document if w["name"] == "shell"]
    assert worker["id"] == shell.session
    assert (await site.ask("POST", f"/v1/workers/{worker['id']}/drain")).status == 204
    assert (await pulling)["drain"] is True
    assert (await shell.report())["drain"] is True


async def test_an_operator_removes_a_worker_and_its_jobs_run_elsewhere(site: Site) -> None:
    shell, other = await at_work(site), None
    id_ = await submit(site)
    await shell.job()
    other = await at_work(site)
    assert (await site.ask("DELETE", f"/v1/workers/{shell.session}", key="operator")).status == 204
    again = await other.job()
    assert (again["job"], again["attempt"], again["failures"]) == (id_, 2, 0)
    assert (await shell.call("report", {})).status == 410
    assert (await site.ask("DELETE", f"/v1/workers/{shell.session}", key="operator")).status == 404


async def test_i16_a_worker_sees_jobs_of_its_own_tenant_only(site: Site) -> None:
    ours, theirs = await at_work(site), await at_work(site, key="other-worker")
    id_ = await submit(site)
    other = await submit(site, key="other-operator")
    assert (await theirs.job())["job"] == other
    assert (await ours.job())["job"] == id_
    for what, document in (("pull", {"number": 1, "free": 1}), ("report", {"outcomes": []})):
        answer = await ours.call(what, document, key="other-worker")
        assert answer.status == 410, answer
    assert (await site.ask("DELETE", f"/v1/workers/{ours.session}", key="other-worker")).status == 410
    assert (await site.ask("POST", f"/v1/workers/{ours.session}/drain", key="other-operator")).status == 404
    forged = await theirs.report({"job": id_, "attempt": 1, "type": "completed", "result": "stolen"})
    assert forged["rejected"] == [id_]


async def test_a_worker_with_a_key_of_all_tenants_serves_all_of_them_or_the_one_it_names(site: Site) -> None:
    everybody = await at_work(site, key="worker*")
    other = await submit(site, key="other-operator")
    assert (await everybody.job())["job"] == other
    (record,) = await site.app.store.read_sessions([uuid.UUID(everybody.session).bytes])
    assert record is not None
    assert (record.tenant, record.remote) == (None, True)
    document = {"protocol": 1, "name": "shell", "slots": 4, "kinds": [KIND]}
    answer = await site.ask("POST", "/v1/workers", document, key="worker*", headers={"Mainspring-Tenant": "other"})
    (record,) = await site.app.store.read_sessions([uuid.UUID(answer.document["session"]).bytes])
    assert record is not None
    assert record.tenant == "other"


async def test_the_session_of_a_worker_inside_a_node_is_nobodys_to_pull_for(site: Site) -> None:
    (inside,) = await site.app.store.list_sessions()
    answer = await site.ask(
        "POST", f"/v1/workers/{uuid.UUID(bytes=inside.id)}/pull", {"number": 1, "free": 1}, key="worker*"
    )
    assert answer.status == 410


async def test_a_join_token_is_exchanged_once_for_a_key(site: Site) -> None:
    made = await site.ask("POST", "/v1/join-tokens", {"name": "rack 7"}, key="admin")
    site.keys["token"] = made.document["key"]
    answer = await site.ask("POST", "/v1/workers/enrol", key="token")
    assert answer.status == 201, answer
    site.keys["enrolled"] = answer.document["key"]
    assert (answer.document["role"], answer.document["tenant"]) == ("worker", "default")
    await at_work(site, key="enrolled")
    assert (await site.ask("POST", "/v1/workers/enrol", key="token")).status == 401
    assert (await site.ask("POST", "/v1/workers", {"protocol": 1}, key="token")).status in (401, 403)


@pytest.mark.parametrize("key", ["viewer", "operator", "admin", "join"])
async def test_other_keys_do_not_work(site: Site, key: str) -> None:
    assert (await Shell(site, key).register()).status == 403


# --- bad input


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"protocol": 2}, "protocol"),
        ({"protocol": "1"}, "protocol"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"slots": 0}, "slots"),
        ({"slots": True}, "slots"),
        ({"slots": 10**9}, "slots"),
        ({"kinds": []}, "kinds"),
        ({"kinds": ["a" * 201]}, "kinds"),
        ({"kinds": "add"}, "kinds"),
        ({"labels": ["b", ""]}, "labels[1]"),
        ({"resources": {"cpu": -1}}, "resources.cpu"),
        ({"resources": {"memory_mb": 1e300}}, "resources.memory_mb"),
    ],
)
async def test_a_registration_that_is_wrong_names_its_field(site: Site, change: dict[str, Any], field: str) -> None:
    answer = await Shell(site).register(**change)
    assert (answer.status, answer.headers["Content-Type"]) == (422, PROBLEM)
    assert answer.document["field"] == field


async def test_another_version_of_the_protocol_is_refused_and_both_are_named(site: Site) -> None:
    answer = await Shell(site).register(protocol=7)
    assert "version 7" in answer.document["detail"]
    assert "version 1" in answer.document["detail"]


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("pull", b""),
        ("pull", b"{"),
        ("pull", b"[]"),
        ("pull", b'{"number": -1, "free": 1}'),
        ("pull", b'{"number": 1, "free": -1}'),
        ("pull", b'{"number": 1, "free": 1e9}'),
        ("pull", b'{"number": 1, "free": 1, "wait_s": "x"}'),
        ("report", b'{"outcomes": [{"job": "x", "attempt": 1, "type": "completed"}]}'),
        (
            "report",
            b'{"outcomes": [{"job": "01900000-0000-7000-8000-000000000000", "attempt": 0, "type": "completed"}]}',
        ),
        ("report", b'{"outcomes": [{"job": "01900000-0000-7000-8000-000000000000", "attempt": 1, "type": "won"}]}'),
        ("report", b'{"outcomes": [{"job": "01900000-0000-7000-8000-000000000000", "attempt": 1, "type": "snoozed"}]}'),
        ("report", b'{"running": [["x", 1]]}'),
        ("report", b'{"progress": [{"job": "x", "attempt": 1, "percent": 101}]}'),
        ("report", b'{"outcomes": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        ("report", b"\xff\xfe"),
    ],
)
async def test_calls_that_are_wrong_are_refused_and_change_nothing(site: Site, what: str, body: bytes) -> None:
    shell = await at_work(site)
    answer = await site.ask("POST", f"/v1/workers/{shell.session}/{what}", data=body, key="worker")
    assert (answer.status, answer.headers["Content-Type"]) == (422, PROBLEM), answer
    assert answer.document["field"]


async def test_a_result_that_cannot_be_read_again_ends_its_job_and_leaves_the_others_alone(site: Site) -> None:
    shell = await at_work(site)
    ids = [await submit(site), await submit(site)]
    found: list[Any] = []
    while len(found) < 2:
        found += (await shell.pull())["assignments"]
    outcomes = [json.dumps(done(each)).encode()[:-1] for each in sorted(found, key=lambda each: ids.index(each["job"]))]
    body = b'{"outcomes": [' + outcomes[0] + b', "result": "\xff"}, ' + outcomes[1] + b', "result": 7}]}'
    answer = await site.ask("POST", f"/v1/workers/{shell.session}/report", data=body, key="worker")
    assert answer.document["rejected"] == []
    assert [(await site.ended(id_))["state"] for id_ in ids] == ["failed", "completed"]


@pytest.mark.parametrize("session", ["x", "00000000-0000-0000-0000-00000000000g", "a%2fb"])
async def test_what_is_no_session_is_refused(site: Site, session: str) -> None:
    answer = await site.ask("POST", f"/v1/workers/{session}/pull", {"number": 1, "free": 1}, key="worker")
    assert (answer.status, answer.document["field"]) == (422, "session")


async def test_without_keys_everybody_is_a_worker_and_may_remove_one(open_site: Site) -> None:
    shell = await at_work(open_site)
    id_ = await submit(open_site)
    assert (await shell.job())["job"] == id_
    assert (await open_site.ask("DELETE", f"/v1/workers/{shell.session}")).status == 204
    assert (await open_site.app.store.read_jobs([parse_id(id_)]))[0].state == "pending"  # type: ignore[union-attr]
