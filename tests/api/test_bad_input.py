"""Bad input through HTTP: a 4xx problem that names the field, at once, and nothing is written."""

import json
import time
from typing import Any

from api.site import PROBLEM, UNKNOWN, Answer, Site
from mainspring.core.job import MAX_ARGUMENTS_BYTES

DEEP = b"[" * 100_000 + b"]" * 100_000


def job(arguments: bytes = b"{}", options: bytes = b"{}", kind: bytes = b'"add"') -> bytes:
    return b'{"kind": %s, "arguments": %s, "options": %s}' % (kind, arguments, options)


# name -> body of a submit, and the field that the problem names
SUBMITS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "body"),
    "no JSON": (b"{", "body"),
    "a list": (b"[]", "body"),
    "null": (b"null", "body"),
    "NaN": (job(b'{"a": NaN}'), "body"),
    "infinite": (job(b'{"a": -Infinity}'), "body"),
    "too large a float": (job(b'{"a": 1e999}'), "arguments"),
    "arguments as a list": (job(b"[1]"), "arguments"),
    "arguments missing a type": (job(b'"a"'), "arguments"),
    "a boolean as an integer": (job(options=b'{"priority": true}'), "priority"),
    "2^63 as a priority": (job(options=b'{"priority": 9223372036854775808}'), "options"),
    "2^63 as an argument": (job(b'{"a": 9223372036854775808}'), "arguments"),
    "a long number": (job(b'{"a": %s}' % (b"9" * 5000)), "arguments"),
    "a negative delay": (job(options=b'{"delay": -1}'), "delay"),
    "an endless delay": (job(options=b'{"delay": 1e300}'), "delay"),
    "year 10000": (job(options=b'{"at": "10000-01-01T00:00:00Z"}'), "at"),
    "year 9999 and a little": (job(options=b'{"at": "9999-12-31T23:59:59.999999-12:00"}'), "at"),
    "before 1970": (job(options=b'{"at": "1969-12-31T00:00:00Z"}'), "at"),
    "a naive time": (job(options=b'{"at": "2030-01-01T00:00:00"}'), "at"),
    "a time zone as a path": (job(options=b'{"at": "2030-01-01T00:00:00[../../etc/passwd]"}'), "at"),
    "100k deep": (job(b'{"a": ' + DEEP + b"}"), "body"),
    "65 deep": (job(b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}"), "arguments"),
    "100k deep alone": (DEEP, "body"),
    "deep objects": (b'{"a":' * 100_000, "body"),
    "a name twice": (job(b'{"a": 1, "a": 2}'), "arguments"),
    "a name twice inside": (job(b'{"a": {"x": 1, "x": 2}}'), "arguments"),
    "kind twice": (b'{"kind": "add", "kind": "add", "arguments": {"a": 1}}', "body"),
    "an option twice": (job(b'{"a": 1}', b'{"priority": 1, "priority": 2}'), "options"),
    "half a surrogate pair": (job(b'{"a": "\\ud800"}'), "body"),
    "not UTF-8": (job(b'{"a": "\xff"}'), "arguments"),
    "a NUL": (job(b'{"a": "\\u0000"}'), "arguments"),
    "a NUL in a name": (job(b'{"\\u0000": 1}'), "arguments"),
    "a NUL in a queue": (job(options=b'{"queue": "a\\u0000"}'), "options"),
    "CR and LF in a queue": (job(options=b'{"queue": "a\\r\\nb"}'), "queue"),
    "an empty queue": (job(options=b'{"queue": ""}'), "queue"),
    "a long key": (job(options=b'{"key": "%s"}' % (b"k" * 201)), "key"),
    "a tag that is no text": (job(options=b'{"tags": [1]}'), "tags[0]"),
    "33 tags": (job(options=json.dumps({"tags": [str(n) for n in range(33)]}).encode()), "tags"),
    "an unknown option": (job(options=b'{"priorty": 1}'), "priorty"),
    "an unknown field": (b'{"kind": "add", "argument": {}}', "argument"),
    "no kind": (b'{"arguments": {}}', "kind"),
    "a kind that is no text": (job(kind=b"7"), "kind"),
    "another tenant": (job(options=b'{"tenant": "other"}'), "tenant"),
    "a tenant as a path": (job(options=b'{"tenant": "../other"}'), "tenant"),
    "delay and at": (job(options=b'{"delay": 1, "at": "2030-01-01T00:00:00Z"}'), "delay"),
    "arguments 1 byte too large": (
        job(b'{"a": "%s"}' % (b"x" * (MAX_ARGUMENTS_BYTES - len('{"a":""}') + 1))),
        "arguments",
    ),
}


def check(name: str, answer: Answer, field: str | None, status: int = 422) -> None:
    assert (answer.status, answer.headers["Content-Type"]) == (status, PROBLEM), (name, answer)
    problem = answer.document
    assert (problem["status"], problem.get("field")) == (status, field), (name, problem)
    assert problem["title"]
    assert "Traceback" not in problem["detail"]


async def quickly(site: Site, method: str, path: str, body: bytes | None, **more: Any) -> Answer:
    """The answer, which took less than 100 ms of this process's time (the machine has other things to do); one try may be
    unlucky."""
    for _ in range(3):
        began_s = time.process_time()
        answer = await site.ask(method, path, data=body, **more)
        if time.process_time() - began_s < 0.1:
            return answer
    raise AssertionError(f"never within 100 ms: {answer}")


async def test_submits(site: Site) -> None:
    for name, (body, field) in SUBMITS.items():
        answer = await quickly(site, "POST", "/v1/jobs", body, key="submitter")
        check(name, answer, field)
    assert await site.count() == 0
    fits = job(b'{"a": "%s"}' % (b"x" * (MAX_ARGUMENTS_BYTES - len('{"a":""}'))), b'{"delay": "1h"}')
    assert (await site.ask("POST", "/v1/jobs", data=fits)).status == 201


async def test_an_unknown_kind(site: Site) -> None:
    answer = await site.ask("POST", "/v1/jobs", {"kind": "sub"})
    assert (answer.status, answer.document["field"]) == (422, "kind")
    assert "'sub'" in answer.document["detail"]
    assert "add" in answer.document["detail"]


async def test_braces_are_plain_text(site: Site) -> None:
    """As everywhere: `{{ }}`, `${}` and `%s` mean nothing to us."""
    made = await site.ask(
        "POST", "/v1/jobs", {"kind": "add", "arguments": {"a": "{{7*7}} ${HOME} %s {0}"}, "options": {"delay": 99}}
    )
    read = await site.ask("GET", f"/v1/jobs/{made.document['id']}")
    assert read.document["arguments"] == {"a": "{{7*7}} ${HOME} %s {0}"}


# method, path and the field that the problem names; None: no field, 404
ADDRESSES: dict[str, tuple[str, str, str | None]] = {
    "no id": ("GET", "/v1/jobs/hello", "id"),
    "an id with a path": ("GET", "/v1/jobs/..%2F..%2Fetc%2Fpasswd", "id"),
    "an id with a NUL": ("GET", "/v1/jobs/%00", "id"),
    "an id that is not UTF-8": ("GET", "/v1/jobs/%ff", "id"),
    "a limit of 0": ("GET", "/v1/jobs?limit=0", "limit"),
    "a limit of 1001": ("GET", "/v1/jobs?limit=1001", "limit"),
    "a limit of 2^63": ("GET", "/v1/jobs?limit=9223372036854775808", "limit"),
    "a limit that is no number": ("GET", "/v1/jobs?limit=ten", "limit"),
    "a limit in other digits": ("GET", "/v1/jobs?limit=%D9%A3", "limit"),
    "a limit twice": ("GET", "/v1/jobs?limit=1&limit=2", "limit"),
    "no such state": ("GET", "/v1/jobs?state=sleeping", "state"),
    "no such parameter": ("GET", "/v1/jobs?stat=pending", "stat"),
    "a parameter that is not UTF-8": ("GET", "/v1/jobs?queue=%ff", "query"),
    "an endless query": ("GET", "/v1/jobs?queue=" + "a" * 8_000, "queue"),
    "a tampered cursor": ("GET", "/v1/jobs?after=AAAAAAAA", "after"),
    "a cursor of nothing": ("GET", "/v1/jobs?after=", "after"),
    "NaN seconds": ("GET", f"/v1/jobs/{UNKNOWN}/wait?timeout_s=nan", "timeout_s"),
    "endless seconds": ("GET", f"/v1/jobs/{UNKNOWN}/wait?timeout_s=1e9", "timeout_s"),
    "seconds backwards": ("GET", f"/v1/jobs/{UNKNOWN}/wait?timeout_s=-1", "timeout_s"),
    "a naive time": ("GET", "/v1/history?since=2030-01-01T00:00:00&until=2030-01-02T00:00:00Z", "since"),
    "a history without a beginning": ("GET", "/v1/history?until=2030-01-02T00:00:00Z", "since"),
    "no such job": ("GET", f"/v1/jobs/{UNKNOWN}", None),
    "no such queue's events after nothing": ("GET", "/v1/nowhere", None),
    "no such address": ("GET", "/", None),
    "a path upwards": ("GET", "/v1/queues/..%2Fjobs/pause/x", None),
}


async def test_addresses(site: Site) -> None:
    for name, (method, path, field) in ADDRESSES.items():
        answer = await quickly(site, method, path, None, key="viewer")
        check(name, answer, field, 404 if field is None else 422)


async def test_methods(site: Site) -> None:
    answer = await site.ask("PUT", "/v1/jobs", {})
    check("PUT", answer, None, 405)
    assert set(answer.headers["Allow"].split(", ")) >= {"GET", "POST"}


# method, path, document, field
DOCUMENTS: dict[str, tuple[str, str, Any, str]] = {
    "wait for nothing": ("POST", "/v1/jobs/wait", {"ids": []}, "ids"),
    "wait for too many": ("POST", "/v1/jobs/wait", {"ids": [UNKNOWN] * 1001}, "ids"),
    "wait for no id": ("POST", "/v1/jobs/wait", {"ids": ["a"]}, "id"),
    "wait for ever": ("POST", "/v1/jobs/wait", {"ids": [UNKNOWN], "timeout_s": 3601}, "timeout_s"),
    "a bulk of nothing known": ("POST", "/v1/jobs/bulk", {"action": "delete", "filter": {}}, "action"),
    "a bulk without a filter": ("POST", "/v1/jobs/bulk", {"action": "cancel"}, "filter"),
    "a bulk of too many": ("POST", "/v1/jobs/bulk", {"action": "cancel", "filter": {}, "limit": 10_001}, "limit"),
    "a schedule without a rule": ("POST", "/v1/schedules", {"name": "a", "kind": "add"}, "rule"),
    "an impossible cron": (
        "POST",
        "/v1/schedules",
        {"name": "a", "kind": "add", "rule": {"cron": "99 * * * *"}},
        "minute",
    ),
    "no cron": ("POST", "/v1/schedules", {"name": "a", "kind": "add", "rule": {}}, "cron"),
    "an unknown time zone": (
        "POST",
        "/v1/schedules",
        {"name": "a", "kind": "add", "rule": {"cron": "* * * * *", "tz": "Mars/Base"}},
        "tz",
    ),
    "a time zone as a path": (
        "POST",
        "/v1/schedules",
        {"name": "a", "kind": "add", "rule": {"cron": "* * * * *", "tz": "../../etc/passwd"}},
        "tz",
    ),
    "a schedule's name with a line": (
        "POST",
        "/v1/schedules",
        {"name": "a\nb", "kind": "add", "rule": {"cron": "* * * * *"}},
        "name",
    ),
    "a backfill without an end": ("POST", "/v1/schedules/yearly/backfill", {"first": "2020-01-01T00:00:00Z"}, "last"),
    "a naive backfill": (
        "POST",
        "/v1/schedules/yearly/backfill",
        {"first": "2020-01-01T00:00:00", "last": "2020-01-02T00:00:00Z"},
        "first",
    ),
    "a template of nothing": ("PUT", "/v1/templates/a", {}, "kind"),
    "a key of no role": ("POST", "/v1/keys", {"name": "a", "role": "king"}, "role"),
    "a key with a line": ("POST", "/v1/keys", {"name": "a\r\nb", "role": "viewer"}, "name"),
    "a key that has expired": ("POST", "/v1/keys", {"name": "a", "role": "viewer", "expires_in": 0}, "expires_in"),
    "a rate of NaN": ("POST", "/v1/keys", {"name": "a", "role": "viewer", "requests_per_s": -1}, "requests_per_s"),
    "a tenant as a path": ("POST", "/v1/tenants", {"name": "../a"}, "name"),
    "a quota below nothing": ("POST", "/v1/tenants", {"name": "a", "quota": {"queued": -1}}, "quota.queued"),
    "an audit from below": ("GET", "/v1/audit?after=-1", None, "after"),
}


async def test_documents(site: Site) -> None:
    for name, (method, path, document, field) in DOCUMENTS.items():
        body = None if document is None else json.dumps(document).encode()
        check(name, await quickly(site, method, path, body, key="admin*"), field)


HEADERS: dict[str, tuple[dict[str, str], int, str | None]] = {
    "a long key": ({"Idempotency-Key": "k" * 201}, 422, "Idempotency-Key"),
    "a very long key": ({"Idempotency-Key": "k" * 2000}, 422, "Idempotency-Key"),
    "an empty key": ({"Idempotency-Key": ""}, 422, "Idempotency-Key"),
    "a tab in a key": ({"Idempotency-Key": "a\tb"}, 422, "Idempotency-Key"),
    "a long tenant": ({"Mainspring-Tenant": "t" * 201}, 422, "Mainspring-Tenant"),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415, None),
    "plain text": ({"Content-Type": "text/plain"}, 415, None),
}


async def test_headers(site: Site) -> None:
    body = job(b'{"a": 1}', b'{"delay": "1h"}')
    for name, (headers, status, field) in HEADERS.items():
        check(name, await site.ask("POST", "/v1/jobs", data=body, headers=headers), field, status)
        if field == "Idempotency-Key":
            check(name, await site.ask("POST", "/v1/schedules/s/trigger", headers=headers), field, status)
    assert await site.count() == 0
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert (await site.ask("POST", "/v1/jobs", data=body, headers=charset)).status == 201


async def test_names_with_slashes_and_more(site: Site) -> None:
    """A name may hold whatever can be printed; in an address it is escaped."""
    made = await site.ask(
        "POST",
        "/v1/schedules",
        {"name": "a/b %2F ä", "kind": "add", "rule": {"cron": "0 0 1 1 *"}, "arguments": {"a": 1}},
    )
    assert made.status == 201, made
    import yarl

    path = yarl.URL(f"{site.url}/v1/schedules/a%2Fb%20%252F%20%C3%A4", encoded=True)
    headers = {"Authorization": f"Bearer {site.keys['viewer']}"}
    async with site.client.get(path, headers=headers) as response:
        assert (response.status, (await response.json())["name"]) == (200, "a/b %2F ä")
