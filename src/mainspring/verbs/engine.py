"""The engine: what all verbs of one process share over its store.

One submitter groups everybody's jobs, one waiter looks for everybody's ends, one log of events serves all listeners. `verbs` gives
somebody the verbs for a tenant; that costs next to nothing, so each request makes its own.
"""

from typing import TYPE_CHECKING, Protocol

from mainspring.access.audit import Actor, AuditLog
from mainspring.store.contract import Store
from mainspring.submit import Submitter
from mainspring.verbs.drafts import Drafts
from mainspring.verbs.waiter import Waiter

if TYPE_CHECKING:
    from mainspring.verbs.local import LocalVerbs


class WorkerDesk(Protocol):
    """What operators may ask of the desk where workers register."""

    async def drain(self, session: bytes) -> None:
        """Ask a worker to take nothing new, finish and leave."""

    async def remove(self, session: bytes) -> None:
        """End its session at once."""


class Engine:
    """Made in the event loop in which it is used. `desk`: of the node in this process, if there is one."""

    def __init__(self, store: Store, *, desk: WorkerDesk | None = None) -> None:
        self.store = store
        self.desk = desk
        self.submitter = Submitter(store, store.clock)
        self.drafts = Drafts(store)
        self.waiter = Waiter(store)
        self.audit = AuditLog(store)
        self._silence = [store.subscribe(self.waiter.hear)]

    def verbs(self, tenant: str | None, actor: Actor) -> "LocalVerbs":
        """What `actor` may ask for one tenant, or for all of them (None)."""
        from mainspring.verbs.local import LocalVerbs  # whose groups need the engine

        return LocalVerbs(self, tenant, actor)

    def close(self) -> None:
        """Let everybody go who waits; the store is its opener's."""
        for unsubscribe in self._silence:
            unsubscribe()
        self.waiter.close()
