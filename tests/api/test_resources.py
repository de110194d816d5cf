"""Schedules, templates, queues, nodes, workers, the system, keys, tenants and audit: each verb once through HTTP."""

from typing import Any

from api.site import Answer, Site


def ok(answer: Answer, status: int = 200) -> Any:
    assert answer.status == status, answer
    return answer.document if answer.body else None


async def test_schedules(each_site: Site) -> None:
    site = each_site
    rule = {"cron": "0 9 * * *", "tz": "Europe/Berlin"}
    made = ok(
        await site.ask("POST", "/v1/schedules", {"name": "daily", "kind": "add", "rule": rule, "arguments": {"a": 1}}),
        201,
    )
    assert (made["name"], made["rule"]["cron"], made["origin"]) == ("daily", "0 9 * * *", "user")
    again = await site.ask(
        "POST", "/v1/schedules", {"name": "daily", "kind": "add", "rule": rule, "arguments": {"a": 1}}
    )
    assert again.status == 409
    assert {one["name"] for one in ok(await site.ask("GET", "/v1/schedules", key="viewer"))} == {"daily", "yearly"}
    assert len(ok(await site.ask("GET", "/v1/schedules/daily/next?count=3"))) == 3
    ok(await site.ask("POST", "/v1/schedules/daily/pause"), 204)
    assert ok(await site.ask("GET", "/v1/schedules/daily"))["paused"]
    ok(await site.ask("POST", "/v1/schedules/daily/resume"), 204)
    job = ok(await site.ask("POST", "/v1/schedules/daily/trigger"), 201)["id"]
    assert (await site.ended(job))["result"] == 1
    keyed = {"Idempotency-Key": "k"}
    made = ok(await site.ask("POST", "/v1/schedules/daily/trigger", headers=keyed), 201)
    again = ok(await site.ask("POST", "/v1/schedules/daily/trigger", headers=keyed), 200)
    assert (made["existed"], again) == (False, {"id": made["id"], "existed": True})
    span = {"first": "2024-01-01T00:00:00Z", "last": "2024-01-03T00:00:00Z"}
    assert ok(await site.ask("POST", "/v1/schedules/daily/backfill", span)) == {"jobs": 2}
    assert ok(await site.ask("GET", "/v1/schedules/daily/missed")) == []
    ok(await site.ask("DELETE", "/v1/schedules/daily"), 204)
    assert (await site.ask("GET", "/v1/schedules/daily")).status == 404


async def test_templates(each_site: Site) -> None:
    site = each_site
    definition: dict[str, Any] = {
        "kind": "add",
        "arguments": {"a": {"$": "first"}, "b": 1},
        "placeholders": {"first": {"type": "integer"}},
    }
    assert ok(await site.ask("PUT", "/v1/templates/plus", definition))["version"] == 1
    assert ok(await site.ask("PUT", "/v1/templates/plus", definition))["version"] == 1
    changed = definition | {"arguments": {"a": {"$": "first"}, "b": 2}}
    assert ok(await site.ask("PUT", "/v1/templates/plus", changed))["version"] == 2
    job = ok(await site.ask("POST", "/v1/templates/plus/submit", {"values": {"first": 40}}, key="submitter"), 201)
    assert (await site.ended(job["id"]))["result"] == 42
    keyed = {"values": {"first": 40}, "options": {"key": "once"}}
    first = ok(await site.ask("POST", "/v1/templates/plus/submit", keyed, key="submitter"), 201)
    assert ok(await site.ask("POST", "/v1/templates/plus/submit", keyed, key="submitter"))["id"] == first["id"]
    missing = await site.ask("POST", "/v1/templates/plus/submit", key="submitter")
    assert (missing.status, missing.document["type"]) == (422, "/v1/problems/invalid")
    assert [one["version"] for one in ok(await site.ask("GET", "/v1/templates/plus/versions"))] == [2, 1]
    assert ok(await site.ask("POST", "/v1/templates/plus/rollback", {"version": 1}))["current"] == 1
    assert ok(await site.ask("GET", "/v1/templates/plus?version=2"))["definition"]["arguments"]["b"] == 2
    ok(
        await site.ask(
            "POST", "/v1/templates/validate", {"definition": definition, "values": {"first": 1}}, key="viewer"
        ),
        204,
    )
    ok(await site.ask("POST", "/v1/templates/plus/share", {"tenants": ["other"]}))
    shared = ok(await site.ask("GET", "/v1/templates", key="other-viewer"))
    assert [(one["tenant"], one["name"]) for one in shared] == [("default", "plus")]
    bundle = ok(await site.ask("GET", "/v1/templates/export"))
    loaded = ok(await site.ask("POST", "/v1/templates/import", bundle, key="other-operator"))
    assert [(one["tenant"], one["name"]) for one in loaded] == [("other", "plus")]
    ok(await site.ask("DELETE", "/v1/templates/plus"), 204)
    assert (await site.ask("GET", "/v1/templates/plus")).status == 404


async def test_queues(each_site: Site) -> None:
    site = each_site
    ok(await site.ask("POST", "/v1/queues/sums/pause"), 204)
    job = await site.submit()
    queue = ok(await site.ask("GET", "/v1/queues/sums", key="viewer"))
    assert (queue["paused"], queue["jobs"]["pending"]) == (True, 1)
    assert "sums" in {one["name"] for one in ok(await site.ask("GET", "/v1/queues"))}
    ok(await site.ask("POST", "/v1/queues/sums/resume"), 204)
    assert (await site.ended(job))["state"] == "completed"


async def test_the_system(each_site: Site) -> None:
    site = each_site
    await site.ended(await site.submit())
    counted = ok(await site.ask("GET", "/v1/statistics", key="viewer"))
    assert (counted["jobs"]["completed"], counted["schedules"], counted["workers"]) == (1, 1, 1)
    span = "since=2020-01-01T00:00:00Z&until=2200-01-01T00:00:00Z&step_s=31622400"
    assert ok(await site.ask("GET", f"/v1/history?{span}"))["periods"][0]["kind"] == "add"
    (worker,) = ok(await site.ask("GET", "/v1/workers"))
    assert (worker["slots"], set(worker["kinds"])) == (4, {"add", "broken", "hold", "yearly"})
    (node,) = ok(await site.ask("GET", "/v1/nodes"))
    assert (node["alive"], node["draining"]) == (True, False)
    removed = await site.ask("DELETE", f"/v1/nodes/{node['name']}", key="admin*")
    assert removed.status == 409
    said = {"kinds": [{"name": "elsewhere", "options": {"queue": "far"}}], "schedules": []}
    assert ok(await site.ask("POST", "/v1/declarations", said)) == {"orphans": ["yearly"]}
    made = ok(await site.ask("POST", "/v1/jobs", {"kind": "elsewhere"}), 201)
    assert ok(await site.ask("GET", f"/v1/jobs/{made['id']}"))["queue"] == "far"


async def test_keys_tenants_and_the_record_of_it(each_site: Site) -> None:
    site = each_site
    tenant = ok(await site.ask("POST", "/v1/tenants", {"name": "third", "quota": {"queued": 1}}, key="admin*"), 201)
    assert tenant["quota"]["queued"] == 1
    key = ok(
        await site.ask("POST", "/v1/keys", {"name": "app", "role": "operator", "tenant": "third"}, key="admin*"), 201
    )
    site.keys["third"] = key["key"]
    await site.submit(key="third", delay="1h")
    await site.serving.parts.quotas.run_once()
    full = await site.ask(
        "POST", "/v1/jobs", {"kind": "add", "arguments": {"a": 1}, "options": {"delay": 99}}, key="third"
    )
    assert (full.status, full.document["field"], "Retry-After" in full.headers) == (429, "queued", True)
    changed = ok(await site.ask("PATCH", "/v1/tenants/third", {"queued": 9}, key="admin*"))
    assert changed["quota"]["queued"] == 9
    third = {"Mainspring-Tenant": "third"}
    listed = ok(await site.ask("GET", "/v1/keys", key="admin*", headers=third))
    assert [(one["name"], "key" in one) for one in listed] == [("app", False)]
    records = ok(await site.ask("GET", "/v1/audit", key="admin*", headers=third))
    assert "create_key" in {record["action"] for record in records}
    assert key["key"] not in str(records)
    assert ok(await site.ask("GET", "/v1/audit/verify", key="admin*", headers=third))["broken_at"] is None
    assert ok(await site.ask("DELETE", "/v1/tenants/third", key="admin*")) == {"jobs": 1}
    assert (await site.ask("GET", "/v1/jobs", key="third")).status == 401
    token = ok(await site.ask("POST", "/v1/join-tokens", {"name": "w"}, key="admin"), 201)
    assert (token["role"], token["key"].startswith("msk_")) == ("join", True)
