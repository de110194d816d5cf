"""Shorter leases for tests that would otherwise wait for them, and slower looks for tests of hints."""

from typing import Any

from msgspec import structs

from mainspring import node
from mainspring.dispatch import dispatcher
from mainspring.execute.worker import Worker
from mainspring.store.postgres import database, lease
from mainspring.sweep import ownership, rescuer, sweeper, ticker
from mainspring.verbs import looking

HOUR_S = 3600.0


def shorten_lease(lease_s: float) -> None:
    """The real figures, scaled: everything that is measured against the lease shrinks with it."""
    scale = lease_s / ownership.LEASE_S
    for module in (ownership, node, rescuer):
        assert hasattr(module, "LEASE_S")
        module.LEASE_S = lease_s  # type: ignore[attr-defined]
    ownership.BEAT_S *= scale
    ownership.LOOK_S *= scale
    ownership.SLOW_LOOK_S *= scale
    rescuer.LOOK_S *= scale
    lease.ANSWER_S *= scale
    worker = worker_defaults()
    worker["heartbeat_s"] *= scale
    worker["backoff"] = structs.replace(
        worker["backoff"], cap_s=worker["backoff"].cap_s * scale
    )  # silent for no longer


def shorten_patience(patience_s: float) -> None:
    """How long an outage of PostgreSQL is waited out."""
    database.PATIENCE_S = patience_s


def worker_defaults() -> dict[str, Any]:
    """What a worker is made with where nobody says otherwise; changing it changes the workers made later."""
    defaults = Worker.__init__.__kwdefaults__
    assert defaults is not None
    assert "heartbeat_s" in defaults
    return defaults


def slow_looks() -> None:
    """Nobody looks by himself any more: what happens now happens because of a hint."""
    sweeper.LOOK_S = ticker.LOOK_S = ticker.REST_S = dispatcher.RELIST_S = dispatcher.STEAL_S = HOUR_S
    looking.SLOW_LOOK_S = HOUR_S
