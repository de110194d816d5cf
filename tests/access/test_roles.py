"""Who may do what: the table is complete, roles grow as they should, and the page shows the table."""

from pathlib import Path

import pytest

from mainspring.access.roles import INSTANCE, OPEN, PERMISSIONS, Role, allows, permissions_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "permissions.md"
OBJECTS = {"put_object", "get_object", "find_objects"}
PROTOCOL = {"register_worker", "pull_jobs", "report_attempts", "enrol_worker"} | OBJECTS


def of(role: Role) -> set[str]:
    return {operation for operation in PERMISSIONS if allows(role, operation)}


def test_the_page_is_the_table() -> None:
    made = "python -m mainspring.access.roles > docs/reference/permissions.md"
    assert PAGE.read_text() == permissions_page() + "\n", f"make it again: {made}"


def test_roles_grow() -> None:
    assert of(Role.VIEWER) < of(Role.SUBMITTER) < of(Role.OPERATOR) < of(Role.ADMIN)
    assert of(Role.ADMIN) == PERMISSIONS.keys() - PROTOCOL


def test_viewers_change_nothing() -> None:
    changing = ("submit", "create", "delete", "put", "pause", "resume", "cancel", "update", "retry", "clone", "bulk")
    assert not [operation for operation in of(Role.VIEWER) if operation.startswith(changing)]


def test_workers_and_join_tokens_do_their_one_thing() -> None:
    protocol = {"register_worker", "pull_jobs", "report_attempts", "end_worker", "declare"}
    assert of(Role.WORKER) == protocol | OBJECTS
    assert of(Role.JOIN) == {"enrol_worker"}


def test_what_concerns_all_tenants_is_not_for_those_who_only_look_or_submit() -> None:
    assert PERMISSIONS.keys() > INSTANCE
    assert not INSTANCE & (of(Role.SUBMITTER) | of(Role.WORKER))


@pytest.mark.parametrize("role", Role)
def test_open_to_everybody_and_closed_to_everybody(role: Role) -> None:
    assert not OPEN & PERMISSIONS.keys()
    assert all(allows(role, operation) for operation in OPEN)
    assert not allows(role, "no_such_operation")
