"""A request for every operation: what the walks over all routes send."""

from typing import Any

from api.site import UNKNOWN
from mainspring.api.operations import Operation
from mainspring.api.rooms import OPERATIONS

NOWHERE = "nobody-has-this-name"

BODIES: dict[str, Any] = {
    "submit_job": {"kind": "add", "arguments": {"a": 1}, "options": {"delay": "1h"}},
    "submit_jobs": [{"kind": "add", "arguments": {"a": 1}, "options": {"delay": "1h"}}],
    "wait_jobs": {"ids": [UNKNOWN], "timeout_s": 0},
    "update_job": {"priority": 3},
    "bulk_jobs": {"action": "cancel", "filter": {"kind": NOWHERE}, "dry_run": True},
    "create_schedule": {"name": "made", "kind": "add", "rule": {"cron": "0 0 1 1 *"}, "arguments": {"a": 1}},
    "backfill_schedule": {"first": "2020-01-01T00:00:00Z", "last": "2020-01-02T00:00:00Z"},
    "put_template": {"kind": "add", "arguments": {"a": 1}},
    "rollback_template": {"version": 1},
    "share_template": {"tenants": []},
    "validate_template": {"definition": {"kind": "add"}},
    "import_templates": {"templates": {}},
    "register_worker": {"protocol": 1, "features": [], "name": "w", "slots": 1, "kinds": ["add"], "labels": []},
    "pull_jobs": {"number": 1, "free": 1},
    "report_attempts": {"outcomes": [], "running": []},
    "declare": {},
    "create_key": {"name": "made", "role": "viewer"},
    "create_join_token": {"name": "made"},
    "create_tenant": {"name": "made"},
    "set_quota": {"queued": 5},
    "seal_tenant": {"sealed": False},
    "set_secret": {"value": "a value"},
    "rotate_secrets": {},
}
QUERIES = {
    "find_objects": "?prefix=outputs%2F",
    "usage": "?since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z",
    "history": "?since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z",
    "wait_job": "?timeout_s=0",
}


def address(operation: Operation, name: str = NOWHERE) -> str:
    """With an id that nobody has, or this name."""
    path = operation.address
    for part, value in (("id", UNKNOWN), ("session", UNKNOWN), ("job", UNKNOWN), ("attempt", "1"), ("name", name)):
        path = path.replace(f"{{{part}}}", value)
    return path + QUERIES.get(operation.id, "")


def body(operation: Operation) -> Any:
    return BODIES.get(operation.id)


BY_ID = {operation.id: operation for operation in OPERATIONS}
STREAMS = ("job_events", "job_logs", "job_partial", "queue_events", "all_events")
