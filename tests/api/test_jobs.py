"""Jobs over HTTP: submit, read, wait, steer; on both stores."""

import asyncio

from api.site import UNKNOWN, Site


async def test_a_job_from_submit_to_result(each_site: Site) -> None:
    site = each_site
    answer = await site.ask(
        "POST", "/v1/jobs", {"kind": "add", "arguments": {"a": 2, "b": 3}, "options": {"priority": 7}}
    )
    assert (answer.status, answer.document["existed"]) == (201, False)
    job = answer.document["id"]
    ended = await site.ended(job)
    assert (ended["id"], ended["kind"], ended["state"], ended["result"], ended["error"]) == (
        job,
        "add",
        "completed",
        5,
        None,
    )
    read = (await site.ask("GET", f"/v1/jobs/{job}", key="viewer")).document
    assert (read["priority"], read["queue"], read["tenant"], read["arguments"]) == (
        7,
        "sums",
        "default",
        {"a": 2, "b": 3},
    )
    assert read["created_at"].endswith("Z")
    explained = (await site.ask("GET", f"/v1/jobs/{job}/explain")).document
    assert explained["causes"]


async def test_a_key_is_one_job(each_site: Site) -> None:
    site = each_site
    document = {"kind": "add", "arguments": {"a": 1}}
    first = await site.ask("POST", "/v1/jobs", document, headers={"Idempotency-Key": "order-7"})
    again = await site.ask("POST", "/v1/jobs", document | {"options": {"key": "order-7"}})
    assert (first.status, again.status, again.document) == (201, 200, {"id": first.document["id"], "existed": True})
    other = await site.ask(
        "POST", "/v1/jobs", {"kind": "add", "arguments": {"a": 2}}, headers={"Idempotency-Key": "order-7"}
    )
    assert (other.status, other.document["type"]) == (409, "/v1/problems/conflict")
    twice = await site.ask(
        "POST", "/v1/jobs", document | {"options": {"key": "x"}}, headers={"Idempotency-Key": "order-7"}
    )
    assert (twice.status, twice.document["field"]) == (422, "Idempotency-Key")


async def test_failures_are_told_and_can_be_run_again(site: Site) -> None:
    job = await site.submit("broken")
    ended = await site.ended(job)
    assert (ended["state"], ended["reason"], ended["error"]["type"]) == ("failed", "error", "ValueError")
    again = await site.ask("POST", f"/v1/jobs/{job}/retry", {"delay": "1h"}, key="submitter")
    assert (again.status, again.document["state"]) == (200, "pending")
    twice = await site.ask("POST", f"/v1/jobs/{job}/retry", key="submitter")
    assert twice.status == 409
    (refused,) = (await site.ask("GET", f"/v1/jobs/{job}")).document["errors"]
    assert refused["message"] == "as it must be"


async def test_changing_and_cancelling_a_waiting_job(site: Site) -> None:
    job = await site.submit(delay="1h")
    changed = await site.ask("PATCH", f"/v1/jobs/{job}", {"priority": 9, "arguments": {"a": 5}}, key="submitter")
    assert (changed.status, changed.document["priority"], changed.document["arguments"]) == (200, 9, {"a": 5})
    cancelled = await site.ask("POST", f"/v1/jobs/{job}/cancel", key="submitter")
    assert cancelled.document == {"state": "cancelled"}
    assert (await site.ask("POST", f"/v1/jobs/{job}/cancel")).document == {"state": "ended"}
    assert (await site.ask("PATCH", f"/v1/jobs/{job}", {"priority": 9})).status == 409


async def test_clones(site: Site) -> None:
    job = await site.submit(delay="1h")
    answer = await site.ask(
        "POST", f"/v1/jobs/{job}/clone", {"variations": [{"arguments": {"a": 10}}, {"options": {"priority": 2}}]}
    )
    assert (answer.status, len(answer.document)) == (201, 2)
    results = [(await site.ended(clone["id"]))["result"] for clone in answer.document]
    assert results == [12, 3]
    assert (await site.ask("POST", f"/v1/jobs/{job}/clone")).status == 201


async def test_listing_page_by_page(each_site: Site) -> None:
    site = each_site
    jobs = [await site.submit(delay="1h", tags=["seen"]) for _ in range(5)]
    await site.submit(delay="1h")
    found: list[str] = []
    after = ""
    while True:
        page = (await site.ask("GET", f"/v1/jobs?tag=seen&state=pending&limit=2{after}")).document
        found += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert found == sorted(jobs, reverse=True)
    assert (await site.ask("GET", "/v1/jobs?queue=elsewhere")).document == {"jobs": [], "next": None}


async def test_waiting_for_one_that_does_not_end(site: Site) -> None:
    job = await site.submit(delay="1h")
    answer = await site.ask("GET", f"/v1/jobs/{job}/wait?timeout_s=0.05")
    assert (answer.status, answer.body) == (204, b"")
    assert (await site.ask("GET", f"/v1/jobs/{UNKNOWN}/wait")).status == 404


async def test_waiting_for_the_first_of_many(site: Site) -> None:
    slow, later = await site.submit(delay="1h"), await site.submit(delay="1h")
    waiting = asyncio.create_task(site.ask("POST", "/v1/jobs/wait", {"ids": [slow, later], "timeout_s": 20}))
    await site.ask("POST", f"/v1/jobs/{slow}/cancel")
    answer = (await waiting).document
    assert [(end["id"], end["state"]) for end in answer["ended"]] == [(slow, "cancelled")]
    at_once = await site.ask("POST", "/v1/jobs/wait", {"ids": [later, UNKNOWN], "timeout_s": 20})
    assert at_once.document == {"ended": [], "unknown": [UNKNOWN], "unreadable": {}}
    none = await site.ask("POST", "/v1/jobs/wait", {"ids": [await site.submit(delay="1h")], "timeout_s": 0})
    assert none.document == {"ended": [], "unknown": [], "unreadable": {}}


async def test_doing_one_thing_to_many(site: Site) -> None:
    for _ in range(3):
        await site.submit(delay="1h")
    request = {"action": "cancel", "filter": {"state": "pending", "kind": "add"}}
    dry = (await site.ask("POST", "/v1/jobs/bulk", request | {"dry_run": True})).document
    assert (dry["matched"], dry["changed"]) == (3, 0)
    done = (await site.ask("POST", "/v1/jobs/bulk", request)).document
    assert (done["matched"], done["changed"], done["more"]) == (3, 3, False)
    assert (await site.ask("POST", "/v1/jobs/bulk", request, key="submitter")).status == 403
