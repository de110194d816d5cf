"""Which role may do what: the one table, by the operation ids of the HTTP API.

The API asks `allows` for every request; docs/reference/permissions.md is made from the same table, and a test compares:
`python -m mainspring.access.roles > docs/reference/permissions.md`. An operation that is in neither `PERMISSIONS` nor `OPEN` is
allowed to nobody.
"""

from collections.abc import Iterable
from enum import StrEnum


class Role(StrEnum):
    """What a key is for. `join` is the role of join tokens: they enrol one worker, and nothing else."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    ADMIN = "admin"
    WORKER = "worker"
    JOIN = "join"


_VIEW = (Role.VIEWER, Role.SUBMITTER, Role.OPERATOR, Role.ADMIN)
_SUBMIT = (Role.SUBMITTER, Role.OPERATOR, Role.ADMIN)
_OPERATE = (Role.OPERATOR, Role.ADMIN)
_ADMINISTER = (Role.ADMIN,)
_WORK = (Role.WORKER,)

#: Group -> operation -> who may.
_GROUPS: dict[str, dict[str, tuple[Role, ...]]] = {
    "Jobs": {
        "list_jobs": _VIEW,
        "read_job": _VIEW,
        "wait_job": _VIEW,
        "wait_jobs": _VIEW,
        "read_result": _VIEW,
        "list_outputs": _VIEW,
        "download_output": _VIEW,
        "explain_job": _VIEW,
        "job_events": _VIEW,
        "job_logs": _VIEW,
        "job_partial": _VIEW,
        "submit_job": _SUBMIT,
        "submit_jobs": _SUBMIT,
        "clone_job": _SUBMIT,
        "update_job": _SUBMIT,
        "cancel_job": _SUBMIT,
        "retry_job": _SUBMIT,
        "bulk_jobs": _OPERATE,
    },
    "Schedules": {
        "list_schedules": _VIEW,
        "read_schedule": _VIEW,
        "next_times": _VIEW,
        "list_missed": _VIEW,
        "create_schedule": _OPERATE,
        "delete_schedule": _OPERATE,
        "pause_schedule": _OPERATE,
        "resume_schedule": _OPERATE,
        "trigger_schedule": _OPERATE,
        "backfill_schedule": _OPERATE,
    },
    "Templates": {
        "list_templates": _VIEW,
        "read_template": _VIEW,
        "list_template_versions": _VIEW,
        "validate_template": _VIEW,
        "export_templates": _VIEW,
        "submit_template": _SUBMIT,
        "put_template": _OPERATE,
        "delete_template": _OPERATE,
        "rollback_template": _OPERATE,
        "share_template": _OPERATE,
        "import_templates": _OPERATE,
    },
    "Queues": {
        "list_queues": _VIEW,
        "read_queue": _VIEW,
        "queue_events": _VIEW,
        "pause_queue": _OPERATE,
        "resume_queue": _OPERATE,
    },
    "Workers": {
        "list_workers": _VIEW,
        "drain_worker": _OPERATE,
        "end_worker": (*_OPERATE, *_WORK),
        "register_worker": _WORK,
        "pull_jobs": _WORK,
        "report_attempts": _WORK,
        "put_object": _WORK,
        "get_object": _WORK,
        "find_objects": _WORK,
        "enrol_worker": (Role.JOIN,),
    },
    "Nodes": {
        "list_nodes": _VIEW,
        "drain_node": _OPERATE,
        "remove_node": _OPERATE,
    },
    "System": {
        "statistics": _VIEW,
        "history": _VIEW,
        "usage": _VIEW,
        "all_events": _VIEW,
        "declare": (*_OPERATE, *_WORK),
    },
    "Access": {
        "list_keys": _ADMINISTER,
        "create_key": _ADMINISTER,
        "revoke_key": _ADMINISTER,
        "create_join_token": _ADMINISTER,
        "list_audit": _ADMINISTER,
        "verify_audit": _ADMINISTER,
        "list_tenants": _ADMINISTER,
        "create_tenant": _ADMINISTER,
        "set_quota": _ADMINISTER,
        "seal_tenant": _ADMINISTER,
        "erase_tenant": _ADMINISTER,
    },
    "Secrets": {
        "list_secrets": _OPERATE,
        "set_secret": _ADMINISTER,
        "delete_secret": _ADMINISTER,
        "rotate_secrets": _ADMINISTER,
    },
}

PERMISSIONS: dict[str, frozenset[Role]] = {
    operation: frozenset(roles) for group in _GROUPS.values() for operation, roles in group.items()
}

#: Asked without a key.
OPEN = frozenset({"health_live", "health_ready", "version"})

#: What concerns all tenants: the key must be one of all tenants, beside its role.
INSTANCE = frozenset(
    {
        *("drain_node", "remove_node", "rotate_secrets"),
        *("list_tenants", "create_tenant", "set_quota", "seal_tenant", "erase_tenant"),
    }
)


def allows(role: Role, operation: str) -> bool:
    """May a key of this role ask for this?"""
    return operation in OPEN or role in PERMISSIONS.get(operation, ())


def permissions_page() -> str:
    """docs/reference/permissions.md."""
    return "\n".join([_INTRODUCTION, *(line for group in _GROUPS for line in _section(group))])


def _section(group: str) -> Iterable[str]:
    yield f"\n## {group}\n"
    yield "| operation | " + " | ".join(Role) + " |"
    yield "|---|" + "---|" * len(Role)
    for operation, roles in _GROUPS[group].items():
        name = f"`{operation}`" + (" (all tenants)" if operation in INSTANCE else "")
        yield f"| {name} | " + " | ".join("yes" if role in roles else "" for role in Role) + " |"


_INTRODUCTION = f"""# Permissions

Each key has one role. This is what the roles may ask of a server, by the operation ids of the HTTP API. Operations marked "all
tenants" also need a key of all tenants (`*`). A join token has the role `join`, and ends with its one use.

<!-- made from access/roles.py by `python -m mainspring.access.roles`; a test compares -->

Without a key: {", ".join(f"`{operation}`" for operation in sorted(OPEN))}."""


if __name__ == "__main__":
    print(permissions_page())
