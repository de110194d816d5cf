"""Shorter leases for tests that would otherwise wait for them, and slower looks for tests of hints."""

from mainspring import node
from mainspring.app import handle
from mainspring.dispatch import dispatcher
from mainspring.execute.worker import Worker
from mainspring.sweep import ownership, rescuer, sweeper, ticker

HOUR_S = 3600.0


def shorten_lease(lease_s: float) -> None:
    """The real figures, scaled: everything that is measured against the lease shrinks with it."""
    scale = lease_s / ownership.LEASE_S
    for module in (ownership, node, rescuer):
        assert hasattr(module, "LEASE_S")
        module.LEASE_S = lease_s  # type: ignore[attr-defined]
    ownership.BEAT_S *= scale
    ownership.LOOK_S *= scale
    rescuer.LOOK_S *= scale
    set_heartbeat(3.0 * scale)


def set_heartbeat(seconds: float) -> None:
    """How often workers report."""
    defaults = Worker.__init__.__kwdefaults__
    assert defaults is not None
    assert "heartbeat_s" in defaults
    defaults["heartbeat_s"] = seconds


def slow_looks() -> None:
    """Nobody looks by himself any more: what happens now happens because of a hint."""
    sweeper.LOOK_S = ticker.LOOK_S = dispatcher.RELIST_S = dispatcher.STEAL_S = HOUR_S
    handle._SLOW_LOOK_S = HOUR_S
