"""The states of a job and the only ways between them.

`TRANSITIONS` is the single table: the store's CHECK constraint, the model test and the diagram in the docs are made from
it. A state is what is stored; an outcome (see `mainspring.wire`) is what an attempt reports. Every edge is taken by one
conditional write that names the state and the attempt it expects, so a late or repeated report changes nothing.
"""

from enum import StrEnum


class State(StrEnum):
    """Where a job stands. The last four are not waiting for anything."""

    BLOCKED = "blocked"
    PENDING = "pending"
    ASSIGNED = "assigned"
    RUNNING = "running"
    SKIPPED = "skipped"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.BLOCKED: frozenset({State.PENDING, State.CANCELLED}),
    State.PENDING: frozenset({State.ASSIGNED, State.SKIPPED, State.CANCELLED}),
    State.ASSIGNED: frozenset({State.RUNNING, State.PENDING, State.COMPLETED, State.FAILED, State.CANCELLED}),
    State.RUNNING: frozenset({State.PENDING, State.COMPLETED, State.FAILED, State.CANCELLED}),
    State.SKIPPED: frozenset({State.PENDING, State.CANCELLED}),
    # A replay (`jobs retry`) is the one way out of an ended state, and only out of these two.
    State.FAILED: frozenset({State.PENDING}),
    State.CANCELLED: frozenset({State.PENDING}),
    State.COMPLETED: frozenset(),
}

ENDED = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})
LIVE = frozenset({State.ASSIGNED, State.RUNNING})
WAITING = frozenset({State.BLOCKED, State.PENDING, State.SKIPPED})

#: Attempts that may be lost with their worker before the job is given up.
MAX_LOSSES = 3


class Reason(StrEnum):
    """Why a job ended as failed or cancelled; stored beside the state."""

    ERROR = "error"  # the job raised, and no retry was left
    TIMEOUT = "timeout"
    ARGUMENTS = "arguments"  # the stored arguments no longer fit the function
    UNKNOWN_KIND = "unknown_kind"
    SECRETS = "secrets"  # a secret that it needs is missing, or cannot be opened
    RESULT = "result"  # the function returned something that cannot be stored
    KILLED = "killed"  # its process died: a segfault, out of memory
    LOST = "lost"  # its worker died, once too often
    REQUESTED = "requested"  # somebody cancelled it
    RAISED = "raised"  # the job cancelled itself
    EXPIRED = "expired"  # it had not started by `start_by`
    OVERLAP = "overlap"  # its schedule's newer occurrence replaced it


def may(source: State, target: State) -> bool:
    """Is there an edge from `source` to `target`?"""
    return target in TRANSITIONS[source]
